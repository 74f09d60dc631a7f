/* The largest of many logits: the next token of a row, the next hypotheses of a beam. A row is read twice, and what is
   found depends on nothing but the row. NaN counts as the largest, as PyTorch has it; of equals the first comes first. */
#include "native.h"

#include <math.h>

typedef struct { /* the best so far, descending; bounded: whether only what is above `least` can be one of them */
    float *values;
    int64_t *places, found, room;
    float least;
    int bounded;
} Best;

/* Nothing yet, with room for so many. */
static inline Best best_in(float *values, int64_t *places, int64_t room) {
    return (Best){values, places, 0, room, 0.0f, 0};
}

static inline int is_above(float x, float y) { return isnan(x) ? !isnan(y) : x > y; }

/* Returns 0 if the value is below all that are kept: then the caller may skip all that are no larger. */
static inline int insert(Best *best, float value, int64_t place) {
    int64_t at = best->found;
    if (at == best->room) {
        if (!is_above(value, best->values[at - 1])) return 0;
        at--;
    } else {
        best->found++;
    }
    for (; at > 0 && is_above(value, best->values[at - 1]); at--)
        best->values[at] = best->values[at - 1], best->places[at] = best->places[at - 1];
    best->values[at] = value, best->places[at] = place;
    if (best->found == best->room) best->least = best->values[best->room - 1], best->bounded = 1;
    return 1;
}

/* Of a vector of numbers those above the worst of the best: all, until there are enough. */
static inline void look(Best *best, const float *x, int64_t i, Lanes lanes) {
    uint32_t found = bits_of(lanes);
    if (best->bounded) found &= above(load(lanes, x + i), every(best->least));
    for (; found; found &= found - 1) {
        int64_t place = i + __builtin_ctz(found);
        insert(best, x[place], place);
    }
}

enum { BLOCK = 64, PARTS = BLOCK / LANES };

enum { LONG = 8 * BLOCK, MOST = 64 }; /* MOST: that is searched for, as in logit_kernels.py */

/* The `count`th largest of the maxima of interleaved parts of x, which at least `count` numbers are no smaller than. In
   most rows few are larger, and each number that enters the best takes as long as a hundred that do not. */
static float floor_of(const float *x, int64_t width, int64_t count) {
    Floats most[PARTS];
    for (int part = 0; part < PARTS; part++) most[part] = every(-INFINITY);
    for (int64_t i = 0; i + BLOCK <= width; i += BLOCK)
        UNROLL(8)
        for (int part = 0; part < PARTS; part++) most[part] = larger(most[part], load_whole(x + i + LANES * part));
    int parts = PARTS;
    for (; parts % 2 == 0 && parts / 2 * LANES >= 4 * count; parts /= 2)
        for (int part = 0; part < parts / 2; part++) most[part] = larger(most[part], most[part + parts / 2]);
    float maxima[BLOCK], values[MOST];
    int64_t places[MOST];
    for (int part = 0; part < parts; part++) store_whole(maxima + LANES * part, most[part]);
    Best best = best_in(values, places, count);
    for (int i = 0; i < LANES * parts; i++) insert(&best, maxima[i], i);
    return values[count - 1];
}

/* x [width] -> the `best->room` largest, at most width. */
static void find(const float *x, int64_t width, Best *best) {
    int64_t i = 0;
    if (width >= LONG && best->room > 1 && best->room <= MOST) {
        float least = floor_of(x, width, best->room);
        if (least > -INFINITY) best->least = nextafterf(least, -INFINITY), best->bounded = 1;
    }
    for (; i < width && !best->bounded; i += LANES) look(best, x, i, before(i, width));
    for (; i + BLOCK <= width; i += BLOCK) { /* most of them hold nothing new */
        Floats least = every(best->least);
        uint32_t any = 0;
        UNROLL(8)
        for (int part = 0; part < PARTS; part++) any |= above(load_whole(x + i + LANES * part), least);
        if (any)
            for (int64_t part = i; part < i + BLOCK; part += LANES) look(best, x, part, before(part, width));
    }
    for (; i < width; i += LANES) look(best, x, i, before(i, width));
}

/* The first of the largest numbers of x [width], and its place. */
void find_likeliest(const float *x, int64_t width, float *value, int64_t *place) {
    Best best = best_in(value, place, 1);
    find(x, width, &best);
}

/* x [width], of which `largest` is the largest -> log of the sum of their exponentials. later [width]: what is searched
   afterwards; it is fetched meanwhile, for exponentials are slower than memory. */
