/* To be included behind `Tile`, the type of a function, and TILE_OF(rows, lines), which makes one for so many rows that
   fetches so many cache lines a step: tiles_1, tiles_2 and tiles_4, of that many lines, each for 1 to 6 rows. */
#define TILES_OF(lines)                                                                                               \
    TILE_OF(1, lines) TILE_OF(2, lines) TILE_OF(3, lines) TILE_OF(4, lines) TILE_OF(5, lines) TILE_OF(6, lines)       \
    static const Tile tiles_##lines[] = {tile_1_##lines, tile_2_##lines, tile_3_##lines,                              \
                                         tile_4_##lines, tile_5_##lines, tile_6_##lines};
TILES_OF(1)
TILES_OF(2)
TILES_OF(4)
