/* What the kernels of training share: products in fp32, threads, layer norm, dropout. Rows are tokens, packed: no
   padding stands between the sentences. Every sum has an order of its own that neither the number of threads nor
   their luck changes, so that a run can be repeated to the bit. */
#pragma once

#include "vectors.h"

enum { TILE = 6 };

typedef uint32_t Words __attribute__((vector_size(LANES * 4)));

/* a[r, k] at at[r * row + k * step] */
typedef struct {
    const float *at;
    int64_t row, step;
} Left;

/* b[k, c] at at[c / PANEL * panel + k * row + c % PANEL], readable to whole vectors */
typedef struct {
    const float *at;
    int64_t row, panel;
} Right;

/* c[r, c] at at[r * row + c]; bias [columns] or NULL; add: onto what stands there */
typedef struct {
    float *at;
    int64_t row;
    const float *bias;
    int64_t add;
} Into;

/* y = x·Wᵀ + b, W [outputs, inputs]. straight and turned: room for copies in panels, for x·Wᵀ and for dy·W. */
typedef struct {
    const float *weight, *bias;
    float *weight_gradient, *bias_gradient, *turned, *straight;
    int64_t outputs, inputs;
} Linear;

typedef struct {
    uint64_t key;
    float rate; /* of what is dropped; 0: nothing */
} Dropout;

/* first [blocks + 1]: the sentence that each block begins with. own, source [sentences + 1]: their first tokens. */
typedef struct {
    int64_t threads, blocks, longest; /* longest: tokens of the largest block, of either side */
    const int64_t *first, *own, *source;
} Packing;

typedef void (*Work)(const void *job, int64_t task, float *scratch);
typedef struct {
    Work work;
    int64_t tasks;
} Phase;

/* All tasks of a phase, by whichever thread is free, then those of the next. scratch: floats for each thread. */
int64_t run_phases(int64_t threads, const Phase *phases, int64_t count, const void *job, int64_t scratch);

void product(int64_t rows, int64_t depth, int64_t columns, Left a, Right b, Into c);
void transpose_into(const float *from, int64_t row, int64_t rows, int64_t columns, float *to, int64_t to_row);

/* Each weight in tasks of one panel. */
int64_t turning_tasks(const Linear *linear);
int64_t straightening_tasks(const Linear *linear);
void turn(const Linear *linear, int64_t panel);
void straighten(const Linear *linear, int64_t panel);
void forward_rows(const Linear *linear, const float *x, int64_t rows, float *y);
void backward_rows(const Linear *linear, const float *dy, int64_t rows, float *dx);
/* dW = dyᵀ·x and db, in tasks. add: onto what stands there. */
int64_t gradient_tasks(const Linear *linear);
void gradient(const Linear *linear, const float *dy, const float *x, int64_t tokens, int64_t task,
              int64_t add);

/* What a row's draws hang on (splitmix64). Numbers that are counted, not stored: the backward pass draws them again, and
   it does not matter who draws first. */
static inline uint32_t key_of_row(const Dropout *dropout, int64_t row) {
    uint64_t x = dropout->key + (uint64_t)(row + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)(x >> 32);
}

static inline Ints places(int64_t first) {
    Ints lane;
    for (int i = 0; i < LANES; i++) lane[i] = i;
    return lane + (int32_t)first;
}

/* 1/(1 - rate), or 0 with the probability `rate`, for elements first, first + 1, ... of a row: 24 bits of a hash of
   their places (Chris Wellons' lowbias32) with the row's key before and between its rounds. */
static inline Floats kept(const Dropout *dropout, uint32_t row_key, int64_t first) {
    Words h = (Words)places(first) ^ row_key;
    h ^= h >> 16;
    h *= 0x7feb352du;
    h ^= h >> 15;
    h += row_key * 0x9e3779b9u;
    h *= 0x846ca68bu;
    h ^= h >> 16;
    Floats uniform = __builtin_convertvector((Ints)(h >> 8), Floats) * all(0x1p-24f);
    return choose(uniform >= all(dropout->rate), all(1.0f / (1.0f - dropout->rate)), all(0.0f));
}

static inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* In halves: the lanes' sums do not wait for each other. */
typedef float Half __attribute__((vector_size(LANES * 2)));
enum { FEW = LANES > 4 ? LANES / 4 : 2 }; /* of four lanes a half is few enough */
typedef float Few __attribute__((vector_size(FEW * 4)));

static inline float sum_of(Floats x) {
    Half halves[2];
    memcpy(halves, &x, sizeof(x));
    Half half = halves[0] + halves[1];
    Few parts[2];
    memcpy(parts, &half, sizeof(half));
    Few few = FEW < LANES / 2 ? parts[0] + parts[1] : parts[0];
    float total = few[0] + few[1];
    for (int i = 2; i < FEW; i += 2) total += few[i] + few[i + 1];
    return total;
}

static inline float largest_of(Floats x) {
    Half halves[2];
    memcpy(halves, &x, sizeof(x));
    for (int i = 0; i < LANES / 2; i++) halves[0][i] = halves[0][i] > halves[1][i] ? halves[0][i] : halves[1][i];
    float low = halves[0][0], high = halves[0][1];
    for (int i = 2; i < LANES / 2; i += 2) {
        low = halves[0][i] > low ? halves[0][i] : low;
        high = halves[0][i + 1] > high ? halves[0][i + 1] : high;
    }
    float most = high > low ? high : low;
    return most;
}
