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

/* -(1 - e)·log p(target) - e/V·Σ log p. Leaves e^(logit - largest) where the logits are, and 1/their sum in `share`. */
static float predicted(const CrossEntropy *c, float *logits, int64_t target, float *share) {
    int64_t size = c->output.outputs;
    Floats most = all(-INFINITY), total = all(0.0f), sum = all(0.0f);
    for (int64_t v = 0; v < size; v += LANES) {
        Floats x = load_some(logits + v, size - v, all(-INFINITY));
        most = choose(x > most, x, most);
        total += load_some(logits + v, size - v, all(0.0f));
    }
    float largest = largest_of(most), chosen = logits[target];
    for (int64_t v = 0; v < size; v += LANES) {
        Floats power = exponential(load_some(logits + v, size - v, all(-INFINITY)) - all(largest));
        store_some(logits + v, power, size - v);
        sum += size - v < LANES ? choose(places(v) < (int32_t)size, power, all(0.0f)) : power;
    }
    float denominator = sum_of(sum);
    *share = 1.0f / denominator;
    return largest + logf(denominator) - (1.0f - c->smoothing) * chosen - c->smoothing / (float)size * sum_of(total);
}

/* p - (1 - e)·[target] - e/V, where the powers are */
static void predicted_back(const CrossEntropy *c, float *powers, int64_t target, float share) {
    int64_t size = c->output.outputs;
    Floats each = all(c->smoothing / (float)size);
    for (int64_t v = 0; v < size; v += LANES)
        store_some(powers + v, load_some(powers + v, size - v, all(0.0f)) * all(share) - each, size - v);
    powers[target] -= 1.0f - c->smoothing;
}

/* Rows first, ..., first + tokens - 1. */
typedef struct {
    const CrossEntropy *call;
    int64_t first, tokens;
} Chunk;

static void one_block(const void *job, int64_t block, float *scratch) {
    (void)scratch;
    const Chunk *chunk = job;
    const CrossEntropy *c = chunk->call;
    int64_t at = block * ROWS, rows = smaller(ROWS, chunk->tokens - at), row = chunk->first + at;
    int64_t inputs = c->output.inputs, size = c->output.outputs;
    float *logits = c->dlogits + at * size, share;
    forward_rows(&c->output, c->x + row * inputs, rows, logits);
    for (int64_t r = 0; r < rows; r++) {
        int64_t target = c->targets[row + r];
        c->losses[row + r] = predicted(c, logits + r * size, target, &share);
        if (c->dx) predicted_back(c, logits + r * size, target, share);
    }
    if (c->dx) backward_rows(&c->output, logits, rows, c->dx + row * inputs);
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
        Phase phases[] = {{one_block, (chunk.tokens + ROWS - 1) / ROWS},
                          {weight_gradients, gradient_tasks(&c->output)}};
        if (status == DONE) status = run_phases(c->threads, phases, c->dx ? 2 : 1, &chunk, 0);
        chunk.first += CHUNK;
    } while (chunk.first < c->tokens);
    return status;
}
