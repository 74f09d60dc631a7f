/* Logits, label-smoothed cross-entropy and its gradients, in blocks of rows whose logits stay in the cache: no matrix
   of all rows' logits is ever made. */
#include "training.h"

#include <math.h>

enum { ROWS = 96, CHUNK = 8 * ROWS }; /* tokens whose logits a thread makes, and a call keeps at a time */

/* x [N, C], targets [N] -> the loss of each row [N]. The gradients are those of the losses' sum, and made where there
   is dx [N, C]. dlogits [CHUNK, V]: room for those of some tokens. pull: where it is not 0, the second half of the rows
   predicts the same tokens as the first, and pull/2 of KL(p, q) + KL(q, p) is added (R-Drop, Liang et al. 2021). */
typedef struct {
    int64_t threads, tokens;
    Linear output;
    float smoothing, pull;
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

/* One prediction: e^(logit - largest) in `powers`, which may be where the logits are, and 1/their sum; log Σ e^logit. */
typedef struct {
    float *powers, share, logsum;
} Prediction;

/* -(1 - e)·log p(target) - e/V·Σ log p */
static float predicted(const CrossEntropy *c, const float *logits, int64_t target, Prediction *p) {
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
        store_some(p->powers + v, power, size - v);
        sum += size - v < LANES ? choose(places(v) < (int32_t)size, power, all(0.0f)) : power;
    }
    float denominator = sum_of(sum);
    p->share = 1.0f / denominator, p->logsum = largest + logf(denominator);
    return p->logsum - (1.0f - c->smoothing) * chosen - c->smoothing / (float)size * sum_of(total);
}

/* p - (1 - e)·[target] - e/V, where the powers are */
static void alone_back(const CrossEntropy *c, float *powers, int64_t target, float share) {
    int64_t size = c->output.outputs;
    Floats each = all(c->smoothing / (float)size);
    for (int64_t v = 0; v < size; v += LANES)
        store_some(powers + v, load_some(powers + v, size - v, all(0.0f)) * all(share) - each, size - v);
    powers[target] -= 1.0f - c->smoothing;
}

/* Of two predictions of one token: with d = log p - log q, KL(p, q) + KL(q, p) = E_p[d] - E_q[d]. The gradient, in
   place of the logits, gets pull/2 of p·(d - E_p[d]) + p - q by the first and of q·(E_q[d] - d) + q - p by the second
   beside what each gets alone. */
static float pulled(const CrossEntropy *c, float *logits[2], const Prediction of[2], int64_t target) {
    int64_t size = c->output.outputs;
    Floats apart = all(of[0].logsum - of[1].logsum), zero = all(0.0f), means[2] = {zero, zero};
    for (int64_t v = 0; v < size; v += LANES) {
        int64_t left = size - v;
        Floats d = load_some(logits[0] + v, left, zero) - load_some(logits[1] + v, left, zero) - apart;
        for (int i = 0; i < 2; i++) means[i] += d * load_some(of[i].powers + v, left, zero);
    }
    float first = sum_of(means[0]) * of[0].share, second = sum_of(means[1]) * of[1].share, half = c->pull / 2;
    Floats each = all(c->smoothing / (float)size);
    for (int64_t v = 0; v < size && c->dx; v += LANES) {
        int64_t left = size - v;
        Floats d = load_some(logits[0] + v, left, zero) - load_some(logits[1] + v, left, zero) - apart;
        Floats p = load_some(of[0].powers + v, left, zero) * all(of[0].share);
        Floats q = load_some(of[1].powers + v, left, zero) * all(of[1].share);
        store_some(logits[0] + v, p - each + (p * (d - all(first)) + p - q) * all(half), left);
        store_some(logits[1] + v, q - each + (q * (all(second) - d) + q - p) * all(half), left);
    }
    for (int i = 0; i < 2 && c->dx; i++) logits[i][target] -= 1.0f - c->smoothing;
    return half * (first - second);
}

/* Rows first, ..., first + tokens - 1, and where predictions are pulled together as many from `other` on. */
typedef struct {
    const CrossEntropy *call;
    int64_t first, tokens, halves, other;
} Chunk;

static int64_t rows_of_block(const Chunk *chunk) { return ROWS / chunk->halves; }

/* Logits of a block's rows in one half, or their gradients. */
static float *logits_of(const Chunk *chunk, int64_t half, int64_t at) {
    return chunk->call->dlogits + (half * CHUNK / 2 + at) * chunk->call->output.outputs;
}

static void one_block(const void *job, int64_t block, float *scratch) {
    const Chunk *chunk = job;
    const CrossEntropy *c = chunk->call;
    int64_t at = block * rows_of_block(chunk), rows = smaller(rows_of_block(chunk), chunk->tokens - at);
    int64_t inputs = c->output.inputs, size = c->output.outputs, row[2] = {chunk->first + at, chunk->other + at};
    for (int64_t h = 0; h < chunk->halves; h++)
        forward_rows(&c->output, c->x + row[h] * inputs, rows, logits_of(chunk, h, at));
    for (int64_t r = 0; r < rows; r++) {
        float *logits[2] = {logits_of(chunk, 0, at + r), logits_of(chunk, 1, at + r)};
        Prediction of[2] = {{chunk->halves == 1 ? logits[0] : scratch, 0, 0}, {scratch + whole(size, LANES), 0, 0}};
        int64_t target = c->targets[row[0] + r];
        for (int64_t h = 0; h < chunk->halves; h++)
            c->losses[row[h] + r] = predicted(c, logits[h], target, &of[h]);
        if (chunk->halves == 2) c->losses[row[0] + r] += pulled(c, logits, of, target);
        else if (c->dx) alone_back(c, of[0].powers, target, of[0].share);
    }
    for (int64_t h = 0; h < chunk->halves && c->dx; h++)
        backward_rows(&c->output, logits_of(chunk, h, at), rows, c->dx + row[h] * inputs);
}

static void weight_gradients(const void *job, int64_t task, float *scratch) {
    (void)scratch;
    const Chunk *chunk = job;
    const CrossEntropy *c = chunk->call;
    const float *x[] = {c->x + chunk->first * c->output.inputs, c->x + chunk->other * c->output.inputs};
    for (int64_t h = 0; h < chunk->halves; h++)
        gradient(&c->output, logits_of(chunk, h, 0), x[h], chunk->tokens, task, h > 0 || chunk->first > 0);
}

int64_t cross_entropy(const CrossEntropy *c) {
    Phase turning = {turn_weights, turning_tasks(&c->output) + (c->dx ? straightening_tasks(&c->output) : 0)};
    int64_t status = run_phases(c->threads, &turning, 1, c, 0), halves = c->pull ? 2 : 1, tokens = c->tokens / halves;
    Chunk chunk = {c, 0, 0, halves, tokens};
    do {
        chunk.tokens = smaller(CHUNK / halves, tokens - chunk.first);
        Phase phases[] = {{one_block, (chunk.tokens + rows_of_block(&chunk) - 1) / rows_of_block(&chunk)},
                          {weight_gradients, gradient_tasks(&c->output)}};
        if (status == DONE)
            status = run_phases(c->threads, phases, c->dx ? 2 : 1, &chunk, 2 * whole(c->output.outputs, LANES));
        chunk.first += CHUNK / halves, chunk.other += CHUNK / halves;
    } while (chunk.first < tokens);
    return status;
}
