/* The feed-forward sublayer with all that stands around it. A block's rows go through it whole, so that nothing but
   what the backward pass reads leaves the cache. */
#include "training_residual.h"

/* hidden [N, F]: after ReLU and dropout. dhidden [N, F]: the gradient before these. */
typedef struct {
    Packing packing;
    ResidualNorm around;
    Linear widen, narrow;
    Dropout dropout;
    float *hidden, *dhidden;
} FeedForward;

static int64_t block_start(const FeedForward *f, int64_t block) { return f->packing.own[f->packing.first[block]]; }

static void turn_weights(const void *job, int64_t task, float *scratch) {
    (void)scratch;
    const FeedForward *f = job;
    int64_t tasks = turning_tasks(&f->widen);
    if (task < tasks) turn(&f->widen, task);
    else turn(&f->narrow, task - tasks);
}

static void straighten_weights(const void *job, int64_t task, float *scratch) {
    (void)scratch;
    const FeedForward *f = job;
    int64_t tasks = straightening_tasks(&f->widen);
    if (task < tasks) straighten(&f->widen, task);
    else straighten(&f->narrow, task - tasks);
}

static void forward_block(const void *job, int64_t block, float *scratch) {
    const FeedForward *f = job;
    int64_t first = block_start(f, block), rows = block_start(f, block + 1) - first, inner = f->widen.outputs;
    float *hidden = f->hidden + first * inner;
    forward_rows(&f->widen, enter(&f->around, first, rows), rows, hidden);
    for (int64_t r = 0; r < rows; r++) {
        float *row = hidden + r * inner;
        uint32_t key = key_of_row(&f->dropout, first + r);
        for (int64_t c = 0; c < inner; c += LANES) {
            Floats value = load_some(row + c, inner - c, all(0.0f));
            value = choose(value <= all(0.0f), all(0.0f), value); /* what is no number stays none */
            if (f->dropout.rate > 0) value *= kept(&f->dropout, key, c);
            store_some(row + c, value, inner - c);
        }
    }
    forward_rows(&f->narrow, hidden, rows, scratch);
    leave(&f->around, first, rows, scratch);
}

static void backward_block(const void *job, int64_t block, float *scratch) {
    const FeedForward *f = job;
    int64_t first = block_start(f, block), rows = block_start(f, block + 1) - first;
    int64_t inner = f->widen.outputs, width = f->around.width;
    const float *ds = leave_back(&f->around, block, first, rows, scratch);
    float *dhidden = f->dhidden + first * inner, *dread = scratch + f->packing.longest * width;
    const float *hidden = f->hidden + first * inner;
    backward_rows(&f->narrow, f->around.dropped + first * width, rows, dhidden);
    Floats scale = all(1.0f / (1.0f - f->dropout.rate)), zero = all(0.0f);
    for (int64_t i = 0; i < rows * inner; i += LANES) {
        int64_t left = rows * inner - i;
        Floats open = choose(load_some(hidden + i, left, zero) > zero, scale, zero);
        store_some(dhidden + i, load_some(dhidden + i, left, zero) * open, left);
    }
    backward_rows(&f->widen, dhidden, rows, dread);
    enter_back(&f->around, block, first, rows, ds, dread);
}

static void weight_gradients(const void *job, int64_t task, float *scratch) {
    (void)scratch;
    const FeedForward *f = job;
    const Packing *p = &f->packing;
    const float *read = f->around.before ? f->around.normed : f->around.x;
    int64_t tokens = p->own[p->first[p->blocks]], wide = gradient_tasks(&f->widen), narrow = gradient_tasks(&f->narrow);
    if (task < wide) gradient(&f->widen, f->dhidden, read, tokens, task, 0);
    else if (task < wide + narrow) gradient(&f->narrow, f->around.dropped, f->hidden, tokens, task - wide, 0);
    else norm_gradients(&f->around, p->blocks);
}

int64_t feed_forward(const FeedForward *f) {
    Phase phases[] = {{turn_weights, turning_tasks(&f->widen) + turning_tasks(&f->narrow)},
                      {forward_block, f->packing.blocks}};
    return run_phases(f->packing.threads, phases, 2, f, f->packing.longest * f->around.width);
}

int64_t feed_forward_back(const FeedForward *f) {
    Phase phases[] = {{straighten_weights, straightening_tasks(&f->widen) + straightening_tasks(&f->narrow)},
                      {backward_block, f->packing.blocks},
                      {weight_gradients, gradient_tasks(&f->widen) + gradient_tasks(&f->narrow) + 1}};
    return run_phases(f->packing.threads, phases, 3, f, 2 * f->packing.longest * f->around.width);
}
