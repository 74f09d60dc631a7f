/* y = x·Wᵀ + b in int8: bytes times bytes, summed exactly in int32.

   A step takes STEP neighbours of each row and of the weights of a panel of outputs, P = VECTORS·LANES. W [O, I] lies in
   panels, [O/P, I/STEP, STEP/PER_LANE, P, PER_LANE], which a product reads once from front to back for all rows. VNNI
   multiplies unsigned with signed bytes: there weights are kept as int8 + 128, and 128·(sum of the row's bytes) is
   taken off. */
#include "native.h"
#ifdef AMX
#include "amx.h"
#endif

#include <math.h>

enum { PANEL = VECTORS * LANES, PARTS = STEP / PER_LANE, CHUNK = 120, AHEAD = 4096 };
enum { SHARED = 1 << 17 }; /* bytes of weights that a thread takes at once */

#ifdef AMX
/* Whole tiles of depth, the last one filled up with zeros. */
static inline int64_t steps_of(int64_t inputs) { return (inputs + TILE_BYTES - 1) / TILE_BYTES * (TILE_BYTES / STEP); }
#else
static inline int64_t steps_of(int64_t inputs) { return (inputs + STEP - 1) / STEP; }
#endif

int64_t packed_size(int64_t outputs, int64_t inputs) { return padded(outputs) * steps_of(inputs) * STEP; }

/* Bytes that an element of a row takes. */
int64_t element_size(void) { return sizeof(Element); }

void pack(const int8_t *weight, int64_t outputs, int64_t inputs, uint8_t *packed) {
    int64_t steps = steps_of(inputs);
    for (int64_t o = 0; o < padded(outputs); o++)
        for (int64_t i = 0; i < steps * STEP; i++) {
            int value = o < outputs && i < inputs ? weight[o * inputs + i] : 0;
            int64_t part = (o / PANEL * steps + i / STEP) * PARTS + i % STEP / PER_LANE;
            packed[(part * PANEL + o % PANEL) * PER_LANE + i % PER_LANE] = (uint8_t)(value + OFFSET);
        }
}

/* A row's largest magnitude becomes 127; a row that is not a number somewhere is so everywhere. */
static void quantize_row(const float *x, int64_t width, Element *bytes, float *largest, int32_t *sum) {
    Floats most = every(0.0f);
    Test broken = no_number(most);
    for (int64_t i = 0; i < width; i += LANES) {
        Floats part = load(before(i, width), x + i);
        broken = either(broken, no_number(part));
        most = larger(magnitude(part), most);
    }
    *largest = any(broken) ? NAN : largest_of(most);
    float inverse = 1.0f / *largest * 127.0f;
    Floats factor = every(isinf(inverse) ? 0.0f : inverse); /* zeros, and what is all but zero */
    Ints total = every_int(0);
    int64_t i = 0;
    for (; i < width; i += LANES) {
        Ints whole = to_ints(load(before(i, width), x + i) * factor);
        store_elements(bytes + i, whole);
        total = add_ints(total, whole);
    }
    for (; i < steps_of(width) * STEP; i += LANES) store_elements(bytes + i, every_int(0)); /* a step reads them */
    *sum = sum_of_ints(total);
}

/* x [rows, width] */
void quantize(const float *x, int64_t rows, int64_t width, Bytes into) {
    for (int64_t row = 0; row < rows; row++)
        quantize_row(x + row * width, width, into.bytes + row * into.stride, into.largest + row, into.sums + row);
}

typedef struct {
    const float *scale, *bias, *residual;
    float *y;
    int64_t stride, outputs;
    float least;
    const Bounds *bounds; /* null: y is written. Otherwise the highest bound of each panel, and y is not */
} Finish;

/* Sums of `rows` rows from `row` on and a vector of outputs -> their places in y. */
static inline __attribute__((always_inline)) void finish(const Finish *f, const Ints (*sums)[VECTORS], int rows,
                                                         int64_t row, int64_t output, const float *largest,
                                                         Lanes lanes) {
    Floats scale = load(lanes, f->scale + output), bias = load(lanes, f->bias + output), least = every(f->least);
    float *to = f->y + row * f->stride + output;
    const float *residual = f->residual ? f->residual + row * f->stride + output : NULL;
    for (int r = 0; r < rows; r++, to += f->stride) {
        Floats y = multiply_add(to_floats(sums[r][0]) * scale, every(largest[r]), bias);
        if (residual) y = y + load(lanes, residual + r * f->stride);
        store(to, lanes, larger(least, y));
    }
}

