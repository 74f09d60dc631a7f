/* Products of dense matrices in fp32, in tiles of registers; each element is summed from its first term to its last. */
#include "training.h"

typedef struct {
    int64_t depth, columns;
    const float *a, *b, *bias;
    int64_t a_row, a_step, b_row;
    float *c;
    int64_t c_row, add;
} TileWork;

/* Of a tile that is as wide as its vectors, as nearly all are. */
static inline __attribute__((always_inline)) void put_whole(const int rows, const int vectors, const TileWork *w,
                                                            Floats done[TILE][VECTORS]) {
    Floats bias[VECTORS];
    for (int v = 0; v < vectors; v++) bias[v] = w->bias ? load(w->bias + v * LANES) : all(0.0f);
    ROLLED
    for (int r = 0; r < rows; r++) {
        float *to = w->c + r * w->c_row;
        if (w->add)
            UNROLL(4)
            for (int v = 0; v < vectors; v++) store(to + v * LANES, load(to + v * LANES) + done[r][v]);
        else
            UNROLL(4)
            for (int v = 0; v < vectors; v++) store(to + v * LANES, done[r][v] + bias[v]);
    }
}

static inline __attribute__((always_inline)) void tile(const int rows, const int vectors, const TileWork *w) {
    Floats sums[TILE][VECTORS], done[TILE][VECTORS];
    const float *a = w->a, *b = w->b;
    const int64_t row = w->a_row, step = w->a_step, b_row = w->b_row;
    UNROLL(6)
    for (int r = 0; r < rows; r++)
        UNROLL(4)
        for (int v = 0; v < vectors; v++) sums[r][v] = all(0.0f);
    for (int64_t k = w->depth; k > 0; k--, a += step, b += b_row) {
        Floats right[VECTORS];
        UNROLL(4)
        for (int v = 0; v < vectors; v++) right[v] = load(b + v * LANES);
        UNROLL(6)
        for (int r = 0; r < rows; r++) {
            Floats left = all(a[r * row]);
            UNROLL(4)
            for (int v = 0; v < vectors; v++) sums[r][v] += left * right[v];
        }
    }
    UNROLL(6)
    for (int r = 0; r < rows; r++)
        UNROLL(4)
        for (int v = 0; v < vectors; v++) done[r][v] = sums[r][v];
    __asm__ volatile("" : : "r"(done) : "memory"); /* the compiler would arrange the loop for what follows it */
    if (w->columns >= vectors * LANES) return put_whole(rows, vectors, w, done);
    ROLLED
    for (int r = 0; r < rows; r++)
        ROLLED
        for (int v = 0; v < vectors; v++) {
            int64_t left = w->columns - v * LANES;
            float *to = w->c + r * w->c_row + v * LANES;
            Floats x = done[r][v];
            if (w->bias) x += load_some(w->bias + v * LANES, left, all(0.0f));
            if (w->add) x += load_some(to, left, all(0.0f));
            store_some(to, x, left);
        }
}

typedef void (*Tile)(const TileWork *);
#define TILE_OF(rows, vectors)                                                                                        \
    static __attribute__((noinline)) void tile_##rows##_##vectors(const TileWork *w) { tile(rows, vectors, w); }
#define TILES_OF(vectors)                                                                                             \
    TILE_OF(1, vectors)                                                                                               \
    TILE_OF(2, vectors) TILE_OF(3, vectors) TILE_OF(4, vectors) TILE_OF(5, vectors) TILE_OF(6, vectors)
