/* Logits, label-smoothed cross-entropy and its gradients, in blocks of rows whose logits stay in the cache: no matrix
   of all rows' logits is ever made. */
#include "training.h"

#include <math.h>

enum { ROWS = 96 };

/* x [N, C], targets [N]: loss of each row [N], summed by the caller; dx [N, C]; the gradients are those of the sum and
   are made where `dlogits` [N, whole(V)] is given. logsum [N]. */
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
    float largest = -INFINITY, chosen = logits[target];
    for (int i = 0; i < LANES; i++) largest = most[i] > largest ? most[i] : largest;
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

static void one_block(const void *job, int64_t block, float *scratch) {
    const CrossEntropy *c = job;
    int64_t first = block * ROWS, rows = smaller(ROWS, c->tokens - first), inputs = c->output.inputs;
    float *logits = c->dlogits ? c->dlogits + first * c->output.outputs : scratch;
    forward_rows(&c->output, c->x + first * inputs, rows, logits);
    for (int64_t r = 0; r < rows; r++)
        c->losses[first + r] =
            one_row(c, logits + r * c->output.outputs, c->targets[first + r], c->dlogits != NULL);
    if (c->dlogits) backward_rows(&c->output, logits, rows, c->dx + first * inputs);
}

static void weight_gradients(const void *job, int64_t task, float *scratch) {
    (void)scratch;
    const CrossEntropy *c = job;
    gradient(&c->output, c->dlogits, c->x, c->tokens, task);
}

int64_t cross_entropy(const CrossEntropy *c) {
    int64_t turning = turning_tasks(&c->output), blocks = (c->tokens + ROWS - 1) / ROWS;
    Phase phases[] = {{turn_weights, turning + (c->dlogits ? straightening_tasks(&c->output) : 0)},
                      {one_block, blocks},
                      {weight_gradients, gradient_tasks(&c->output)}};
    return run_phases(c->threads, phases, c->dlogits ? 3 : 2, c, c->dlogits ? 0 : ROWS * c->output.outputs);
}
