/* AMX in plain C, for the kernels on a CPU without it: put in front of a source, it takes the place of the compiler's
   intrinsics and of Linux' permission. What a CPU stops at, such as a tile that is not configured or shapes that do not
   fit, ends the process with a sentence. EMULATED_FAULT: added to each sum, as of a CPU that is broken. */
#pragma once
#define _GNU_SOURCE

#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define AMX
#ifndef EMULATED_FAULT
#define EMULATED_FAULT 0
#endif
#define SHARED_BY_SOURCES __attribute__((weak, visibility("hidden")))

typedef struct {
    int palette, rows[8], bytes[8];
    uint8_t data[8][16][64];
} EmulatedTiles;

SHARED_BY_SOURCES _Thread_local EmulatedTiles emulated;
SHARED_BY_SOURCES int emulated_permission;

/* Whether the calling thread keeps tiles. */
__attribute__((weak)) int emulated_in_use(void) { return emulated.palette; }

static inline void emulated_require(int holds, const char *otherwise) {
    if (holds) return;
    fprintf(stderr, "AMX: %s\n", otherwise);
    abort();
}

static inline long emulated_syscall(long number, long code, long feature) {
    emulated_require(number == SYS_arch_prctl && code == 0x1023 && feature == 18, "another system call");
    emulated_permission = 1;
    return 0;
}

static inline void emulated_configure(const void *memory) {
    const uint8_t *shapes = memory;
    emulated_require(emulated_permission, "no permission");
    memset(&emulated, 0, sizeof(emulated));
    if (shapes[0] == 0) return;
    emulated_require(shapes[0] == 1 && shapes[1] == 0, "a palette that is not 1, or a start row");
    for (int i = 0; i < 16; i++) {
        int bytes = shapes[16 + 2 * i] | shapes[17 + 2 * i] << 8, rows = shapes[48 + i];
        emulated_require(i >= 14 || shapes[2 + i] == 0, "a reserved byte is not zero");
        emulated_require(i < 8 ? bytes <= 64 && rows <= 16 : bytes + rows == 0, "a tile that is too large");
        emulated_require(!bytes == !rows, "a tile with rows alone, or with bytes alone");
        if (i < 8) emulated.bytes[i] = bytes, emulated.rows[i] = rows;
    }
    emulated.palette = 1;
}

static inline void emulated_release(void) { memset(&emulated, 0, sizeof(emulated)); }

static inline void emulated_use(int tile) {
    emulated_require(emulated.palette && emulated.rows[tile], "a tile that is not configured");
}

static inline void emulated_zero(int tile) {
    emulated_use(tile);
    memset(emulated.data[tile], 0, sizeof(emulated.data[tile]));
}

static inline void emulated_load(int tile, const void *from, int64_t stride) {
    emulated_zero(tile);
    for (int r = 0; r < emulated.rows[tile]; r++)
        memcpy(emulated.data[tile][r], (const char *)from + r * stride, (size_t)emulated.bytes[tile]);
}

static inline void emulated_store(int tile, void *to, int64_t stride) {
    emulated_use(tile);
    for (int r = 0; r < emulated.rows[tile]; r++)
        memcpy((char *)to + r * stride, emulated.data[tile][r], (size_t)emulated.bytes[tile]);
}

/* sums [M, N] += a [M, 4·K], signed, times b [K, 4·N], unsigned. */
static inline void emulated_dot(int sums, int a, int b) {
    emulated_use(sums), emulated_use(a), emulated_use(b);
    emulated_require(sums != a && sums != b && a != b, "one tile twice");
    int rows = emulated.rows[a], depth = emulated.rows[b], outputs = emulated.bytes[b] / 4;
    emulated_require(emulated.bytes[a] % 4 == 0 && emulated.bytes[b] % 4 == 0, "bytes of a row not in fours");
    emulated_require(emulated.rows[sums] == rows && emulated.bytes[sums] == 4 * outputs && emulated.bytes[a] == 4 * depth,
                     "shapes that do not fit");
    for (int m = 0; m < rows; m++) {
        uint32_t row[16];
        memcpy(row, emulated.data[sums][m], sizeof(row));
        for (int k = 0; k < depth; k++)
            for (int n = 0; n < outputs; n++) {
                const int8_t *x = (const int8_t *)emulated.data[a][m] + 4 * k;
                const uint8_t *w = emulated.data[b][k] + 4 * n;
                row[n] += (uint32_t)(x[0] * w[0] + x[1] * w[1] + x[2] * w[2] + x[3] * w[3] + EMULATED_FAULT);
            }
        memcpy(emulated.data[sums][m], row, sizeof(row));
    }
}

#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbsud
#define _tile_loadconfig emulated_configure
#define _tile_release emulated_release
#define _tile_zero emulated_zero
#define _tile_loadd emulated_load
#define _tile_stored emulated_store
#define _tile_dpbsud emulated_dot
#define syscall emulated_syscall
