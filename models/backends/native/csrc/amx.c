/* Whether this process may use tiles, and whether their products are right. */
#define _GNU_SOURCE
#include "amx.h"

#include <string.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 }; /* ARCH_REQ_XCOMP_PERM and XFEATURE_XTILEDATA of Linux */
enum { ROWS = 40, OUTPUTS = 80, INPUTS = 400, STRIDE = 448 };
_Static_assert(INPUTS >= LEAST_DEPTH, "the trial multiplies by tiles");

/* Linux stops a process at its first tile unless it has asked for room to save tiles in. Holds for all threads. */
static int is_permitted(void) {
#ifdef __linux__
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#else
    return 0;
#endif
}

/* Any bytes, the same in every process. */
static int8_t next_byte(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return (int8_t)(*state >> 24);
}

void pack(const int8_t *weight, int64_t outputs, int64_t inputs, uint8_t *packed);

/* DONE if products of some numbers of rows equal those that are summed one by one; otherwise TILES_REFUSED or
   TILES_DIFFER. Takes a millisecond or two; to be called before any other product of the process. */
int64_t try_tiles(void) {
    static const int64_t numbers[] = {LEAST_ROWS, TILE_ROWS, TILE_ROWS + 1, ROWS};
    int8_t weight[OUTPUTS][INPUTS], bytes[ROWS][STRIDE] = {{0}};
    uint8_t packed[128 * STRIDE] __attribute__((aligned(64)));
    float ones[OUTPUTS], zeros[OUTPUTS] = {0}, largest[ROWS], y[ROWS][OUTPUTS];
    int32_t sums[ROWS] = {0};
    uint32_t state = 1;
    if (!is_permitted()) return TILES_REFUSED;
    for (int o = 0; o < OUTPUTS; o++) {
        ones[o] = 1.0f;
        for (int i = 0; i < INPUTS; i++) weight[o][i] = o ? next_byte(&state) : -127; /* sums beyond 16 bits */
    }
    for (int r = 0; r < ROWS; r++) {
        largest[r] = 1.0f;
        for (int i = 0; i < INPUTS; i++) sums[r] += bytes[r][i] = r ? next_byte(&state) : 127;
    }
    pack(weight[0], OUTPUTS, INPUTS, packed);
    Product product = {packed, ones, zeros, OUTPUTS, INPUTS};
    for (size_t n = 0; n < sizeof(numbers) / sizeof(*numbers); n++) {
        Bytes x = {bytes[0], largest, sums, STRIDE};
        multiply(1, &product, x, numbers[n], NULL, NO_ACTIVATION, y[0]);
        for (int64_t r = 0; r < numbers[n]; r++)
            for (int o = 0; o < OUTPUTS; o++) {
                int32_t sum = 0;
                for (int i = 0; i < INPUTS; i++) sum += weight[o][i] * bytes[r][i];
                if (y[r][o] != (float)sum) return TILES_DIFFER; /* below 2^24, so that it is exact */
            }
    }
    return DONE;
}
