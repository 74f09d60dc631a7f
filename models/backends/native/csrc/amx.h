/* AMX: tiles of 16 rows of 64 bytes, whose one instruction multiplies 16 rows of x by 16 outputs over a depth of 64.

   A panel of `pack` is such tiles already: 64 bytes of it are 4 inputs of 16 outputs, and the next 4 inputs of these
   outputs stand PANEL·STEP bytes further on. The sums are those of VNNI, exact int32. */
#pragma once

#include "native.h"

/* Fewer rows or fewer inputs are multiplied by VNNI: over few inputs, to configure tiles and to store their sums takes
   longer than tiles save. FETCHED_AHEAD: bytes of a panel whose rows fit one tile. */
#ifndef LEAST_DEPTH
#define LEAST_DEPTH 384
#endif
enum { TILE_ROWS = 16, TILE_BYTES = 64, LEAST_ROWS = 8, FETCHED_AHEAD = 4 * TILE_ROWS * TILE_BYTES * VECTORS };
enum { TILES_REFUSED = 3, TILES_DIFFER = 4 }; /* what `try_tiles` comes to besides the statuses of native.h */

typedef struct { /* as `ldtilecfg` reads it */
    uint8_t palette, start_row, reserved[14];
    uint16_t bytes[16]; /* of a row */
    uint8_t rows[16];
} TileShapes;

/* Tiles 0 to 3 hold the sums of `rows` rows, tile 4 these rows, tiles 5 to 7 weights. Lasts until `release_tiles`. */
static inline void configure_tiles(int64_t rows) {
    TileShapes shapes = {.palette = 1};
    for (int tile = 0; tile < 8; tile++)
        shapes.bytes[tile] = TILE_BYTES, shapes.rows[tile] = (uint8_t)(tile < 5 ? rows : TILE_ROWS);
    /* GCC's intrinsics do not say which memory `ldtilecfg` and `tileloadd` read */
    __asm__ volatile("" : : "r"(&shapes) : "memory");
    _tile_loadconfig(&shapes);
}

/* A thread that keeps tiles makes each switch to another thread save 8 kB, and its core may not sleep deeply. */
static inline void release_tiles(void) { _tile_release(); }

/* The configured number of rows, `stride` bytes apart, times a panel -> sums, without what OFFSET adds; `pace` bytes
   from `later` on are fetched for each tile of depth. steps: a multiple of those of a tile. */
static inline void multiply_tiles(const uint8_t *panel, int64_t steps, const int8_t *bytes, int64_t stride,
                                  Ints (*sums)[VECTORS], const char *later, int64_t pace) {
    const int64_t apart = VECTORS * TILE_BYTES; /* of the rows of weights, and of those of sums */
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (const uint8_t *end = panel + steps * apart; panel < end; later += pace) {
        _tile_loadd(4, bytes, stride);
        _tile_loadd(5, panel, apart);
        _tile_dpbsud(0, 4, 5);
        _tile_loadd(6, panel + TILE_BYTES, apart);
        _tile_dpbsud(1, 4, 6);
        _tile_loadd(7, panel + 2 * TILE_BYTES, apart);
        _tile_dpbsud(2, 4, 7);
        _tile_loadd(5, panel + 3 * TILE_BYTES, apart);
        _tile_dpbsud(3, 4, 5);
        for (int64_t line = 0; line < pace; line += 64) fetch_to_l2(later + line);
        panel += TILE_ROWS * apart, bytes += TILE_BYTES;
    }
    _tile_stored(0, &sums[0][0], apart);
    _tile_stored(1, &sums[0][1], apart);
    _tile_stored(2, &sums[0][2], apart);
    _tile_stored(3, &sums[0][3], apart);
}
