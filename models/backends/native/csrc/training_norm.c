/* Layer norm by itself, as it stands on top of a stack. */
#include "training_residual.h"

typedef struct {
    int64_t threads, tokens;
    ResidualNorm around;
} Norm;

enum { ROWS = 64 };

static void forward_block(const void *job, int64_t block, float *scratch) {
    (void)scratch;
    const Norm *n = job;
    const ResidualNorm *a = &n->around;
    for (int64_t r = block * ROWS; r < smaller(n->tokens, (block + 1) * ROWS); r++)
        norm_row(a, a->x + r * a->width, a->y + r * a->width, a->statistics + 2 * r);
}

static void backward_block(const void *job, int64_t block, float *scratch) {
    (void)scratch;
    const Norm *n = job;
    const ResidualNorm *a = &n->around;
    float *partial = a->partial + block * 2 * a->width;
    memset(partial, 0, (size_t)a->width * 2 * sizeof(float));
    for (int64_t r = block * ROWS; r < smaller(n->tokens, (block + 1) * ROWS); r++) {
        int64_t at = r * a->width;
        norm_row_back(a, a->x + at, a->dy + at, a->statistics + 2 * r, NULL, a->dx + at, partial);
    }
}

int64_t norm(const Norm *n) {
    Phase phase = {forward_block, (n->tokens + ROWS - 1) / ROWS};
    return run_phases(n->threads, &phase, 1, n, 0);
}

int64_t norm_back(const Norm *n) {
    int64_t blocks = (n->tokens + ROWS - 1) / ROWS;
    Phase phase = {backward_block, blocks};
    int64_t status = run_phases(n->threads, &phase, 1, n, 0);
    norm_gradients(&n->around, blocks);
    return status;
}
