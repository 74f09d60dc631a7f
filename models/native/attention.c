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

enum { TOGETHER = 4 }; /* positions */

/* The sums of four vectors. */
static inline __m128 totals(__m512 a, __m512 b, __m512 c, __m512 d) {
    __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    __m512 all = _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
    __m256 half = _mm256_add_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps(all, 1));
    return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}

/* q·k of all heads with all positions; positions outside, because all heads of one stand together. Scores of a head
   are `room` apart. */
static inline __attribute__((always_inline)) void score(
    const float *query, Readable row, int64_t heads, const int64_t width, float scale, int64_t room, float *scores) {
    for (int64_t t = 0; t < row.length; t += TOGETHER) {
        int64_t last = row.length - 1; /* behind it, it is read again, and what comes of that is not stored */
        const float *k0 = row.keys + t * row.stride, *k1 = row.keys + (t + 1 < last ? t + 1 : last) * row.stride;
        const float *k2 = row.keys + (t + 2 < last ? t + 2 : last) * row.stride;
        const float *k3 = row.keys + (t + 3 < last ? t + 3 : last) * row.stride;
        for (int64_t h = 0; h < heads; h++) {
            __m512 s0 = _mm512_setzero_ps(), s1 = s0, s2 = s0, s3 = s0;
            for (int64_t d = h * width, end = d + width; d < end; d += 16) {
                __mmask16 lanes = before(d, end);
                __m512 q = _mm512_maskz_loadu_ps(lanes, query + d);
                s0 = _mm512_fmadd_ps(q, _mm512_maskz_loadu_ps(lanes, k0 + d), s0);
                s1 = _mm512_fmadd_ps(q, _mm512_maskz_loadu_ps(lanes, k1 + d), s1);
                s2 = _mm512_fmadd_ps(q, _mm512_maskz_loadu_ps(lanes, k2 + d), s2);
                s3 = _mm512_fmadd_ps(q, _mm512_maskz_loadu_ps(lanes, k3 + d), s3);
            }
            __m128 four = _mm_mul_ps(totals(s0, s1, s2, s3), _mm_set1_ps(scale));
            _mm_mask_storeu_ps(scores + h * room + t, (__mmask8)before(t, row.length) & 15, four);
        }
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

/* What the positions hold, times their weights. */
static inline __attribute__((always_inline)) void gather(
    Readable row, int64_t heads, const int64_t width, int64_t room, const float *weights, float *context) {
    memset(context, 0, (size_t)(heads * width) * sizeof(float));
    for (int64_t t = 0; t < row.length; t += TOGETHER) {
        int64_t end = t + TOGETHER < row.length ? t + TOGETHER : row.length;
        for (int64_t h = 0; h < heads; h++)
            for (int64_t d = h * width; d < (h + 1) * width; d += 16) {
                __mmask16 lanes = before(d, (h + 1) * width);
                __m512 sum = _mm512_maskz_loadu_ps(lanes, context + d);
                for (int64_t u = t; u < end; u++)
                    sum = _mm512_fmadd_ps(_mm512_set1_ps(weights[h * room + u]),
                                          _mm512_maskz_loadu_ps(lanes, row.values + u * row.stride + d), sum);
                _mm512_mask_storeu_ps(context + d, lanes, sum);
            }
    }
}

/* The same with sums in registers, 64 floats at a time, where heads fill these. */
static inline __attribute__((always_inline)) void gather_few(
    Readable row, int64_t heads, const int64_t width, int64_t room, const float *weights, float *context) {
    for (int64_t d = 0; d < heads * width; d += 64) {
        __m512 sums[4];
        const float *weight[4];
#pragma GCC unroll 4
        for (int v = 0; v < 4; v++) sums[v] = _mm512_setzero_ps(), weight[v] = weights + (d + 16 * v) / width * room;
        const float *value = row.values + d;
        for (int64_t t = 0; t < row.length; t++, value += row.stride)
#pragma GCC unroll 4
            for (int v = 0; v < 4; v++)
                sums[v] = _mm512_fmadd_ps(_mm512_set1_ps(weight[v][t]), _mm512_loadu_ps(value + 16 * v), sums[v]);
#pragma GCC unroll 4
        for (int v = 0; v < 4; v++) _mm512_storeu_ps(context + d + 16 * v, sums[v]);
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
    case 32:
        if (m->heads % 2 == 0) gather_few(row, m->heads, 32, row.length, scores, context);
        else gather(row, m->heads, 32, row.length, scores, context);
        break;
    case 64: gather_few(row, m->heads, 64, row.length, scores, context); break;
    default: gather(row, m->heads, m->head_width, row.length, scores, context);
    }
}