/* Sums of a panel of outputs -> the highest bounds of y. */
static inline __attribute__((always_inline)) void bound(const Finish *f, const Ints (*sums)[VECTORS], int rows,
                                                        int64_t row, int64_t output, const float *largest,
                                                        int64_t outputs) {
    const Bounds *b = f->bounds;
    Floats highest[TILE];
    for (int r = 0; r < rows; r++) highest[r] = every(-INFINITY);
    for (int v = 0; v < VECTORS && LANES * v < outputs; v++) {
        int64_t at = output + LANES * v;
        Lanes lanes = before(LANES * v, outputs);
        Floats scale = load(lanes, f->scale + at), bias = load(lanes, f->bias + at), rest = load(lanes, b->rest + at);
        for (int r = 0; r < rows; r++) {
            Floats y = multiply_add(to_floats(sums[r][v]), every(largest[r]), every(b->slack[row + r]));
            y = multiply_add(every(b->left[row + r]), rest, multiply_add(y, scale, bias));
            highest[r] = larger_some(lanes, highest[r], y);
        }
    }
    for (int r = 0; r < rows; r++) b->highest[(row + r) * f->stride + output / PANEL] = largest_of(highest[r]);
}

/* A whole panel has no masks. */
static __attribute__((noinline)) void finish_panel(const Finish *f, const Ints (*sums)[VECTORS], int rows, int64_t row,
                                                   int64_t output, const float *largest) {
    int64_t outputs = f->outputs - output;
    if (f->bounds && outputs >= PANEL) {
        bound(f, sums, rows, row, output, largest, PANEL);
    } else if (f->bounds) {
        bound(f, sums, rows, row, output, largest, outputs);
    } else if (outputs >= PANEL) {
        UNROLL(4)
        for (int v = 0; v < VECTORS; v++)
            finish(f, (const Ints(*)[VECTORS])&sums[0][v], rows, row, output + LANES * v, largest, before(0, LANES));
    } else {
        for (int v = 0; LANES * v < outputs; v++)
            finish(f, (const Ints(*)[VECTORS])&sums[0][v], rows, row, output + LANES * v, largest,
                   before(LANES * v, outputs));
    }
}

#ifdef PAIRED
/* Adds a step of `rows` rows to the sums, a constant where this is inlined. sums[r] and sums[r + 1] are of two rows with
   two outputs a vector. A last row that is alone is its own neighbour. */
static inline __attribute__((always_inline)) void take_step(const int rows, const uint8_t *panel, const Element *bytes,
                                                            int64_t stride, Ints (*sums)[VECTORS]) {
    Ints elements[TILE];
    UNROLL(6)
    for (int r = 0; r < rows; r += 2)
        elements[r] = elements_of(bytes + r * stride, bytes + (r + 1 < rows ? r + 1 : r) * stride);
    UNROLL(8)
    for (int v = 0; v < 2 * VECTORS; v++) {
        if (v == VECTORS) __asm__ volatile("" : : : "memory"); /* there are registers for half of the weights */
        Ints weights = weights_at(panel + v * LANES / 2 * PER_LANE);
        UNROLL(6)
        for (int r = 0; r < rows; r += 2) {
            Ints *sum = &sums[r + v / VECTORS][v % VECTORS];
            *sum = dot(*sum, weights, elements[r]);
        }
    }
}

/* Of row r and vector v of outputs. */
static inline Ints sum_at(const Ints (*sums)[VECTORS], int r, int v) {
    const Ints *two = &sums[r / 2 * 2 + 2 * v / VECTORS][2 * v % VECTORS];
    return sums_of_row(r % 2, two[0], two[1]);
}
#else
/* Adds a step of `rows` rows to the sums, a constant where this is inlined. */
static inline __attribute__((always_inline)) void take_step(const int rows, const uint8_t *panel, const Element *bytes,
                                                            int64_t stride, Ints (*sums)[VECTORS]) {
    UNROLL(2)
    for (int part = 0; part < PARTS; part++) {
        Ints weights[VECTORS];
        UNROLL(4)
        for (int v = 0; v < VECTORS; v++) weights[v] = weights_at(panel + (part * VECTORS + v) * LANES * PER_LANE);
        UNROLL(6)
        for (int r = 0; r < rows; r++) {
            Ints elements = elements_at(bytes + r * stride + part * PER_LANE);
            UNROLL(4)
            for (int v = 0; v < VECTORS; v++) sums[r][v] = dot(sums[r][v], weights[v], elements);
        }
    }
}

/* Of row r and vector v of outputs. */
static inline Ints sum_at(const Ints (*sums)[VECTORS], int r, int v) { return sums[r][v]; }
#endif

/* What the sums of a row begin with. Unsigned: the sum of a row that is not finite may be the least integer. */
static inline Ints start_of(Bytes x, int64_t row) {
    return every_int(OFFSET ? (int32_t)(0u - (uint32_t)OFFSET * (uint32_t)x.sums[row]) : 0);
}

