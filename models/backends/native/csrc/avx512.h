/* What the kernels ask of a CPU with AVX-512 VNNI: 16 floats at once. avx2.h says the same of 8.

   Where one of two is not a number, `larger` and `smaller` give the second. */
#pragma once

#include <immintrin.h>
#include <stdint.h>

typedef __m512 Floats;
typedef __m128 Four;
typedef __m512i Ints;
typedef __mmask16 Lanes, Test;
typedef int8_t Element; /* an int8 as `dot` reads it */
typedef uint16_t Half;  /* a float in 16 bits, of IEEE 754; rounded to the nearest even */

/* A product takes `TILE` rows times `VECTORS` vectors of outputs at once, `STEP` neighbours of each at a time; a lane of
   `dot` sums `PER_LANE` products of a row's element with a weight + OFFSET. */
enum { LANES = 16, VECTORS = 4, TILE = 6, PER_LANE = 4, STEP = 4, OFFSET = 128 };

/* The lanes from `start` that lie before `end`. */
static inline Lanes before(int64_t start, int64_t end) {
    return end - start >= 16 ? 0xffff : (Lanes)((1u << (end - start)) - 1);
}

static inline Floats every(float x) { return _mm512_set1_ps(x); }
static inline Floats load_whole(const float *from) { return _mm512_loadu_ps(from); }
static inline Floats load(Lanes lanes, const float *from) { return _mm512_maskz_loadu_ps(lanes, from); }
static inline void store_whole(float *to, Floats x) { _mm512_storeu_ps(to, x); }
static inline void store(float *to, Lanes lanes, Floats x) { _mm512_mask_storeu_ps(to, lanes, x); }
static inline Floats load_whole_half(const Half *from) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)from));
}
static inline Floats load_half(Lanes lanes, const Half *from) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(lanes, from));
}
static inline void store_half(Half *to, Lanes lanes, Floats x) {
    _mm256_mask_storeu_epi16(to, lanes, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline void store_four(float *to, int64_t count, Four x) {
    _mm_mask_storeu_ps(to, (__mmask8)before(0, count) & 15, x);
}

static inline Floats multiply_add(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
/* a, in those lanes with b. */
static inline Floats add_some(Lanes lanes, Floats a, Floats b) { return _mm512_mask_add_ps(a, lanes, a, b); }
static inline Floats larger(Floats a, Floats b) { return _mm512_max_ps(a, b); }
static inline Floats smaller(Floats a, Floats b) { return _mm512_min_ps(a, b); }
static inline Floats larger_some(Lanes lanes, Floats a, Floats b) { return _mm512_mask_max_ps(a, lanes, a, b); }
static inline Floats magnitude(Floats x) { return _mm512_abs_ps(x); }
static inline Floats nearest(Floats x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT); }
static inline Floats times_power_of_two(Floats x, Floats whole) { return _mm512_scalef_ps(x, whole); }

static inline Test no_number(Floats x) { return _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q); }
static inline Test negative(Floats x) { return _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ); }
static inline Test either(Test a, Test b) { return a | b; }
static inline int any(Test test) { return test != 0; }
static inline Floats choose(Test test, Floats where, Floats elsewhere) {
    return _mm512_mask_blend_ps(test, elsewhere, where);
}

/* A bit for each lane: of those given, and of those where not x <= y, be it that one of them is not a number. */
static inline uint32_t bits_of(Lanes lanes) { return lanes; }
static inline uint32_t above(Floats x, Floats y) { return _mm512_cmp_ps_mask(x, y, _CMP_NLE_UQ); }

static inline float sum_of(Floats x) { return _mm512_reduce_add_ps(x); }
static inline float largest_of(Floats x) { return _mm512_reduce_max_ps(x); }
/* The sums of four vectors. */
static inline Four sums_of(Floats a, Floats b, Floats c, Floats d) {
    Floats ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    Floats cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    Floats all = _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
    __m256 half = _mm256_add_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps(all, 1));
    return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}

static inline Ints every_int(int32_t x) { return _mm512_set1_epi32(x); }
static inline Ints add_ints(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
/* Not by _mm512_reduce_add_epi32: GCC adds signed vectors there, and sums of rows that are not finite overflow. */
static inline int32_t sum_of_ints(Ints x) {
    __m256i eight = _mm256_add_epi32(_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64(x, 1));
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}
static inline Ints to_ints(Floats x) { return _mm512_cvtps_epi32(x); }
static inline Floats to_floats(Ints x) { return _mm512_cvtepi32_ps(x); }
/* PER_LANE elements of a row, in every lane. */
static inline Ints elements_at(const Element *from) { return every_int(*(const int32_t *)from); }
static inline void store_elements(Element *to, Ints x) {
    _mm_storeu_si128((__m128i *)to, _mm512_cvtsepi32_epi8(x));
}

/* Fetches a line of memory into the nearest cache, or into the second one. */
static inline __attribute__((always_inline)) void fetch(const void *line) {
    _mm_prefetch((const char *)line, _MM_HINT_T0);
}
static inline __attribute__((always_inline)) void fetch_to_l2(const void *line) {
    _mm_prefetch((const char *)line, _MM_HINT_T1);
}

/* Of a thread that waits. */
static inline void pause_thread(void) { _mm_pause(); }

static inline Ints weights_at(const uint8_t *packed) { return _mm512_loadu_si512(packed); }
static inline Ints dot(Ints sums, Ints weights, Ints elements) { return _mm512_dpbusd_epi32(sums, weights, elements); }
