/* The largest of many logits: the next token of a row, the next hypotheses of a beam. A row is read twice, and what is
   found depends on nothing but the row. NaN counts as the largest, as PyTorch has it; of equals the first comes first. */
#include "native.h"

#include <math.h>

typedef struct { /* the best so far, descending */
    float *values;
    int64_t *places, found, room;
} Best;

static inline int above(float x, float y) { return isnan(x) ? !isnan(y) : x > y; }

/* 0 if it is none of the best: then nothing that is not above it is. */
static inline int insert(Best *best, float value, int64_t place) {
    int64_t at = best->found;
    if (at == best->room) {
        if (!above(value, best->values[at - 1])) return 0;
        at--;
    } else {
        best->found++;
    }
    for (; at > 0 && above(value, best->values[at - 1]); at--)
        best->values[at] = best->values[at - 1], best->places[at] = best->places[at - 1];
    best->values[at] = value, best->places[at] = place;
    return 1;
}

/* Of 16 numbers those above the worst of the best: all, until there are enough. */
static inline __mmask16 better(const Best *best, __m512 x) {
    if (best->found < best->room) return 0xffff;
    return _mm512_cmp_ps_mask(x, _mm512_set1_ps(best->values[best->room - 1]), _CMP_NLE_UQ);
}

static inline void look(Best *best, const float *x, int64_t i, __mmask16 lanes) {
    __mmask16 found = better(best, _mm512_maskz_loadu_ps(lanes, x + i)) & lanes;
    for (; found; found &= (__mmask16)(found - 1)) {
        int64_t place = i + __builtin_ctz(found);
        insert(best, x[place], place);
    }
}

/* x [width] -> the `best->room` largest, at most width. */
static void find(const float *x, int64_t width, Best *best) {
    int64_t i = 0;
    for (; i < width && best->found < best->room; i += 16) look(best, x, i, before(i, width));
    for (; i + 64 <= width; i += 64) { /* most of them hold nothing new */
        __m512 least = _mm512_set1_ps(best->values[best->room - 1]);
        __mmask16 any = _mm512_cmp_ps_mask(_mm512_loadu_ps(x + i), least, _CMP_NLE_UQ) |
                        _mm512_cmp_ps_mask(_mm512_loadu_ps(x + i + 16), least, _CMP_NLE_UQ) |
                        _mm512_cmp_ps_mask(_mm512_loadu_ps(x + i + 32), least, _CMP_NLE_UQ) |
                        _mm512_cmp_ps_mask(_mm512_loadu_ps(x + i + 48), least, _CMP_NLE_UQ);
        if (any)
            for (int64_t part = i; part < i + 64; part += 16) look(best, x, part, 0xffff);
    }
    for (; i < width; i += 16) look(best, x, i, before(i, width));
}

/* x [width], of which `largest` is the largest -> log of the sum of their exponentials. */
static float log_total(const float *x, int64_t width, float largest) {
    if (!isfinite(largest)) return NAN; /* as inf - inf is */
    __m512 sums[4], shift = _mm512_set1_ps(largest);
    for (int s = 0; s < 4; s++) sums[s] = _mm512_setzero_ps();
    int64_t i = 0;
    for (; i + 64 <= width; i += 64)
#pragma GCC unroll 4
        for (int s = 0; s < 4; s++)
            sums[s] = _mm512_add_ps(sums[s], exponential(_mm512_sub_ps(_mm512_loadu_ps(x + i + 16 * s), shift)));
    for (; i < width; i += 16) {
        __mmask16 lanes = before(i, width);
        __m512 part = exponential(_mm512_sub_ps(_mm512_maskz_loadu_ps(lanes, x + i), shift));
        sums[0] = _mm512_mask_add_ps(sums[0], lanes, sums[0], part);
    }
    __m512 sum = _mm512_add_ps(_mm512_add_ps(sums[0], sums[1]), _mm512_add_ps(sums[2], sums[3]));
    return logf(_mm512_reduce_add_ps(sum)) + largest;
}

/* Of each of `rows` rows of x, `stride` apart and `width` wide: its `count` largest, descending, and their places,
   [rows, count]. */
void likeliest(const float *x, int64_t rows, int64_t stride, int64_t width, int64_t count, float *values,
               int64_t *places) {
    for (int64_t row = 0; row < rows; row++, x += stride) {
        Best best = {values + row * count, places + row * count, 0, count};
        find(x, width, &best);
    }
}

/* Of each row the log of the sum of its exponentials, [rows]; largest [rows]. */
void log_totals(const float *x, int64_t rows, int64_t stride, int64_t width, const float *largest, float *totals) {
    for (int64_t row = 0; row < rows; row++) totals[row] = log_total(x + row * stride, width, largest[row]);
}

/* The likeliest continuations of beams of `width` hypotheses. rows [beams, width]: which row of x is which hypothesis;
   so_far [beams, width]: their log-probabilities; count: continuations of each that are looked at, at most 2·width.
   values, parents, tokens [beams, kept]: log-probability, hypothesis, token. room: 2·width floats and as many int64 for
   what is found in one row. */
void continuations(const float *x, int64_t stride, int64_t columns, const int64_t *rows, int64_t beams, int64_t width,
                   const float *so_far, int64_t count, int64_t kept, float *values, int64_t *parents, int64_t *tokens,
                   float *row_values, int64_t *row_places) {
    for (int64_t beam = 0; beam < beams; beam++, rows += width, so_far += width) {
        Best best = {values + beam * kept, tokens + beam * kept, 0, kept}; /* places: hypothesis · columns + token */
        for (int64_t h = 0; h < width; h++) {
            const float *row = x + rows[h] * stride;
            Best own = {row_values, row_places, 0, count};
            find(row, columns, &own);
            float total = log_total(row, columns, own.values[0]);
            for (int64_t rank = 0; rank < count; rank++)
                if (!insert(&best, (own.values[rank] - total) + so_far[h], h * columns + own.places[rank])) break;
        }
        for (int64_t i = beam * kept; i < (beam + 1) * kept; i++)
            parents[i] = tokens[i] / columns, tokens[i] %= columns;
    }
}
