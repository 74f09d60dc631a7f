/* y = x·Wᵀ + b in int8: bytes times bytes, summed exactly in int32 (AVX-512 VNNI).

   The instruction multiplies unsigned with signed bytes, four neighbours at once in each of 16 lanes. So the weights
   are kept as int8 + 128, and 128·(sum of the row's bytes) is taken off. W [O, I] lies in panels of 64 outputs:
   [O/64, I/4, 64, 4], which a product reads once from front to back for all rows. */
#include "native.h"

#include <math.h>

enum { PANEL = 64, VECTORS = 4, TILE = 6, CHUNK = 120, AHEAD = 4096 };

int64_t packed_size(int64_t outputs, int64_t inputs) { return padded(outputs) * ((inputs + 3) / 4) * 4; }

void pack(const int8_t *weight, int64_t outputs, int64_t inputs, uint8_t *packed) {
    int64_t steps = (inputs + 3) / 4;
    for (int64_t o = 0; o < padded(outputs); o++)
        for (int64_t i = 0; i < steps * 4; i++) {
            int value = o < outputs && i < inputs ? weight[o * inputs + i] : 0;
            packed[((o / PANEL * steps + i / 4) * PANEL + o % PANEL) * 4 + i % 4] = (uint8_t)(value + 128);
        }
}

/* A row's largest magnitude becomes 127; a row that is not a number somewhere is so everywhere. */
static void quantize_row(const float *x, int64_t width, int8_t *bytes, float *largest, int32_t *sum) {
    __m512 most = _mm512_setzero_ps();
    __mmask16 broken = 0;
    for (int64_t i = 0; i < width; i += 16) {
        __m512 part = _mm512_maskz_loadu_ps(before(i, width), x + i);
        broken |= _mm512_cmp_ps_mask(part, part, _CMP_UNORD_Q);
        most = _mm512_max_ps(_mm512_abs_ps(part), most);
    }
    *largest = broken ? NAN : _mm512_reduce_max_ps(most);
    float inverse = 1.0f / *largest * 127.0f;
    __m512 factor = _mm512_set1_ps(isinf(inverse) ? 0.0f : inverse); /* zeros, and what is all but zero */
    __m512i total = _mm512_setzero_si512();
    for (int64_t i = 0; i < width; i += 16) {
        __m512 part = _mm512_maskz_loadu_ps(before(i, width), x + i);
        __m512i whole = _mm512_cvtps_epi32(_mm512_mul_ps(part, factor));
        _mm_storeu_si128((__m128i *)(bytes + i), _mm512_cvtsepi32_epi8(whole));
        total = _mm512_add_epi32(total, whole);
    }
    *sum = _mm512_reduce_add_epi32(total);
}

/* x [rows, width] */
void quantize(const float *x, int64_t rows, int64_t width, Bytes into) {
    for (int64_t row = 0; row < rows; row++)
        quantize_row(x + row * width, width, into.bytes + row * into.stride, into.largest + row, into.sums + row);
}

typedef struct {
    const float *scale, *bias, *residual;
    float *y;
    int64_t stride, outputs;
    float least;
} Finish;

/* Sums of one row and 16 outputs -> their place in y. */
static inline void finish(const Finish *f, __m512i sums, int64_t row, int64_t output, float largest) {
    __mmask16 lanes = before(output, f->outputs);
    __m512 y = _mm512_mul_ps(_mm512_cvtepi32_ps(sums), _mm512_maskz_loadu_ps(lanes, f->scale + output));
    y = _mm512_fmadd_ps(y, _mm512_set1_ps(largest), _mm512_maskz_loadu_ps(lanes, f->bias + output));
    if (f->residual)
        y = _mm512_add_ps(y, _mm512_maskz_loadu_ps(lanes, f->residual + row * f->stride + output));
    y = _mm512_max_ps(_mm512_set1_ps(f->least), y);
    _mm512_mask_storeu_ps(f->y + row * f->stride + output, lanes, y);
}

/* `rows` rows from `row` on times one panel, while `lines` cache lines a step of a later one are fetched, `pace` bytes
   from step to step. rows and lines are constants where this is inlined. */
static inline __attribute__((always_inline)) void tile(const int rows, const int lines, const uint8_t *panel,
                                                       int64_t steps, Bytes x, int64_t row, int64_t output,
                                                       const Finish *f, const char *later, int64_t pace) {
    __m512i sums[TILE][VECTORS];
    const int8_t *bytes = x.bytes + row * x.stride;
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; v++) sums[r][v] = _mm512_set1_epi32(-128 * x.sums[row + r]);
    for (int64_t step = 0; step < steps; step++, panel += PANEL * 4, bytes += 4, later += pace) {
        __m512i weight[VECTORS];
#pragma GCC unroll 4
        for (int l = 0; l < lines; l++) _mm_prefetch(later + l * 64, _MM_HINT_T0);
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; v++) weight[v] = _mm512_loadu_si512(panel + v * 64);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            __m512i four = _mm512_set1_epi32(*(const int32_t *)(bytes + r * x.stride));
#pragma GCC unroll 4
            for (int v = 0; v < VECTORS; v++) sums[r][v] = _mm512_dpbusd_epi32(sums[r][v], weight[v], four);
        }
    }
    __m512i kept[TILE][VECTORS]; /* out of the registers: the compiler would arrange the loop for what follows it */
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; v++) _mm512_store_si512(&kept[r][v], sums[r][v]);
    __asm__ volatile("" : : "r"(kept) : "memory");