static float log_total(const float *x, int64_t width, float largest, const float *later) {
    if (!isfinite(largest)) return NAN; /* as inf - inf is */
    Floats sums[PARTS], shift = every(largest); /* as many sums as a vector of any width needs to be as exact */
    for (int part = 0; part < PARTS; part++) sums[part] = every(0.0f);
    int64_t i = 0;
    for (; i + BLOCK <= width; i += BLOCK) {
        for (int line = 0; line < BLOCK; line += 16) fetch_to_l2(later + i + line);
        UNROLL(8)
        for (int part = 0; part < PARTS; part++)
            sums[part] = sums[part] + exponential(load_whole(x + i + LANES * part) - shift);
    }
    for (; i < width; i += LANES) {
        Lanes lanes = before(i, width);
        sums[0] = add_some(lanes, sums[0], exponential(load(lanes, x + i) - shift));
    }
    for (int half = PARTS / 2; half; half /= 2)
        for (int part = 0; part < half; part++) sums[part] = sums[part] + sums[part + half];
    return logf(sum_of(sums[0])) + largest;
}

/* Of each of `rows` rows of x, `stride` apart and `width` wide: its `count` largest, descending, and their places,
   [rows, count]. */
void likeliest(const float *x, int64_t rows, int64_t stride, int64_t width, int64_t count, float *values,
               int64_t *places) {
    for (int64_t row = 0; row < rows; row++, x += stride) {
        Best best = best_in(values + row * count, places + row * count, count);
        find(x, width, &best);
    }
}

/* Of each row the log of the sum of its exponentials, [rows]; largest [rows]. */
void log_totals(const float *x, int64_t rows, int64_t stride, int64_t width, const float *largest, float *totals) {
    for (int64_t row = 0; row < rows; row++)
        totals[row] = log_total(x + row * stride, width, largest[row], x + (row + 1 < rows ? row + 1 : row) * stride);
}

typedef struct {
    const float *x;
    int64_t stride, columns, count, hypotheses, threads;
    const int64_t *rows;
    float *values, *totals; /* [hypotheses, count], [hypotheses] */
    int64_t *places;        /* [hypotheses, count] */
} Searched;

static void search_hypothesis(const void *job, int64_t hypothesis, int64_t thread) {
    (void)thread;
    const Searched *s = job;
    if (shares_logits(s->rows, hypothesis)) return;
    int64_t later = hypothesis + s->threads; /* which this thread will probably take next */
    const float *row = s->x + s->rows[hypothesis] * s->stride;
    if (later >= s->hypotheses) later = hypothesis;
    Best own = best_in(s->values + hypothesis * s->count, s->places + hypothesis * s->count, s->count);
    find(row, s->columns, &own);
    s->totals[hypothesis] = log_total(row, s->columns, own.values[0], s->x + s->rows[later] * s->stride);
}

/* Writes values, parents and tokens of what it is given, and the room for them. threads: of `begin_team`. */
void find_continuations(int64_t threads, const Continuing *c) {
    int64_t hypotheses = c->beams * c->width;
    float *totals = c->row_values + hypotheses * c->count;
    Searched job = {c->x, c->stride, c->columns, c->count, hypotheses, threads, c->rows, c->row_values, totals, c->row_places};
    share(threads, search_hypothesis, &job, hypotheses);
    for (int64_t h = 0; h < hypotheses; h++) {
        if (!shares_logits(c->rows, h)) continue;
        memcpy(c->row_values + h * c->count, c->row_values + (h - 1) * c->count, (size_t)c->count * sizeof(float));
        memcpy(c->row_places + h * c->count, c->row_places + (h - 1) * c->count, (size_t)c->count * sizeof(int64_t));
        totals[h] = totals[h - 1];
    }
    for (int64_t beam = 0; beam < c->beams; beam++) {
        /* places: hypothesis · columns + token */
        Best best = best_in(c->values + beam * c->kept, c->tokens + beam * c->kept, c->kept);
        for (int64_t h = 0; h < c->width; h++) {
            int64_t hypothesis = beam * c->width + h;
            for (int64_t at = hypothesis * c->count; at < (hypothesis + 1) * c->count; at++) {
                float value = (c->row_values[at] - totals[hypothesis]) + c->so_far[hypothesis];
                if (!insert(&best, value, h * c->columns + c->row_places[at])) break;
            }
        }
        for (int64_t i = beam * c->kept; i < (beam + 1) * c->kept; i++)
            c->parents[i] = c->tokens[i] / c->columns, c->tokens[i] %= c->columns;
    }
}

/* The likeliest continuations of beams, as of `Continuing`. threads: at most. */
void continuations(const float *x, int64_t stride, int64_t columns, const int64_t *rows, int64_t beams, int64_t width,
                   const float *so_far, int64_t count, int64_t kept, float *values, int64_t *parents, int64_t *tokens,
                   float *row_values, int64_t *row_places, int64_t threads) {
    Continuing asked = {x, stride, columns, beams, width, count, kept, rows, so_far, values, row_values, parents, tokens, row_places};
    threads = begin_team(threads);
    find_continuations(threads, &asked);
    end_team(threads);
}
