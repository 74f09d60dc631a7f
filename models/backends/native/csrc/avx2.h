/* What the kernels ask of a CPU with AVX2 and FMA, and of one with AVX-VNNI beside them: 8 floats at once. avx512.h says
   the same of 16, and what the names mean. */
#pragma once

#include <immintrin.h>
#include <stdint.h>

typedef __m256 Floats, Test;
typedef __m128 Four;
typedef __m256i Ints;
typedef int64_t Lanes; /* so many, the first ones */
typedef uint16_t Half;

/* Without VNNI bytes are multiplied as 16 bits: the sum of two products has 32 bits then, while `maddubs`, which takes
   bytes, saturates at 16. */
#ifdef __AVXVNNI__
typedef int8_t Element;
enum { LANES = 8, VECTORS = 2, TILE = 6, PER_LANE = 4, STEP = 4, OFFSET = 128 };
#else
typedef int16_t Element;
enum { LANES = 8, VECTORS = 2, TILE = 6, PER_LANE = 2, STEP = 4, OFFSET = 0 };
#endif

static inline Lanes before(int64_t start, int64_t end) { return end - start; }
static inline Ints mask_of(Lanes lanes) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int32_t)lanes), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static inline Floats every(float x) { return _mm256_set1_ps(x); }
static inline Floats load_whole(const float *from) { return _mm256_loadu_ps(from); }
static inline Floats load(Lanes lanes, const float *from) {
    return lanes >= LANES ? _mm256_loadu_ps(from) : _mm256_maskload_ps(from, mask_of(lanes));
}
static inline void store_whole(float *to, Floats x) { _mm256_storeu_ps(to, x); }
static inline void store(float *to, Lanes lanes, Floats x) {
    if (lanes >= LANES)
        _mm256_storeu_ps(to, x);
    else
        _mm256_maskstore_ps(to, mask_of(lanes), x);
}
static inline Floats load_whole_half(const Half *from) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from)); }
static inline void store_whole_half(Half *to, Floats x) {
    _mm_storeu_si128((__m128i *)to, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline void store_four(float *to, int64_t count, Four x) {
    if (count >= 4)
        _mm_storeu_ps(to, x);
    else
        _mm_maskstore_ps(to, _mm256_castsi256_si128(mask_of(count)), x);
}

static inline Floats multiply_add(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
static inline Floats add_some(Lanes lanes, Floats a, Floats b) {
    return _mm256_add_ps(a, lanes >= LANES ? b : _mm256_and_ps(b, _mm256_castsi256_ps(mask_of(lanes))));
}
static inline Floats larger(Floats a, Floats b) { return _mm256_max_ps(a, b); }
static inline Floats smaller(Floats a, Floats b) { return _mm256_min_ps(a, b); }
static inline Floats larger_some(Lanes lanes, Floats a, Floats b) {
    Floats both = _mm256_max_ps(a, b);
    return lanes >= LANES ? both : _mm256_blendv_ps(a, both, _mm256_castsi256_ps(mask_of(lanes)));
}
static inline Floats magnitude(Floats x) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x); }
static inline Floats nearest(Floats x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
/* In two halves, each of which is a number between 2^-126 and 2^127: whole lies between -252 and 254. */
static inline Floats times_power_of_two(Floats x, Floats whole) {
    Ints all = _mm256_cvtps_epi32(whole), half = _mm256_srai_epi32(all, 1), rest = _mm256_sub_epi32(all, half);
    Ints one = _mm256_set1_epi32(127);
    x = _mm256_mul_ps(x, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, one), 23)));
    return _mm256_mul_ps(x, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, one), 23)));
}

static inline Test no_number(Floats x) { return _mm256_cmp_ps(x, x, _CMP_UNORD_Q); }
static inline Test negative(Floats x) { return _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_LT_OQ); }
static inline Test either(Test a, Test b) { return _mm256_or_ps(a, b); }
static inline int any(Test test) { return _mm256_movemask_ps(test) != 0; }
static inline Floats choose(Test test, Floats where, Floats elsewhere) {
    return _mm256_blendv_ps(elsewhere, where, test);
}

static inline uint32_t bits_of(Lanes lanes) { return lanes >= LANES ? 0xff : (1u << lanes) - 1; }
static inline uint32_t above(Floats x, Floats y) {
    return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(x, y, _CMP_NLE_UQ));
}

static inline float sum_of(Floats x) {
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
static inline float largest_of(Floats x) {
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
static inline Four sums_of(Floats a, Floats b, Floats c, Floats d) {
    Floats all = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
    return _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1));
}

static inline Ints every_int(int32_t x) { return _mm256_set1_epi32(x); }
static inline Ints add_ints(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
static inline int32_t sum_of_ints(Ints x) {
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}
static inline Ints to_ints(Floats x) { return _mm256_cvtps_epi32(x); }
static inline Floats to_floats(Ints x) { return _mm256_cvtepi32_ps(x); }

static inline Ints elements_at(const Element *from) { return every_int(*(const int32_t *)from); }
static inline void store_elements(Element *to, Ints x) {
    __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
#ifdef __AVXVNNI__
    _mm_storel_epi64((__m128i *)to, _mm_packs_epi16(words, words));
#else
    _mm_storeu_si128((__m128i *)to, words);
#endif
}

static inline __attribute__((always_inline)) void fetch(const void *line) {
    _mm_prefetch((const char *)line, _MM_HINT_T0);
}
static inline __attribute__((always_inline)) void fetch_to_l2(const void *line) {
    _mm_prefetch((const char *)line, _MM_HINT_T1);
}
static inline void pause_thread(void) { _mm_pause(); }

#ifdef __AVXVNNI__
static inline Ints weights_at(const uint8_t *packed) { return _mm256_loadu_si256((const __m256i *)packed); }
static inline Ints dot(Ints sums, Ints weights, Ints elements) {
    return _mm256_dpbusd_avx_epi32(sums, weights, elements);
}
#else
static inline Ints weights_at(const uint8_t *packed) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)packed));
}
static inline Ints dot(Ints sums, Ints weights, Ints elements) {
    sums = _mm256_add_epi32(sums, _mm256_madd_epi16(weights, elements));
    __asm__("" : "+x"(sums)); /* in its register: the compiler would add in another order, which takes more of them */
    return sums;
}
#endif
