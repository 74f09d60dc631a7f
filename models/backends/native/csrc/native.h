/* What the files of this library share. `Product`, `Norm`, ... are laid out as in packing.py and int8_transformer.py.

   Rows are float32, one below the other. C d_model, H heads, D head width, I inputs and O outputs of a product. */
#pragma once

#include "unroll.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__aarch64__)
#include "neon.h"
#elif defined(__AVX512F__)
#include "avx512.h"
#else
#include "avx2.h"
#endif

#ifndef __AVX512F__ /* whose loads and stores have masks of 16 bits */
static inline Floats load_half(Lanes lanes, const Half *from) {
    if (lanes >= LANES) return load_whole_half(from);
    Half some[LANES] = {0};
    if (lanes > 0) memcpy(some, from, (size_t)lanes * sizeof(Half));
    return load_whole_half(some);
}
static inline void store_half(Half *to, Lanes lanes, Floats x) {
    if (lanes >= LANES) {
        store_whole_half(to, x);
        return;
    }
    Half some[LANES];
    store_whole_half(some, x);
    if (lanes > 0) memcpy(to, some, (size_t)lanes * sizeof(Half));
}
#endif

enum { DONE, NO_MEMORY, OUT_OF_RANGE }; /* what a call comes to */
enum { NO_ACTIVATION, RELU, GELU, SILU };

typedef struct { /* weight: int8 in panels, see products.c; scale, bias [O] */
    const uint8_t *weight;
    const float *scale, *bias;
    int64_t outputs, inputs;
} Product;

typedef struct { /* weight null: no norm. before: pre-norm, it stands before the sublayer and not after the sum */
    const float *weight, *bias;
    float epsilon;
    int32_t before;
} Norm;

typedef struct {
    Product projection, output;
    Norm around;
} SelfAttention;

typedef struct {
    Product query, key_value, output;
    Norm around;
} CrossAttention;

typedef struct {
    Product widen, narrow;
    Norm around;
    int64_t activation;
} FeedForward;

typedef struct {
    SelfAttention attention;
    FeedForward feed_forward;
} Encoding;

typedef struct {
    SelfAttention attention;
    CrossAttention cross;
    FeedForward feed_forward;
} Decoding;

typedef struct {
    int64_t heads, head_width, width, inner; /* H, D, C, and the wide side of the feed-forward layers */
    float scale, embedding_scale;
    const float *source_embedding, *target_embedding;
    const Encoding *encoding;
    const Decoding *decoding;
    int64_t encoder_layers, decoder_layers, source_vocabulary, target_vocabulary;
    Norm encoder_norm, decoder_norm;
    Product projection;
} Model;

typedef struct { /* see screen.c */
    Product prefix;               /* the rotated output matrix: its first K columns, [O, K]; the same bias */
    const float *rotation, *rest; /* [C, K]; [O] the norms of what the first K columns leave out */
    float rounding, size;         /* in units of an output's scale: what rounding a row to int8 moved, and its norm */
    int64_t most;                 /* panels of a row that are computed one by one; beyond that the whole row is */
} Screen;

typedef struct { /* [L, slots, T, 2, H, D] and [L, slots, S, 2, H, D] */
    Half *own, *source;
    int64_t slots, target_length, source_length, threads; /* threads: that a call may use */
} Cache;

typedef struct { /* rows in int8, as a product reads them */
    Element *bytes; /* [rows, stride] */
    float *largest;
    int32_t *sums;
    int64_t stride;
} Bytes;

/* A row of positions to attend to: keys and values of one position are `stride` numbers before those of the next. They
   have 16 bits, since a step of many rows waits for the memory that they are read from. */
typedef struct {
    const Half *keys, *values;
    int64_t stride, length;
} Readable;

/* Upper bounds of y in `bound_panels`: y + slack·scale + left·rest. slack, left [rows]; rest [O]. */
typedef struct {
    const float *rest, *slack, *left;
    float *highest; /* [rows, panels]: of each panel of outputs */
} Bounds;

/* A search for the likeliest continuations of beams. x: logits, rows `stride` apart and `columns` wide. rows [beams,
   width]: which row of x is which hypothesis; so_far [beams, width]: their log-probabilities; count: continuations of
   each that are looked at, at most 2·width. values, parents, tokens [beams, kept]: log-probability, hypothesis, token.
   row_values [beams, width, count + 1] and row_places [beams, width, count]: room for what is found in each row. */
