/* Logits, label-smoothed cross-entropy and its gradients, in blocks of rows whose logits stay in the cache: no matrix
   of all rows' logits is ever made. */
#include "training.h"

#include <math.h>

enum { ROWS = 96, CHUNK = 8 * ROWS }; /* tokens whose logits a thread makes, and a call keeps at a time */

/* x [N, C], targets [N] -> the loss of each row [N]. The gradients are those of the losses' sum, and made where there
   is dx [N, C]. dlogits [CHUNK, V]: room for those of some tokens. */
typedef struct {
    int64_t threads, tokens;
    Linear output;
    float smoothing;
    const float *x;
    const int64_t *targets;
    float *losses, *dx, *dlogits;
} CrossEntropy;

static void turn_weights(const void *job, int64_t task, float *scratch) {
    (void)scratch;
    const CrossEntropy *c = job;
    int64_t tasks = turning_tasks(&c->output);
    if (task < tasks) turn(&c->output, task);
    else straighten(&c->output, task - tasks);
}

/* -(1 - e)·log p(target) - e/V·Σ log p, and its gradient p - (1 - e)·[target] - e/V in place of the logits. */
static float one_row(const CrossEntropy *c, float *logits, int64_t target, int with_gradient) {
    int64_t size = c->output.outputs;
    Floats most = all(-INFINITY), total = all(0.0f), sum = all(0.0f);
    for (int64_t v = 0; v < size; v += LANES) {
        Floats x = load_some(logits + v, size - v, all(-INFINITY));
        most = choose(x > most, x, most);
        total += load_some(logits + v, size - v, all(0.0f));
    }
    float largest = largest_of(most), chosen = logits[target];
    for (int64_t v = 0; v < size; v += LANES) {
        Floats x = load_some(logits + v, size - v, all(-INFINITY)), power = exponential(x - all(largest));
        if (size - v < LANES) power = choose(x == all(-INFINITY), all(0.0f), power);
        if (with_gradient) store_some(logits + v, power, size - v);
        sum += power;
    }
    float denominator = sum_of(sum), logsum = largest + logf(denominator), each = c->smoothing / (float)size;
    if (with_gradient) {
        for (int64_t v = 0; v < size; v += LANES) {
            Floats p = load_some(logits + v, size - v, all(0.0f)) * all(1.0f / denominator);
            store_some(logits + v, p - all(each), size - v);
        }
        logits[target] -= 1.0f - c->smoothing;
    }
    return logsum - (1.0f - c->smoothing) * chosen - each * sum_of(total);
}

typedef struct {
    const CrossEntropy *call;
    int64_t first, tokens;
} Chunk;

static void one_block(const void *job, int64_t block, float *scratch) {
    (void)scratch;
    const Chunk *chunk = job;
    const CrossEntropy *c = chunk->call;
    int64_t at = block * ROWS, first = chunk->first + at, rows = smaller(ROWS, chunk->tokens - at);
    int64_t inputs = c->output.inputs;
    float *logits = c->dlogits + at * c->output.outputs;
    forward_rows(&c->output, c->x + first * inputs, rows, logits);
    for (int64_t r = 0; r < rows; r++)
        c->losses[first + r] = one_row(c, logits + r * c->output.outputs, c->targets[first + r], c->dx != NULL);
    if (c->dx) backward_rows(&c->output, logits, rows, c->dx + first * inputs);
}

static void weight_gradients(const void *job, int64_t task, float *scratch) {
    (void)scratch;
    const Chunk *chunk = job;
    const CrossEntropy *c = chunk->call;
    const float *x = c->x + chunk->first * c->output.inputs;
    gradient(&c->output, c->dlogits, x, chunk->tokens, task, chunk->first > 0);
}

int64_t cross_entropy(const CrossEntropy *c) {
    Phase turning = {turn_weights, turning_tasks(&c->output) + (c->dx ? straightening_tasks(&c->output) : 0)};
    int64_t status = run_phases(c->threads, &turning, 1, c, 0);
    Chunk chunk = {c, 0, 0};
    do {
        chunk.tokens = smaller(CHUNK, c->tokens - chunk.first);
        Phase phases[] = {{one_block, (chunk.tokens + ROWS - 1) / ROWS}, {weight_gradients, gradient_tasks(&c->output)}};
        if (status == DONE) status = run_phases(c->threads, phases, c->dx ? 2 : 1, &chunk, 0);
        chunk.first += CHUNK;
    } while (chunk.first < c->tokens);
    return status;
}