/* `rows` rows from `row` on times one panel, while `lines` cache lines a step of a later one are fetched, `pace` bytes
   from step to step. rows and lines are constants where this is inlined. */
static inline __attribute__((always_inline)) void tile(const int rows, const int lines, const uint8_t *panel,
                                                       int64_t steps, Bytes x, int64_t row, int64_t output,
                                                       const Finish *f, const char *later, int64_t pace) {
    Ints sums[TILE][VECTORS];
    const Element *bytes = x.bytes + row * x.stride;
    UNROLL(6)
    for (int r = 0; r < TILE; r++)
        UNROLL(4)
        for (int v = 0; v < VECTORS; v++) sums[r][v] = r < rows ? start_of(x, row + r) : every_int(0);
    for (int64_t step = 0; step < steps; step++, panel += PANEL * STEP, bytes += STEP, later += pace) {
        UNROLL(4)
        for (int l = 0; l < lines; l++) fetch(later + l * 64);
        take_step(rows, panel, bytes, x.stride, sums);
    }
    Ints kept[TILE][VECTORS]; /* out of the registers: the compiler would arrange the loop for what follows it */
    UNROLL(6)
    for (int r = 0; r < rows; r++)
        UNROLL(4)
        for (int v = 0; v < VECTORS; v++) kept[r][v] = sum_at(sums, r, v);
    __asm__ volatile("" : : "r"(kept) : "memory");
    finish_panel(f, kept, rows, row, output, x.largest + row);
}

typedef void (*Tile)(const uint8_t *, int64_t, Bytes, int64_t, int64_t, const Finish *, const char *, int64_t);

#define TILE_OF(rows, lines)                                                                                          \
    static __attribute__((noinline)) void tile_##rows##_##lines(                                                      \
        const uint8_t *panel, int64_t steps, Bytes x, int64_t row, int64_t output, const Finish *f,                   \
        const char *later, int64_t pace) {                                                                            \
        tile(rows, lines, panel, steps, x, row, output, f, later, pace);                                              \
    }
#include "tiles.h"

/* Rows row..end-1 times one panel, in equal tiles. Memory is slower than the sums: while one panel is multiplied the
   next one is fetched, a part by each tile; a lone tile fetches a little ahead of itself. */
static void multiply_panel(const uint8_t *panel, int64_t steps, Bytes x, int64_t row, int64_t end, int64_t output,
                           const Finish *f) {
    int64_t count = (end - row + TILE - 1) / TILE, size = steps * PANEL * STEP, pace = PANEL * STEP / count;
    const char *later = (const char *)panel + (count == 1 ? AHEAD : size);
    const Tile *tiles = pace > 128 ? tiles_4 : pace > 64 ? tiles_2 : tiles_1;
    for (; row < end; count--, later += pace * steps) {
        int64_t rows = (end - row + count - 1) / count;
        tiles[rows - 1](panel, steps, x, row, output, f, later, pace);
        row += rows;
    }
}

static Floats activated(Floats x, int activation) {
    Floats one = every(1.0f);
    if (activation == SILU) return x / (one + exponential(every(0.0f) - x));
    /* GELU; erf by Abramowitz and Stegun 7.1.26, within 2e-7 */
    Floats z = magnitude(x) * every(0.70710678f);
    Floats t = one / multiply_add(z, every(0.3275911f), one);
    Floats p = multiply_add(t, every(1.061405429f), every(-1.453152027f));
    p = multiply_add(p, t, every(1.421413741f));
    p = multiply_add(p, t, every(-0.284496736f));
    p = multiply_add(p, t, every(0.254829592f)) * t;
    Floats tail = p * exponential(every(0.0f) - z * z);
    Floats twice = choose(negative(x), tail, every(2.0f) - tail); /* 1 + erf */
    return x * every(0.5f) * twice;
}

typedef struct {
    const Product *product;
    const Finish *finish;
    Bytes x;
    int64_t rows, outputs; /* outputs: of a part */
} Multiplied;

#ifdef AMX
/* Rows row..end-1 times the panels of outputs first..last-1, in equal tiles. The last tile begins before the end of the
   one before it where they do not divide the rows, and its first rows are not finished again. */
