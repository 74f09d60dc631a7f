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

/* x [width] -> y [width] */
void halve(const float *x, int64_t width, Half *y) {
    for (int64_t i = 0; i < width; i += LANES) store_half(y + i, before(i, width), load(before(i, width), x + i));
}

enum { TOGETHER = 4 };                        /* positions */
enum { OF_LINE = 64 / (int)sizeof(Half) };    /* numbers of a line of memory */

/* The keys `t` positions after the first of a row, where those behind its end are the next row's. */
static inline const Half *keys_at(Readable row, Readable next, int64_t t) {
    if (t < row.length) return row.keys + t * row.stride;
    t -= row.length;
    return next.keys + (t < next.length ? t : 0) * next.stride;
}

static inline void fetch_line(const Half *from) { fetch(from); }

/* q·k of all heads with all positions; positions outside, because all heads of one stand together. Scores of a head
   are `room` apart. A position is a page of its own, so the CPU does not foresee what is read next: the values of the
   same positions, for `gather`, and the keys of the following ones are fetched meanwhile. */
static inline __attribute__((always_inline)) void score(const float *query, Readable row, Readable next, int64_t heads,
                                                        const int64_t width, float scale, int64_t room, float *scores) {
    int64_t values = row.values - row.keys;
    for (int64_t t = 0; t < row.length; t += TOGETHER) {
        int64_t last = row.length - 1; /* behind it, it is read again, and what comes of that is not stored */
        const Half *k0 = row.keys + t * row.stride, *k1 = row.keys + (t + 1 < last ? t + 1 : last) * row.stride;
        const Half *k2 = row.keys + (t + 2 < last ? t + 2 : last) * row.stride;
        const Half *k3 = row.keys + (t + 3 < last ? t + 3 : last) * row.stride;
        const Half *n0 = keys_at(row, next, t + TOGETHER), *n1 = keys_at(row, next, t + TOGETHER + 1);
        const Half *n2 = keys_at(row, next, t + TOGETHER + 2), *n3 = keys_at(row, next, t + TOGETHER + 3);
        for (int64_t h = 0; h < heads; h++) {
            Floats s0 = every(0.0f), s1 = s0, s2 = s0, s3 = s0;
            for (int64_t d = h * width, end = d + width; d < end; d += LANES) {
                Lanes lanes = before(d, end);
                if (d % OF_LINE < LANES) {
                    fetch_line(n0 + d), fetch_line(n1 + d), fetch_line(n2 + d), fetch_line(n3 + d);
                    fetch_line(k0 + values + d), fetch_line(k1 + values + d);
                    fetch_line(k2 + values + d), fetch_line(k3 + values + d);
                }
                Floats q = load(lanes, query + d);
                s0 = multiply_add(q, load_half(lanes, k0 + d), s0);
                s1 = multiply_add(q, load_half(lanes, k1 + d), s1);
                s2 = multiply_add(q, load_half(lanes, k2 + d), s2);
                s3 = multiply_add(q, load_half(lanes, k3 + d), s3);
            }
            Four four = sums_of(s0, s1, s2, s3) * scale;
            store_four(scores + h * room + t, row.length - t, four);
        }
    }
}

/* scores [length] -> weights that sum to 1. */
static void soften(float *scores, int64_t length) {
    Floats most = every(-INFINITY), total = every(0.0f);
    for (int64_t t = 0; t < length; t += LANES)
        most = larger_some(before(t, length), most, load(before(t, length), scores + t));
    most = every(largest_of(most));
    for (int64_t t = 0; t < length; t += LANES) {
        Lanes lanes = before(t, length);
        Floats weight = exponential(load(lanes, scores + t) - most); /* behind the end no -inf: e^-inf takes long */
        store(scores + t, lanes, weight);
        total = add_some(lanes, total, weight);
    }
    float share = 1.0f / sum_of(total);
    for (int64_t t = 0; t < length; t++) scores[t] *= share;
}

/* What the positions hold, times their weights. */
static inline __attribute__((always_inline)) void gather(
    Readable row, int64_t heads, const int64_t width, int64_t room, const float *weights, float *context) {
    memset(context, 0, (size_t)(heads * width) * sizeof(float));
    for (int64_t t = 0; t < row.length; t += TOGETHER) {
        int64_t end = t + TOGETHER < row.length ? t + TOGETHER : row.length;
        for (int64_t h = 0; h < heads; h++)
            for (int64_t d = h * width; d < (h + 1) * width; d += LANES) {
                Lanes lanes = before(d, (h + 1) * width);
                Floats sum = load(lanes, context + d);
                for (int64_t u = t; u < end; u++)
                    sum = multiply_add(every(weights[h * room + u]), load_half(lanes, row.values + u * row.stride + d), sum);
                store(context + d, lanes, sum);
            }
    }
}

enum { REGISTERS = LANES == 4 ? 16 : 4 }; /* whose sums are 64 floats, or 32 */

/* The same with sums in registers, where heads fill these. */
static inline __attribute__((always_inline)) void gather_few(
    Readable row, int64_t heads, const int64_t width, int64_t room, const float *weights, float *context) {
    const int of_head = (int)(width / LANES); /* vectors */
    for (int64_t d = 0; d < heads * width; d += REGISTERS * LANES) {
        Floats sums[REGISTERS];
        UNROLL(REGISTERS)
        for (int v = 0; v < REGISTERS; v++) sums[v] = every(0.0f);
        const Half *value = row.values + d;
        const float *weight = weights + d / width * room;
        for (int64_t t = 0; t < row.length; t++, value += row.stride)
            UNROLL(REGISTERS)
            for (int v = 0; v < REGISTERS; v++)
                sums[v] = multiply_add(every(weight[v / of_head * room + t]), load_whole_half(value + LANES * v), sums[v]);
        UNROLL(REGISTERS)
        for (int v = 0; v < REGISTERS; v++) store_whole(context + d + LANES * v, sums[v]);
    }
}

/* query [H·D] -> context [H·D]. next: the row that comes after it, or the same. scores: room for [H, length]. */
void attend(const Model *m, const float *query, Readable row, Readable next, float *scores, float *context) {
    switch (m->head_width) { /* known widths are unrolled */
    case 32: score(query, row, next, m->heads, 32, m->scale, row.length, scores); break;
    case 64: score(query, row, next, m->heads, 64, m->scale, row.length, scores); break;
    default: score(query, row, next, m->heads, m->head_width, m->scale, row.length, scores);
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
