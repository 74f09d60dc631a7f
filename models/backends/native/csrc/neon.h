/* What the kernels ask of an ARM CPU of 64 bits: 4 floats at once. avx512.h says the same of 16, and what the names mean.

   There are three of these. Every such CPU has the first: products of bytes in 16 bits (smull), of which pairs are added
   in 32 (sadalp). The dot product (sdot) sums 4 products of bytes in a lane of 32 bits. The matrix product (smmla) takes
   8 neighbours of two rows and of two outputs, and has four sums in a vector, so rows come in pairs. All take signed
   bytes: OFFSET is 0, and what a row holds behind its inputs may be anything, for the weights there are 0. */
#pragma once

#include <arm_neon.h>
#include <stdint.h>
#include <string.h>

typedef float32x4_t Floats, Four;
typedef uint32x4_t Test;
typedef int32x4_t Ints;
typedef int64_t Lanes; /* so many, the first ones */
typedef int8_t Element;
typedef uint16_t Half;

enum { LANES = 4, VECTORS = 4, TILE = 6, OFFSET = 0 }; /* 24 of 32 registers hold sums */
#if defined(__ARM_FEATURE_MATMUL_INT8)
#define PAIRED /* rows, see products.c */
enum { PER_LANE = 8, STEP = 8 };
#elif defined(__ARM_FEATURE_DOTPROD)
enum { PER_LANE = 4, STEP = 4 };
#else
enum { PER_LANE = 2, STEP = 4 };
#endif

static inline Lanes before(int64_t start, int64_t end) { return end - start; }
static inline Test mask_of(Lanes lanes) {
    return vcltq_s32((int32x4_t){0, 1, 2, 3}, vdupq_n_s32(lanes < LANES ? (int32_t)lanes : LANES));
}

static inline Floats every(float x) { return vdupq_n_f32(x); }
static inline Floats load_whole(const float *from) { return vld1q_f32(from); }
static inline Floats load(Lanes lanes, const float *from) {
    Floats x = every(0.0f);
    if (lanes >= LANES) return vld1q_f32(from);
    if (lanes > 0) x = vld1q_lane_f32(from, x, 0);
    if (lanes > 1) x = vld1q_lane_f32(from + 1, x, 1);
    if (lanes > 2) x = vld1q_lane_f32(from + 2, x, 2);
    return x;
}
static inline void store_whole(float *to, Floats x) { vst1q_f32(to, x); }
static inline void store(float *to, Lanes lanes, Floats x) {
    if (lanes >= LANES) {
        vst1q_f32(to, x);
        return;
    }
    if (lanes > 0) vst1q_lane_f32(to, x, 0);
    if (lanes > 1) vst1q_lane_f32(to + 1, x, 1);
    if (lanes > 2) vst1q_lane_f32(to + 2, x, 2);
}
static inline Floats load_whole_half(const Half *from) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from))); }
static inline void store_whole_half(Half *to, Floats x) { vst1_u16(to, vreinterpret_u16_f16(vcvt_f16_f32(x))); }
static inline void store_four(float *to, int64_t count, Four x) { store(to, count, x); }

static inline Floats multiply_add(Floats a, Floats b, Floats c) { return vfmaq_f32(c, a, b); }
static inline Floats add_some(Lanes lanes, Floats a, Floats b) {
    return a + vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(b), mask_of(lanes)));
}
/* By comparison: fmax gives NaN where either is, and not the second. */
static inline Floats larger(Floats a, Floats b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
static inline Floats smaller(Floats a, Floats b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
static inline Floats larger_some(Lanes lanes, Floats a, Floats b) { return vbslq_f32(mask_of(lanes), larger(a, b), a); }
static inline Floats magnitude(Floats x) { return vabsq_f32(x); }
static inline Floats nearest(Floats x) { return vrndnq_f32(x); }
/* In two halves, each of which is a number between 2^-126 and 2^127: whole lies between -252 and 254. */
static inline Floats times_power_of_two(Floats x, Floats whole) {
    Ints all = vcvtq_s32_f32(whole), half = vshrq_n_s32(all, 1), rest = vsubq_s32(all, half), one = vdupq_n_s32(127);
    x = x * vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(half, one), 23));
    return x * vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(rest, one), 23));
}

