/* What stands around every sublayer f. pre-norm: y = x + drop(f(norm(x))); post-norm: y = norm(x + drop(f(x))). */
#pragma once

#include "training.h"

/* statistics [N, 2]: mean and 1/deviation of what is normed. normed [N, C]: what f reads. sum [N, C]: x + drop(f(.)),
   of a post-norm alone. dropped [N, C]: the gradient of f's output. partial [blocks, 2, C]: of weight and bias. */
typedef struct {
    int64_t width, before;
    const float *weight, *bias;
    float *weight_gradient, *bias_gradient;
    float epsilon;
    Dropout dropout;
    const float *x;
    float *y, *statistics, *normed, *sum;
    const float *dy;
    float *dx, *dropped, *partial;
} ResidualNorm;

/* Of rows first, ..., first + rows - 1: what f reads; y from f's output; the gradient of f's output; dx from that of
   f's input, which may stand where dx goes. */
const float *enter(const ResidualNorm *around, int64_t first, int64_t rows);
void leave(const ResidualNorm *around, int64_t first, int64_t rows, const float *output);
const float *leave_back(const ResidualNorm *around, int64_t block, int64_t first, int64_t rows, float *scratch);
void enter_back(const ResidualNorm *around, int64_t block, int64_t first, int64_t rows, const float *residual,
                const float *dread);
void norm_row(const ResidualNorm *around, const float *x, float *y, float *statistics);
void norm_row_back(const ResidualNorm *around, const float *x, const float *dy, const float *statistics, const float *onto,
                   float *dx, float *partial);
void norm_gradients(const ResidualNorm *around, int64_t blocks);
