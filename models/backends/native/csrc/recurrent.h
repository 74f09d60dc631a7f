/* Laid out as in recurrent.py. N hidden width, G gates; gates lie `padded` = N rounded up to 16 floats apart. */
#pragma once

#include "vectors.h"

typedef struct { /* weight in panels, see matrices.c; bias [O], padded to whole panels */
    const float *weight, *bias;
    int64_t outputs, inputs;
} Matrix;

typedef struct { /* [G * padded, N]; input: unused in the first layer, whose input is looked up */
    Matrix input, recurrent;
} Layer;

typedef struct { /* table [V, G * padded]: what the first layer gets from each token */
    int64_t cell, layers, hidden, padded, vocabulary;
    const float *table;
    const Layer *layer;
    Matrix output;
} Recurrent;

typedef struct { /* [L, slots, N] */
    float *hidden, *memory;
    int64_t slots;
} State;

/* x: where each row stands. y [rows, stride]: of each row, `outputs` are written. */
void multiply(const Matrix *m, const float *const *x, int64_t rows, float *y, int64_t stride);