#define ROW_OF(vectors)                                                                                               \
    {tile_1_##vectors, tile_2_##vectors, tile_3_##vectors, tile_4_##vectors, tile_5_##vectors, tile_6_##vectors}
TILES_OF(1)
TILES_OF(2)
#if defined(__AVX512F__) || defined(__aarch64__)
TILES_OF(3)
TILES_OF(4)
static const Tile tiles[VECTORS][TILE] = {ROW_OF(1), ROW_OF(2), ROW_OF(3), ROW_OF(4)};
#else
static const Tile tiles[VECTORS][TILE] = {ROW_OF(1), ROW_OF(2)};
#endif

void product(int64_t rows, int64_t depth, int64_t columns, Left a, Right b, Into c) {
    for (int64_t column = 0; column < columns; column += PANEL) {
        int64_t these = smaller(PANEL, columns - column), count = (rows + TILE - 1) / TILE;
        const Tile *of = tiles[(these + LANES - 1) / LANES - 1];
        TileWork w = {depth, these, a.at, b.at + column / PANEL * b.panel, c.bias ? c.bias + column : NULL,
                      a.row, a.step, b.row, c.at + column, c.row, c.add};
        for (int64_t left = rows; left > 0; count--) {
            int64_t high = (left + count - 1) / count;
            of[high - 1](&w);
            w.a += high * a.row, w.c += high * c.row, left -= high;
        }
    }
}

/* A square of LANES x LANES, swapped in ever larger squares. */
static inline void transpose_square(Floats *x) {
#if defined(__GNUC__) && !defined(__clang__)
    Ints lane;
    for (int i = 0; i < LANES; i++) lane[i] = i;
    UNROLL(4)
    for (int size = 1; size < LANES; size *= 2) {
        Ints high = (lane & size) != 0, up = lane - size + LANES, down = lane + size;
        Ints first = (~high & lane) | (high & up), second = (high & (lane + LANES)) | (~high & down);
        UNROLL(16)
        for (int i = 0; i < LANES; i++) {
            if (i & size) continue;
            Floats a = x[i], b = x[i + size];
            x[i] = __builtin_shuffle(a, b, first);
            x[i + size] = __builtin_shuffle(a, b, second);
        }
    }
#else
    for (int i = 0; i < LANES; i++)
        for (int j = i + 1; j < LANES; j++) {
            float kept = x[i][j];
            x[i][j] = x[j][i], x[j][i] = kept;
        }
#endif
}

/* to[c, r] = from[r, c]; rows beyond `rows` up to a whole vector become zeros in `to`, which has room for them. */
void transpose_into(const float *from, int64_t row, int64_t rows, int64_t columns, float *to, int64_t to_row) {
    for (int64_t r = 0; r < rows; r += LANES)
        for (int64_t c = 0; c < columns; c += LANES) {
            Floats square[LANES];
            for (int i = 0; i < LANES; i++)
                square[i] = r + i < rows ? load_some(from + (r + i) * row + c, columns - c, all(0.0f)) : all(0.0f);
            transpose_square(square);
            for (int i = 0; i < smaller(LANES, columns - c); i++) store(to + (c + i) * to_row + r, square[i]);
        }
}

int64_t turning_tasks(const Linear *linear) { return whole(linear->outputs, PANEL) / PANEL; }
int64_t straightening_tasks(const Linear *linear) { return whole(linear->inputs, PANEL) / PANEL; }

void turn(const Linear *linear, int64_t panel) {
    int64_t first = panel * PANEL, inputs = linear->inputs;
    transpose_into(linear->weight + first * inputs, inputs, smaller(PANEL, linear->outputs - first), inputs,
                   linear->turned + first * inputs, PANEL);
}

void straighten(const Linear *linear, int64_t panel) {
    int64_t first = panel * PANEL, left = linear->inputs - first;
    const float *from = linear->weight + first;
    float *to = linear->straight + first * linear->outputs;
    for (int64_t o = 0; o < linear->outputs; o++, from += linear->inputs, to += PANEL)
        for (int64_t v = 0; v < PANEL && v < left; v += LANES) store(to + v, load_some(from + v, left - v, all(0.0f)));
}

void forward_rows(const Linear *linear, const float *x, int64_t rows, float *y) {
    Right b = {linear->turned, PANEL, PANEL * linear->inputs};
    Into c = {y, linear->outputs, linear->bias, 0};
    product(rows, linear->inputs, linear->outputs, (Left){x, linear->inputs, 1}, b, c);
}

void backward_rows(const Linear *linear, const float *dy, int64_t rows, float *dx) {
    Right b = {linear->straight, PANEL, PANEL * linear->outputs};
    Into c = {dx, linear->inputs, NULL, 0};
    product(rows, linear->outputs, linear->inputs, (Left){dy, linear->outputs, 1}, b, c);
}

/* GROUP, SPAN: outputs and inputs of a task. DEPTH: tokens whose rows are copied together, so that they lie in the cache
   without pushing each other out, as rows do that are powers of two apart. */
enum { GROUP = 96, SPAN = 4 * PANEL, DEPTH = 128, NARROW = 512 };

int64_t gradient_tasks(const Linear *linear) {
    return (linear->outputs + GROUP - 1) / GROUP * ((linear->inputs + SPAN - 1) / SPAN);
}

/* db of some outputs and tokens, row by row as they lie. */
static void bias_gradient(const float *dy, int64_t row, int64_t tokens, int64_t outputs, float *to, int64_t add) {
    Floats sums[GROUP / LANES];
    int64_t vectors = (outputs + LANES - 1) / LANES;
    for (int64_t v = 0; v < vectors; v++)
        sums[v] = add ? load_some(to + v * LANES, outputs - v * LANES, all(0.0f)) : all(0.0f);
    for (int64_t t = 0; t < tokens; t++, dy += row)
        for (int64_t v = 0; v < vectors; v++) sums[v] += load_some(dy + v * LANES, outputs - v * LANES, all(0.0f));
    for (int64_t v = 0; v < vectors; v++) store_some(to + v * LANES, sums[v], outputs - v * LANES);
}

static void copy_rows(const float *from, int64_t row, int64_t rows, int64_t columns, float *to, int64_t to_row) {
    for (int64_t r = 0; r < rows; r++, from += row, to += to_row)
        for (int64_t c = 0; c < columns; c += LANES) store(to + c, load_some(from + c, columns - c, all(0.0f)));
}

void gradient(const Linear *linear, const float *dy, const float *x, int64_t tokens, int64_t task, int64_t add) {
    int64_t spans = (linear->inputs + SPAN - 1) / SPAN, first = task / spans * GROUP, begin = task % spans * SPAN;
    int64_t outputs = smaller(GROUP, linear->outputs - first), end = smaller(linear->inputs, begin + SPAN);
    float right[DEPTH * PANEL], left[DEPTH * GROUP];
    for (int64_t t = 0; (t == 0 && !add) || t < tokens; t += DEPTH, add = 1) {
        int64_t depth = smaller(DEPTH, tokens - t);
        Left a = {dy + t * linear->outputs + first, 1, linear->outputs};
        if (begin == 0 && linear->bias_gradient)
            bias_gradient(a.at, linear->outputs, depth, outputs, linear->bias_gradient + first, add);
        if (linear->outputs > NARROW) {
            copy_rows(a.at, linear->outputs, depth, outputs, left, GROUP);
            a = (Left){left, 1, GROUP};
        }
        for (int64_t column = begin; column < end; column += PANEL) {
            int64_t columns = smaller(PANEL, end - column);
            Into c = {linear->weight_gradient + first * linear->inputs + column, linear->inputs, NULL, add};
            copy_rows(x + t * linear->inputs + column, linear->inputs, depth, columns, right, PANEL);
            product(outputs, depth, columns, a, (Right){right, PANEL, PANEL}, c);
        }
    }
}
