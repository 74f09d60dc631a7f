/* What the files of this library share. `Product`, `Norm`, ... are laid out as in library.py.

   Rows are float32, one below the other. C d_model, H heads, D head width, I inputs and O outputs of a product. */
#pragma once

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

enum { DONE, NO_MEMORY, OUT_OF_RANGE }; /* what a call comes to */
enum { NO_ACTIVATION, RELU, GELU, SILU };

typedef struct { /* weight: int8 + 128 in panels, see products.c; scale, bias [O] */
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

typedef struct { /* [L, slots, T, 2, H, D] and [L, slots, S, 2, H, D] */
    float *own, *source;
    int64_t slots, target_length, source_length;
} Cache;

typedef struct { /* rows in int8, as a product reads them */
    int8_t *bytes; /* [rows, stride] */
    float *largest;
    int32_t *sums;
    int64_t stride;
} Bytes;

/* A row of positions to attend to: keys and values of one position are `stride` floats before those of the next. */
typedef struct {
    const float *keys, *values;
    int64_t stride, length;
} Readable;

void quantize(const float *x, int64_t rows, int64_t width, Bytes into);
void multiply(const Product *p, Bytes x, int64_t rows, const float *residual, int activation, float *y);
void normalize(const Norm *norm, const float *x, int64_t rows, int64_t width, float *y);
void attend(const Model *model, const float *query, Readable row, float *scores, float *context);

static inline int64_t padded(int64_t size) { return (size + 63) & ~(int64_t)63; }

/* e^x within 2 units in the last place; 0 for -inf. */
static inline __m512 exponential(__m512 x) {
    x = _mm512_max_ps(_mm512_min_ps(_mm512_set1_ps(88.5f), x), _mm512_set1_ps(-104.0f)); /* NaN goes with x */
    __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)), _MM_FROUND_TO_NEAREST_INT);
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), x);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4f), r);
    __m512 p = _mm512_set1_ps(1.9875691500e-4f);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.3981999507e-3f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(8.3334519073e-3f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(4.1665795894e-2f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.6666665459e-1f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(5.0000001201e-1f));
    p = _mm512_fmadd_ps(_mm512_mul_ps(r, r), p, _mm512_add_ps(r, _mm512_set1_ps(1.0f)));
    return _mm512_scalef_ps(p, n);
}

/* The lanes of the 16 from `start` that lie before `end`. */
static inline __mmask16 before(int64_t start, int64_t end) {
    return end - start >= 16 ? 0xffff : (__mmask16)((1u << (end - start)) - 1);
}