static inline Test no_number(Floats x) { return vmvnq_u32(vceqq_f32(x, x)); }
static inline Test negative(Floats x) { return vcltzq_f32(x); }
static inline Test either(Test a, Test b) { return vorrq_u32(a, b); }
static inline int any(Test test) { return vmaxvq_u32(test) != 0; }
static inline Floats choose(Test test, Floats where, Floats elsewhere) { return vbslq_f32(test, where, elsewhere); }

static inline uint32_t bits_of(Lanes lanes) { return lanes >= LANES ? 0xf : (1u << lanes) - 1; }
static inline uint32_t above(Floats x, Floats y) {
    return vaddvq_u32(vbicq_u32((uint32x4_t){1, 2, 4, 8}, vcleq_f32(x, y)));
}

static inline float sum_of(Floats x) { return vaddvq_f32(x); }
static inline float largest_of(Floats x) { return vmaxvq_f32(x); }
static inline Four sums_of(Floats a, Floats b, Floats c, Floats d) {
    return vpaddq_f32(vpaddq_f32(a, b), vpaddq_f32(c, d));
}

static inline Ints every_int(int32_t x) { return vdupq_n_s32(x); }
static inline Ints add_ints(Ints a, Ints b) { return vaddq_s32(a, b); }
static inline int32_t sum_of_ints(Ints x) { return vaddvq_s32(x); }
static inline Ints to_ints(Floats x) { return vcvtnq_s32_f32(x); }
static inline Floats to_floats(Ints x) { return vcvtq_f32_s32(x); }
static inline void store_elements(Element *to, Ints x) {
    int16x4_t words = vqmovn_s32(x);
    int32_t bytes = vget_lane_s32(vreinterpret_s32_s8(vqmovn_s16(vcombine_s16(words, words))), 0);
    memcpy(to, &bytes, sizeof(bytes));
}

static inline __attribute__((always_inline)) void fetch(const void *line) {
    __builtin_prefetch(line, 0, 3);
}
static inline __attribute__((always_inline)) void fetch_to_l2(const void *line) {
    __builtin_prefetch(line, 0, 2);
}

/* isb waits for the instructions before it; yield, which other architectures' pause resembles, does nothing here. */
static inline void pause_thread(void) { __asm__ volatile("isb" ::: "memory"); }

#if defined(__ARM_FEATURE_MATMUL_INT8)
/* Of two outputs, 8 weights each. */
static inline Ints weights_at(const uint8_t *packed) { return vreinterpretq_s32_u8(vld1q_u8(packed)); }
/* Of two rows, 8 elements each. */
static inline Ints elements_of(const Element *row, const Element *next) {
    return vreinterpretq_s32_s8(vcombine_s8(vld1_s8(row), vld1_s8(next)));
}
static inline Ints dot(Ints sums, Ints weights, Ints elements) {
    return vmmlaq_s32(sums, vreinterpretq_s8_s32(elements), vreinterpretq_s8_s32(weights));
}
/* Of two vectors of sums, each of two rows' with two outputs, those of the first row or of the second. */
static inline Ints sums_of_row(int second, Ints a, Ints b) {
    int64x2_t low = vreinterpretq_s64_s32(a), high = vreinterpretq_s64_s32(b);
    return vreinterpretq_s32_s64(second ? vzip2q_s64(low, high) : vzip1q_s64(low, high));
}
#elif defined(__ARM_FEATURE_DOTPROD)
static inline Ints weights_at(const uint8_t *packed) { return vreinterpretq_s32_u8(vld1q_u8(packed)); }
static inline Ints elements_at(const Element *from) { return vld1q_dup_s32((const int32_t *)from); }
static inline Ints dot(Ints sums, Ints weights, Ints elements) {
    return vdotq_s32(sums, vreinterpretq_s8_s32(weights), vreinterpretq_s8_s32(elements));
}
#else
static inline Ints weights_at(const uint8_t *packed) {
    return vreinterpretq_s32_u8(vcombine_u8(vld1_u8(packed), vdup_n_u8(0)));
}
static inline Ints elements_at(const Element *from) {
    return vreinterpretq_s32_s16(vld1q_dup_s16((const int16_t *)from));
}
static inline Ints dot(Ints sums, Ints weights, Ints elements) {
    int8x8_t two = vget_low_s8(vreinterpretq_s8_s32(weights));
    return vpadalq_s16(sums, vmull_s8(two, vget_low_s8(vreinterpretq_s8_s32(elements))));
}
#endif