#pragma GCC unroll 1
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 1
        for (int v = 0; v < VECTORS; v++)
            if (output + 16 * v < f->outputs) finish(f, kept[r][v], row + r, output + 16 * v, x.largest[row + r]);
}

typedef void (*Tile)(const uint8_t *, int64_t, Bytes, int64_t, int64_t, const Finish *, const char *, int64_t);

#define TILE_OF(rows, lines)                                                                                          \
    static __attribute__((noinline)) void tile_##rows##_##lines(                                                      \
        const uint8_t *panel, int64_t steps, Bytes x, int64_t row, int64_t output, const Finish *f,                   \
        const char *later, int64_t pace) {                                                                            \
        tile(rows, lines, panel, steps, x, row, output, f, later, pace);                                              \
    }
#define TILES_OF(lines)                                                                                               \
    TILE_OF(1, lines) TILE_OF(2, lines) TILE_OF(3, lines) TILE_OF(4, lines) TILE_OF(5, lines) TILE_OF(6, lines)       \
    static const Tile tiles_##lines[] = {tile_1_##lines, tile_2_##lines, tile_3_##lines,                              \
                                         tile_4_##lines, tile_5_##lines, tile_6_##lines};
TILES_OF(1)
TILES_OF(2)
TILES_OF(4)

/* Rows row..end-1 times one panel, in equal tiles. Memory is slower than the sums: while one panel is multiplied the
   next one is fetched, a part by each tile; a lone tile fetches a little ahead of itself. */
static void multiply_panel(const uint8_t *panel, int64_t steps, Bytes x, int64_t row, int64_t end, int64_t output,
                           const Finish *f) {
    int64_t count = (end - row + TILE - 1) / TILE, size = steps * PANEL * 4, pace = PANEL * 4 / count;
    const char *later = (const char *)panel + (count == 1 ? AHEAD : size);
    const Tile *tiles = count == 1 ? tiles_4 : count <= 3 ? tiles_2 : tiles_1;
    for (; row < end; count--, later += pace * steps) {
        int64_t rows = (end - row + count - 1) / count;
        tiles[rows - 1](panel, steps, x, row, output, f, later, pace);
        row += rows;
    }
}

static __m512 activated(__m512 x, int activation) {
    __m512 one = _mm512_set1_ps(1.0f);
    if (activation == SILU)
        return _mm512_div_ps(x, _mm512_add_ps(one, exponential(_mm512_sub_ps(_mm512_setzero_ps(), x))));
    /* GELU; erf by Abramowitz and Stegun 7.1.26, within 2e-7 */
    __m512 z = _mm512_mul_ps(_mm512_abs_ps(x), _mm512_set1_ps(0.70710678f));
    __m512 t = _mm512_div_ps(one, _mm512_fmadd_ps(z, _mm512_set1_ps(0.3275911f), one));
    __m512 p = _mm512_fmadd_ps(t, _mm512_set1_ps(1.061405429f), _mm512_set1_ps(-1.453152027f));
    p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(1.421413741f));
    p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(-0.284496736f));
    p = _mm512_mul_ps(_mm512_fmadd_ps(p, t, _mm512_set1_ps(0.254829592f)), t);
    __m512 tail = _mm512_mul_ps(p, exponential(_mm512_sub_ps(_mm512_setzero_ps(), _mm512_mul_ps(z, z))));
    __mmask16 negative = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ);
    __m512 twice = _mm512_mask_blend_ps(negative, _mm512_sub_ps(_mm512_set1_ps(2.0f), tail), tail); /* 1 + erf */
    return _mm512_mul_ps(_mm512_mul_ps(x, _mm512_set1_ps(0.5f)), twice);
}

/* x [rows, I] -> y [rows, O]; residual [rows, O] or null is added (with no activation, or RELU after the sum). */
void multiply(const Product *p, Bytes x, int64_t rows, const float *residual, int activation, float *y) {
    Finish f = {p->scale, p->bias, residual, y, p->outputs, p->outputs, activation == RELU ? 0.0f : -INFINITY};
    int64_t steps = (p->inputs + 3) / 4;
    for (int64_t row = 0; row < rows; row += CHUNK) { /* so many rows stay in the cache while W goes past */
        int64_t end = row + CHUNK < rows ? row + CHUNK : rows;
        for (int64_t output = 0; output < p->outputs; output += PANEL)
            multiply_panel(p->weight + output * steps * 4, steps, x, row, end, output, &f);
    }
    if (activation == GELU || activation == SILU)
        for (int64_t i = 0; i < rows * p->outputs; i += 16) {
            __mmask16 lanes = before(i, rows * p->outputs);
            _mm512_mask_storeu_ps(y + i, lanes, activated(_mm512_maskz_loadu_ps(lanes, y + i), activation));
        }
}