static void multiply_by_tiles(const Multiplied *m, int64_t row, int64_t end, int64_t first, int64_t last) {
    int64_t steps = steps_of(m->product->inputs), size = steps * PANEL * STEP;
    int64_t count = (end - row + TILE_ROWS - 1) / TILE_ROWS, rows = (end - row + count - 1) / count;
    int64_t pace = TILE_ROWS * TILE_BYTES * VECTORS / count;
    configure_tiles(rows);
    for (int64_t output = first; output < last; output += PANEL) {
        const uint8_t *panel = m->product->weight + output * steps * STEP;
        const char *later = (const char *)panel + (count == 1 ? FETCHED_AHEAD : size);
        for (int64_t from = row; from < end; from += rows, later += pace * (steps * STEP / TILE_BYTES)) {
            int64_t begin = from + rows <= end ? from : end - rows;
            Ints sums[TILE_ROWS][VECTORS];
            multiply_tiles(panel, steps, m->x.bytes + begin * m->x.stride, m->x.stride, sums, later, pace);
            for (int64_t r = from - begin; r < rows; r++)
                for (int v = 0; v < VECTORS; v++) sums[r][v] = add_ints(sums[r][v], start_of(m->x, begin + r));
            for (int64_t r = from - begin; r < rows; r += TILE)
                finish_panel(m->finish, sums + r, (int)(rows - r < TILE ? rows - r : TILE), begin + r, output,
                             m->x.largest + begin + r);
        }
    }
    release_tiles();
}
#endif

static void multiply_part(const void *job, int64_t part, int64_t thread) {
    (void)thread;
    const Multiplied *m = job;
    const Product *p = m->product;
    int64_t steps = steps_of(p->inputs), first = part * m->outputs, last = first + m->outputs;
    if (last > p->outputs) last = p->outputs;
    /* Rows stay in the cache while W goes past, CHUNK at most; a few that are left over would be as long on the way. */
    int64_t chunks = m->rows > CHUNK ? (m->rows + CHUNK - 1) / CHUNK : 1;
    int64_t chunk = ((m->rows + chunks - 1) / chunks + TILE - 1) / TILE * TILE;
    for (int64_t row = 0; row < m->rows; row += chunk) {
        int64_t end = row + chunk < m->rows ? row + chunk : m->rows;
#ifdef AMX
        if (end - row >= LEAST_ROWS && p->inputs >= LEAST_DEPTH) {
            multiply_by_tiles(m, row, end, first, last);
            continue;
        }
#endif
        for (int64_t output = first; output < last; output += PANEL)
            multiply_panel(p->weight + output * steps * STEP, steps, m->x, row, end, output, m->finish);
    }
}

static void multiply_panels(int64_t threads, const Product *p, Bytes x, int64_t rows, const Finish *f) {
    int64_t outputs = SHARED / padded(p->inputs) / PANEL * PANEL;
    if (threads < 2) outputs = p->outputs;
    else if (outputs < PANEL) outputs = PANEL;
    Multiplied job = {p, f, x, rows, outputs};
    share(threads, multiply_part, &job, (p->outputs + outputs - 1) / outputs);
}

int64_t panel_width(void) { return PANEL; }

/* x [rows, I] -> bounds->highest. */
void bound_panels(int64_t threads, const Product *p, Bytes x, int64_t rows, const Bounds *bounds) {
    int64_t panels = (p->outputs + PANEL - 1) / PANEL;
    Finish f = {p->scale, p->bias, NULL, NULL, panels, p->outputs, -INFINITY, bounds};
    multiply_panels(threads, p, x, rows, &f);
}

/* One row of x times one panel -> y [panel_width()], -inf beyond the outputs: the numbers of `multiply`. */
void multiply_row(const Product *p, Bytes x, int64_t row, int64_t panel, float *y) {
    int64_t steps = steps_of(p->inputs), output = panel * PANEL, count = p->outputs - output;
    Finish f = {p->scale + output, p->bias + output, NULL, y, 0, count < PANEL ? count : PANEL, -INFINITY, NULL};
    Bytes one = {x.bytes + row * x.stride, x.largest + row, x.sums + row, x.stride};
    for (int64_t i = f.outputs; i < PANEL; i++) y[i] = -INFINITY;
    multiply_panel(p->weight + output * steps * STEP, steps, one, 0, 1, 0, &f);
}

typedef struct {
    float *y;
    int64_t width;
    int activation;
} Activated;

static void activate_row(const void *job, int64_t row, int64_t thread) {
    (void)thread;
    const Activated *a = job;
    float *y = a->y + row * a->width;
    for (int64_t i = 0; i < a->width; i += LANES) {
        Lanes lanes = before(i, a->width);
        store(y + i, lanes, activated(load(lanes, y + i), a->activation));
    }
}

/* x [rows, I] -> y [rows, O]; residual [rows, O] or null is added (with no activation, or RELU after the sum). */
void multiply(int64_t threads, const Product *p, Bytes x, int64_t rows, const float *residual, int activation,
              float *y) {
    Finish f = {p->scale, p->bias, residual, y, p->outputs, p->outputs, activation == RELU ? 0.0f : -INFINITY, NULL};
    multiply_panels(threads, p, x, rows, &f);
    Activated job = {y, p->outputs, activation};
    if (activation == GELU || activation == SILU) share(threads, activate_row, &job, rows);
}
