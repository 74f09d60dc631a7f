// The most that this CPU does: int8 multiply-adds from registers, and bytes read. Compiled by benchmarks/roofline.py with
// the flags of a kernel variant, whose instruction is used.
#include <stdint.h>
#include <string.h>

#if defined(__AVX512VNNI__)
#include <immintrin.h>
typedef __m512i vector;
#define MULTIPLY_ADDS 64
#define MULTIPLY_ADD(sum, a, b) _mm512_dpbusd_epi32(sum, a, b)
#define FILL(value) _mm512_set1_epi8(value)
#elif defined(__AVXVNNI__)
#include <immintrin.h>
typedef __m256i vector;
#define MULTIPLY_ADDS 32
#define MULTIPLY_ADD(sum, a, b) _mm256_dpbusd_avx_epi32(sum, a, b)
#define FILL(value) _mm256_set1_epi8(value)
#elif defined(__AVX2__)
#include <immintrin.h>
typedef __m256i vector;
#define MULTIPLY_ADDS 32
// one product of four terms is three instructions without VNNI
#define MULTIPLY_ADD(sum, a, b) \
    _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), _mm256_set1_epi16(1)))
#define FILL(value) _mm256_set1_epi8(value)
#elif defined(__ARM_FEATURE_MATMUL_INT8)
#include <arm_neon.h>
typedef int8x16_t vector;
#define MULTIPLY_ADDS 32
#define MULTIPLY_ADD(sum, a, b) vreinterpretq_s8_s32(vmmlaq_s32(vreinterpretq_s32_s8(sum), a, b))
#define FILL(value) vdupq_n_s8(value)
#elif defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>
typedef int8x16_t vector;
#define MULTIPLY_ADDS 16
#define MULTIPLY_ADD(sum, a, b) vreinterpretq_s8_s32(vdotq_s32(vreinterpretq_s32_s8(sum), a, b))
#define FILL(value) vdupq_n_s8(value)
#endif

#ifdef __ARM_NEON
#define REGISTER(value) "+w"(value)
#else
#define REGISTER(value) "+v"(value)
#endif
// Twelve sums hide the latency of one instruction with two units. They are variables, and no array: compilers keep an
// array in memory here.
#define SUMS 12
#define EACH(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11)
#define BEGIN(i) vector sum##i = FILL(0);
// nothing is known of the operands after the empty instruction, so that no product is computed once for all
#define STEP(i)                                             \
    __asm__ volatile("" : REGISTER(left), REGISTER(sum##i)); \
    sum##i = MULTIPLY_ADD(sum##i, left, right);
#define END(i) memcpy(sink, &sum##i, sizeof(vector));

// Multiply-adds of `rounds` rounds; 0 where this build has no int8 instruction. sink: 64 bytes that keep the sums alive.
int64_t multiply_adds(int64_t rounds, void *sink) {
#ifdef MULTIPLY_ADDS
    vector left = FILL(3), right = FILL(1);
    EACH(BEGIN)
    for (int64_t round = 0; round < rounds; round++) {
        EACH(STEP)
    }
    EACH(END)
    return rounds * SUMS * MULTIPLY_ADDS;
#else
    (void)rounds, (void)sink;
    return 0;
#endif
}

// Reads `bytes` bytes (a multiple of 64) once.
uint64_t read_all(const uint64_t *data, int64_t bytes) {
    uint64_t sums[8] = {0};
    for (int64_t i = 0; i < bytes / 8; i += 8)
        for (int j = 0; j < 8; j++) sums[j] ^= data[i + j];
    return sums[0] ^ sums[1] ^ sums[2] ^ sums[3] ^ sums[4] ^ sums[5] ^ sums[6] ^ sums[7];
}
