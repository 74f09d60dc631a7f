/* What stands between the products: attention of one query over a cache, and layer norm. */
#include "native.h"

#include <math.h>
#include <string.h>

/* x [rows, width] -> y [rows, width], which may be x. */
void normalize(const Norm *norm, const float *x, int64_t rows, int64_t width, float *y) {
    for (int64_t row = 0; row < rows; row++, x += width, y += width) {
        float total = 0, squares = 0;
#pragma omp simd reduction(+ : total)
        for (int64_t i = 0; i < width; i++) total += x[i];
        float mean = total / (float)width;
#pragma omp simd reduction(+ : squares)
        for (int64_t i = 0; i < width; i++) squares += (x[i] - mean) * (x[i] - mean);
        float factor = 1.0f / sqrtf(squares / (float)width + norm->epsilon);
#pragma omp simd
        for (int64_t i = 0; i < width; i++) y[i] = (x[i] - mean) * factor * norm->weight[i] + norm->bias[i];
    }
}

/* q·k of all heads with all positions; positions outside, because all heads of one stand together. */
static inline __attribute__((always_inline)) void score(
    const float *query, Readable row, int64_t heads, const int64_t width, float scale, int64_t room, float *scores) {
    for (int64_t t = 0; t < row.length; t++)
        for (int64_t h = 0; h < heads; h++) {
            const float *q = query + h * width, *k = row.keys + t * row.stride + h * width;
            float product = 0;
#pragma omp simd reduction(+ : product)
            for (int64_t d = 0; d < width; d++) product += q[d] * k[d];
            scores[h * room + t] = product * scale;
        }
}

/* scores [length] -> weights that sum to 1. */
static void soften(float *scores, int64_t length) {
    __m512 most = _mm512_set1_ps(-INFINITY), total = _mm512_setzero_ps();
    for (int64_t t = 0; t < length; t += 16)
        most = _mm512_mask_max_ps(most, before(t, length), most, _mm512_maskz_loadu_ps(before(t, length), scores + t));
    most = _mm512_set1_ps(_mm512_reduce_max_ps(most));
    for (int64_t t = 0; t < length; t += 16) {
        __mmask16 lanes = before(t, length);
        __m512 weight = exponential(_mm512_sub_ps(_mm512_maskz_loadu_ps(lanes, scores + t), most));
        _mm512_mask_storeu_ps(scores + t, lanes, weight);
        total = _mm512_mask_add_ps(total, lanes, total, weight);
    }
    float share = 1.0f / _mm512_reduce_add_ps(total);
    for (int64_t t = 0; t < length; t++) scores[t] *= share;
}

static inline __attribute__((always_inline)) void gather(
    Readable row, int64_t heads, const int64_t width, int64_t room, const float *weights, float *context) {
    memset(context, 0, (size_t)(heads * width) * sizeof(float));
    for (int64_t t = 0; t < row.length; t++)
        for (int64_t h = 0; h < heads; h++) {
            const float weight = weights[h * room + t], *v = row.values + t * row.stride + h * width;
            float *c = context + h * width;
#pragma omp simd
            for (int64_t d = 0; d < width; d++) c[d] += weight * v[d];
        }
}

/* query [H·D] -> context [H·D]. scores: room for [H, length]. */
void attend(const Model *m, const float *query, Readable row, float *scores, float *context) {
    switch (m->head_width) { /* known widths are unrolled */
    case 32: score(query, row, m->heads, 32, m->scale, row.length, scores); break;
    case 64: score(query, row, m->heads, 64, m->scale, row.length, scores); break;
    default: score(query, row, m->heads, m->head_width, m->scale, row.length, scores);
    }
    for (int64_t h = 0; h < m->heads; h++) soften(scores + h * row.length, row.length);
    switch (m->head_width) {
    case 32: gather(row, m->heads, 32, row.length, scores, context); break;
    case 64: gather(row, m->heads, 64, row.length, scores, context); break;
    default: gather(row, m->heads, m->head_width, row.length, scores, context);
    }
}
