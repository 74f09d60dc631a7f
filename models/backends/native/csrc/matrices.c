/* y = W·x + b in fp32, each output summed over its inputs from the first to the last, whatever rows come along.

   W [O, I] lies in panels of as many outputs as a tile holds: [O/PANEL, I, PANEL], which a product reads once from
   front to back for all rows. */
#include "recurrent.h"

enum { TILE = 6, CHUNK = 96 };

int64_t packed_size(int64_t outputs, int64_t inputs) { return whole(outputs, PANEL) * inputs; }

void pack(const float *weight, int64_t outputs, int64_t inputs, float *packed) {
    for (int64_t o = 0; o < whole(outputs, PANEL); o++)
        for (int64_t i = 0; i < inputs; i++)
            packed[(o / PANEL * inputs + i) * PANEL + o % PANEL] = o < outputs ? weight[o * inputs + i] : 0.0f;
}

/* A line of memory into the nearest cache, or into the second one; clang knows no other constant than a literal one. */
static inline __attribute__((always_inline)) void fetch(const char *line, const int nearest) {
    if (nearest) __builtin_prefetch(line, 0, 3);
    else __builtin_prefetch(line, 0, 2);
}

/* `rows` rows times one panel, while `lines` cache lines a step of what is read later are fetched. rows and lines are
   constants where this is inlined. */
static inline __attribute__((always_inline)) void tile(const int rows, const int lines, const Matrix *m,
                                                       int64_t output, const float *const *x, float *y,
                                                       int64_t stride, const char *later) {
    Floats sums[TILE][VECTORS], kept[TILE][VECTORS];
    const float *panel = m->weight + output * m->inputs, *from[TILE];
    UNROLL(6)
    for (int r = 0; r < rows; r++) {
        from[r] = x[r];
        UNROLL(4)
        for (int v = 0; v < VECTORS; v++) sums[r][v] = all(0.0f);
    }
    for (int64_t i = 0; i < m->inputs; i++, panel += PANEL, later += lines * LINE) {
        Floats weight[VECTORS];
        UNROLL(4)
        for (int l = 0; l < lines; l++) fetch(later + l * LINE, lines == 4);
        UNROLL(4)
        for (int v = 0; v < VECTORS; v++) weight[v] = load(panel + v * LANES);
        UNROLL(6)
        for (int r = 0; r < rows; r++) {
            Floats value = all(from[r][i]);
            UNROLL(4)
            for (int v = 0; v < VECTORS; v++) sums[r][v] += value * weight[v];
        }
    }
    UNROLL(6)
    for (int r = 0; r < rows; r++)
        UNROLL(4)
        for (int v = 0; v < VECTORS; v++) kept[r][v] = sums[r][v];
    __asm__ volatile("" : : "r"(kept) : "memory"); /* the compiler would arrange the loop for what follows it */
    ROLLED
    for (int r = 0; r < rows; r++)
        ROLLED
        for (int v = 0; v < VECTORS; v++) {
            int64_t first = output + v * LANES;
            if (first < m->outputs)
                store_some(y + r * stride + first, kept[r][v] + load(m->bias + first), m->outputs - first);
        }
}

typedef void (*Tile)(const Matrix *, int64_t, const float *const *, float *, int64_t, const char *);

#define TILE_OF(rows, lines)                                                                                          \
    static __attribute__((noinline)) void tile_##rows##_##lines(const Matrix *m, int64_t output,                      \
                                                                const float *const *x, float *y, int64_t stride,      \
                                                                const char *later) {                                  \
        tile(rows, lines, m, output, x, y, stride, later);                                                            \
    }
#include "tiles.h"

/* In equal tiles. While one panel is multiplied the next one is fetched, a part by each tile; a lone tile fetches a
   little ahead of itself. */
static void multiply_panel(const Matrix *m, int64_t output, const float *const *x, int64_t rows, float *y,
                           int64_t stride) {
    int64_t count = (rows + TILE - 1) / TILE, lines = count == 1 ? 4 : count <= 3 ? 2 : 1;
    const Tile *tiles = count == 1 ? tiles_4 : count <= 3 ? tiles_2 : tiles_1;
    const char *later = (const char *)(m->weight + output * m->inputs) + (count == 1 ? 4096 : PANEL * m->inputs * 4);
    for (int64_t row = 0; row < rows; count--, later += lines * LINE * m->inputs) {
        int64_t these = (rows - row + count - 1) / count;
        tiles[these - 1](m, output, x + row, y + row * stride, stride, later);
        row += these;
    }
}

void multiply(const Matrix *m, const float *const *x, int64_t rows, float *y, int64_t stride) {
    for (int64_t row = 0; row < rows; row += CHUNK) /* so many rows stay in the cache while W goes past */
        for (int64_t output = 0; output < m->outputs; output += PANEL)
            multiply_panel(m, output, x + row, rows - row < CHUNK ? rows - row : CHUNK, y + row * stride, stride);
}
