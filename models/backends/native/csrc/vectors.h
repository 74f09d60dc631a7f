/* Vectors of floats as wide as the instruction set has them, in the compilers' own notation and not in its intrinsics:
   the same lines are AVX-512, AVX2 or NEON. Every lane counts for itself, in the order that is written here, so that what
   comes out of one row depends on nothing but that row. */
#pragma once

#include "unroll.h"

#include <stdint.h>
#include <string.h>

enum { DONE, NO_MEMORY, OUT_OF_RANGE }; /* what a call comes to */

#if defined(__AVX512F__)
enum { LANES = 16, VECTORS = 4 }; /* 24 of 32 registers hold sums */
#elif defined(__aarch64__)
enum { LANES = 4, VECTORS = 4 }; /* as many */
#else
enum { LANES = 8, VECTORS = 2 }; /* 12 of 16 */
#endif
enum { PANEL = LANES * VECTORS, LINE = 64 };

typedef float Floats __attribute__((vector_size(LANES * 4)));
typedef int32_t Ints __attribute__((vector_size(LANES * 4)));

static inline Floats all(float value) { return value - (Floats){0}; }

static inline Floats load(const float *from) {
    Floats x;
    memcpy(&x, from, sizeof(x));
    return x;
}

static inline void store(float *to, Floats x) { memcpy(to, &x, sizeof(x)); }

/* The first `count` lanes, or all; the rest is left as it is in `otherwise`. */
static inline Floats load_some(const float *from, int64_t count, Floats otherwise) {
    if (count >= LANES) return load(from);
    if (count > 0) memcpy(&otherwise, from, (size_t)count * sizeof(float));
    return otherwise;
}

static inline void store_some(float *to, Floats x, int64_t count) {
    if (count >= LANES) return store(to, x);
    memcpy(to, &x, (size_t)count * sizeof(float));
}

static inline Floats choose(Ints mask, Floats yes, Floats no) {
    return (Floats)((mask & (Ints)yes) | (~mask & (Ints)no));
}

/* e^x within 2 units in the last place, for x from -87.3 to 88.3 and beyond these what it is there; NaN for NaN. */
static inline Floats exponential(Floats x) {
    const Floats rounder = all(12582912.0f); /* 1.5 * 2^23: whatever is added to it is a whole number */
    x = choose(x < all(-87.3f), all(-87.3f), x);
    x = choose(x > all(88.3f), all(88.3f), x);
    Floats shifted = x * all(1.44269504f) + rounder, n = shifted - rounder;
    Floats r = x - n * all(0.693359375f);
    r = r - n * all(-2.12194440e-4f);
    Floats p = all(1.9875691500e-4f);
    p = p * r + all(1.3981999507e-3f);
    p = p * r + all(8.3334519073e-3f);
    p = p * r + all(4.1665795894e-2f);
    p = p * r + all(1.6666665459e-1f);
    p = p * r + all(5.0000001201e-1f);
    p = (r * r) * p + (r + all(1.0f));
    return p * (Floats)(((Ints)shifted - (Ints)rounder + 127) << 23);
}

static inline int64_t whole(int64_t size, int64_t of) { return (size + of - 1) / of * of; }