typedef struct {
    const float *x;
    int64_t stride, columns, beams, width, count, kept;
    const int64_t *rows;
    const float *so_far;
    float *values, *row_values;
    int64_t *parents, *tokens, *row_places;
} Continuing;

/* Whether a hypothesis has the logits of the one before it. rows: as of `Continuing`. */
static inline int shares_logits(const int64_t *rows, int64_t hypothesis) {
    return hypothesis > 0 && rows[hypothesis] == rows[hypothesis - 1];
}

/* What `decode_continuations` makes of its logits, which stand in the memory of continuing.x. suppressed: tokens that are
   never chosen; renormalise: their share goes to the others. log_probabilities: as continuing.so_far, which is room for
   them without that share. spread: whether the search is worth several threads. */
typedef struct {
    Continuing continuing;
    const int64_t *suppressed;
    int64_t suppressed_count, renormalise, spread;
    const float *log_probabilities;
} Scoring;

/* Threads that share the parts of one call, see team.c. Wherever `threads` is asked for, it is of `begin_team`, or 1. */
enum { MOST_THREADS = 16 };
typedef void Task(const void *job, int64_t part, int64_t thread); /* thread: from 0, below `threads` */

int64_t begin_team(int64_t threads);
void end_team(int64_t threads);
void share(int64_t threads, Task *task, const void *job, int64_t parts);

void quantize(const float *x, int64_t rows, int64_t width, Bytes into);
void multiply(int64_t threads, const Product *p, Bytes x, int64_t rows, const float *residual, int activation,
              float *y);
int64_t panel_width(void);
void bound_panels(int64_t threads, const Product *p, Bytes x, int64_t rows, const Bounds *bounds);
void multiply_row(const Product *p, Bytes x, int64_t row, int64_t panel, float *y);
void find_likeliest(const float *x, int64_t width, float *value, int64_t *place);
int64_t choose_likeliest(int64_t threads, const Product *projection, const Screen *screen, int64_t rows, Bytes bytes,
                         int64_t *tokens, int64_t *computed);
void find_continuations(int64_t threads, const Continuing *c);
void log_totals(const float *x, int64_t rows, int64_t stride, int64_t width, const float *largest, float *totals);
void likeliest(const float *x, int64_t rows, int64_t stride, int64_t width, int64_t count, float *values,
               int64_t *places);
int64_t copy(const Model *model, const Cache *cache, const float *positions, int64_t count, const int64_t *sources,
             const int64_t *destinations, const int64_t *since, const int64_t *lengths, const int64_t *source_lengths);
int64_t decode_continuations(const Model *m, const Cache *cache, const float *positions, int64_t rows,
                             const int64_t *ids, const int64_t *slots, const int64_t *places, const int64_t *sources,
                             const int64_t *source_lengths, const Scoring *scoring);
void halve(const float *x, int64_t width, Half *y);
void normalize(const Norm *norm, const float *x, int64_t rows, int64_t width, float *y);
void attend(const Model *model, const float *query, Readable row, Readable next, float *scores,
            float *context);

static inline int64_t padded(int64_t size) { return (size + 63) & ~(int64_t)63; }

/* The next `size` bytes of memory that was allocated for several arrays; each begins with a line of the cache. */
static inline void *take(char **free_memory, int64_t size) {
    void *taken = *free_memory;
    *free_memory += padded(size);
    return taken;
}

/* e^x within 2 units in the last place; 0 for -inf. */
static inline Floats exponential(Floats x) {
    x = larger(every(-104.0f), smaller(every(88.5f), x));
    Floats n = nearest(x * every(1.44269504f));
    Floats r = multiply_add(n, every(-0.693359375f), x);
    r = multiply_add(n, every(2.12194440e-4f), r);
    Floats p = every(1.9875691500e-4f);
    p = multiply_add(p, r, every(1.3981999507e-3f));
    p = multiply_add(p, r, every(8.3334519073e-3f));
    p = multiply_add(p, r, every(4.1665795894e-2f));
    p = multiply_add(p, r, every(1.6666665459e-1f));
    p = multiply_add(p, r, every(5.0000001201e-1f));
    p = multiply_add(r * r, p, r + every(1.0f));
    return times_power_of_two(p, n);
}
