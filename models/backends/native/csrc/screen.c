/* The likeliest token without most of the logits, and provably the same one.

   A row x̂ of the output's input and a row ŵ of the output matrix are both as their int8 numbers say. Rotated by an
   orthogonal matrix, of which R are the first K rows, ŵ·x̂ = v·z + (what the other numbers add), z = R·x̂, v = R·ŵ; by
   Cauchy and Schwarz the others add at most |x̂⊥|·|ŵ⊥|, with |x̂⊥|² = |x̂|² - |z|². The product over the first K numbers is
   again one in int8: z = p + f and v = q + e, p and q as their int8 numbers say, and v·z <= p·q + |p|·|e| + |f|·|v|.

   So each logit has an upper bound that takes K/C of the work, and only panels of outputs whose highest bound reaches
   the best logit that is known are computed, by the products of the whole matrix. A rotation that puts most of the
   energy of a trained model's states into the first numbers leaves a few panels of 908. A row in which the bounds leave
   many is computed as a whole.

   Sums of n products in float32 err by at most n·2^-24 of the product of the norms: 3e-5 for 512. MARGIN, the square of
   2 %, is added to the squares of both |x̂⊥| and |ŵ⊥| relative to |x̂|² and |ŵ|² (the caller adds the latter), which adds
   at least 4e-4·|x̂|·|ŵ| to each bound. */
#include "native.h"

#include <math.h>
#include <stdlib.h>

enum { TOGETHER = 4, VECTORS_TURNED = LANES == 4 ? 4 : 2 }; /* rows that are rotated at once, and vectors of each */
enum { TURNED = VECTORS_TURNED * LANES };
static const float MARGIN = 4e-4f, RELATIVE = 1e-6f;

typedef struct {
    const Product *projection;
    const Screen *screen;
    Bytes x; /* as it is given */
    int64_t rows, width, panels, threads;
    float *read, *turned;       /* [rows, C] x̂; [rows, K] z */
    float *slack, *left;        /* [rows] see Bounds */
    float *highest;             /* [rows, panels] */
    Bytes bytes, remaining;     /* p; the rows that are computed as a whole, in int8 */
    int64_t *whole;             /* which rows these are */
    int64_t *tokens, *computed; /* [rows] the likeliest, or -1; panels of outputs that were computed for it */
    void *memory;
} Room;

/* The first fields of the room are set. 0 if there is no memory. */
static int begin(Room *room) {
    int64_t kept = room->screen->prefix.inputs, rows = room->rows, stride = room->x.stride;
    int64_t floats = rows * (padded(room->width) + padded(kept) + room->panels + 6);
    int64_t elements = rows * (padded(kept) + stride) * (int64_t)sizeof(Element);
    room->memory = aligned_alloc(64, (size_t)padded(4 * floats + elements + 16 * rows + 64 * 16));
    if (!room->memory) return 0;
    char *next = room->memory;
    room->read = take(&next, 4 * rows * room->width), room->turned = take(&next, 4 * rows * kept);
    room->slack = take(&next, 4 * rows), room->left = take(&next, 4 * rows);
    room->highest = take(&next, 4 * rows * room->panels);
    room->whole = take(&next, 8 * rows), room->computed = take(&next, 8 * rows);
    room->bytes.stride = padded(kept), room->remaining.stride = stride;
    room->bytes.bytes = take(&next, rows * padded(kept) * (int64_t)sizeof(Element));
    room->remaining.bytes = take(&next, rows * stride * (int64_t)sizeof(Element));
    room->bytes.largest = take(&next, 4 * rows), room->bytes.sums = take(&next, 4 * rows);
    room->remaining.largest = take(&next, 4 * rows), room->remaining.sums = take(&next, 4 * rows);
    return 1;
}

static float squared_norm(const float *x, int64_t width) {
    Floats sum = every(0.0f);
    for (int64_t i = 0; i < width; i += LANES) {
        Floats part = load(before(i, width), x + i);
        sum = multiply_add(part, part, sum);
    }
    return sum_of(sum);
}

/* TURNED numbers of z = R·x for `rows` rows, a constant where this is inlined; rotation [C, K], z [rows, K]. */
static inline __attribute__((always_inline)) void turn(const int rows, const float *rotation, const float *x,
                                                       int64_t width, int64_t kept, float *z) {
    Floats sums[TOGETHER][VECTORS_TURNED], turned[VECTORS_TURNED];
    UNROLL(4)
    for (int r = 0; r < rows; r++)
        UNROLL(4)
        for (int v = 0; v < VECTORS_TURNED; v++) sums[r][v] = every(0.0f);
    for (int64_t i = 0; i < width; i++, rotation += kept) {
        UNROLL(4)
        for (int v = 0; v < VECTORS_TURNED; v++) turned[v] = load_whole(rotation + v * LANES);
        UNROLL(4)
        for (int r = 0; r < rows; r++) {
            Floats value = every(x[r * width + i]);
            UNROLL(4)
            for (int v = 0; v < VECTORS_TURNED; v++) sums[r][v] = multiply_add(value, turned[v], sums[r][v]);
        }
    }
    UNROLL(4)
    for (int r = 0; r < rows; r++)
        UNROLL(4)
        for (int v = 0; v < VECTORS_TURNED; v++) store_whole(z + r * kept + v * LANES, sums[r][v]);
}

/* x̂ of a row, and its squared norm. */
static void read_row(const void *job, int64_t row, int64_t thread) {
    (void)thread;
    const Room *room = job;
    float unit = room->x.largest[row] / 127.0f, *read = room->read + row * room->width;
    for (int64_t i = 0; i < room->width; i++) read[i] = (float)room->x.bytes[row * room->x.stride + i] * unit;
    room->left[row] = squared_norm(read, room->width);
}

/* A part is TURNED numbers of z of some rows. */
static void turn_part(const void *job, int64_t part, int64_t thread) {
    (void)thread;
    const Room *room = job;
    int64_t kept = room->screen->prefix.inputs, parts = kept / TURNED, row = part / parts * TOGETHER;
    int64_t first = part % parts * TURNED, rows = room->rows - row;
    const float *rotation = room->screen->rotation + first, *read = room->read + row * room->width;
    float *z = room->turned + row * kept + first;
    switch (rows) {
    case 1: turn(1, rotation, read, room->width, kept, z); break;
    case 2: turn(2, rotation, read, room->width, kept, z); break;
    case 3: turn(3, rotation, read, room->width, kept, z); break;
    default: turn(TOGETHER, rotation, read, room->width, kept, z);
    }
}

/* p of a row, and what the bounds of its logits add. */
static void round_row(const void *job, int64_t row, int64_t thread) {
    (void)thread;
    const Room *room = job;
    int64_t kept = room->screen->prefix.inputs;
    float *z = room->turned + row * kept, whole = room->left[row], inside = squared_norm(z, kept);
    Element *p = room->bytes.bytes + row * room->bytes.stride;
    Bytes into = {p, room->bytes.largest + row, room->bytes.sums + row, room->bytes.stride};
    quantize(z, 1, kept, into);
    float step = *into.largest / 127.0f;
    for (int64_t i = 0; i < kept; i++) z[i] -= (float)p[i] * step; /* f */
    float moved = sqrtf(squared_norm(z, kept)), norm = sqrtf(inside) + moved; /* of p */
    room->left[row] = sqrtf(fmaxf(whole - inside, 0.0f) + MARGIN * whole);
    room->slack[row] = 127.0f * (norm * room->screen->rounding + moved * room->screen->size);
}

static void prepare(const Room *room) {
    int64_t groups = (room->rows + TOGETHER - 1) / TOGETHER;
    share(room->threads, read_row, room, room->rows);
    share(room->threads, turn_part, room, groups * (room->screen->prefix.inputs / TURNED));
    share(room->threads, round_row, room, room->rows);
}

/* The best output of a row among those whose bound reaches the best, starting with the highest bound. -1: the whole row
   has to be computed. */
static int64_t search(const Room *room, int64_t row) {
    float y[64] __attribute__((aligned(64))), best, value;
    const Product *p = room->projection;
    const float *highest = room->highest + row * room->panels;
    int64_t place, found, first, width = panel_width(), count = 0;
    find_likeliest(highest, room->panels, &best, &first);
    if (!isfinite(room->x.largest[row]) || !isfinite(best)) return -1;
    multiply_row(p, room->x, row, first, y);
    find_likeliest(y, width, &best, &place);
    place += first * width;
    if (!isfinite(best)) return -1;
    float least = best - fabsf(best) * RELATIVE;
    for (int64_t panel = 0; panel < room->panels; panel++) count += highest[panel] >= least;
    if (count > room->screen->most) return -1;
    for (int64_t panel = 0; panel < room->panels; panel++) {
        if (panel == first || highest[panel] < best - fabsf(best) * RELATIVE) continue;
        multiply_row(p, room->x, row, panel, y);
        find_likeliest(y, width, &value, &found);
        found += panel * width;
        if (value > best || (value == best && found < place)) best = value, place = found; /* of equals the first */
        ++room->computed[row];
    }
    ++room->computed[row];
    return place;
}

static void search_row(const void *job, int64_t row, int64_t thread) {
    (void)thread;
    const Room *room = job;
    room->computed[row] = 0;
    room->tokens[row] = search(room, row);
}

static void copy_row(Bytes from, int64_t row, Bytes to, int64_t at, int64_t width) {
    for (int64_t i = 0; i < width; i++) to.bytes[at * to.stride + i] = from.bytes[row * from.stride + i];
    to.largest[at] = from.largest[row], to.sums[at] = from.sums[row];
}

/* The likeliest output of each row by all logits -> tokens[places[row]], or tokens[row] without places. */
static int64_t choose_from_all(int64_t threads, const Product *projection, Bytes x, int64_t rows,
                               const int64_t *places, int64_t *tokens) {
    float *logits = aligned_alloc(64, (size_t)padded(4 * rows * projection->outputs)), value;
    if (!logits) return NO_MEMORY;
    multiply(threads, projection, x, rows, NULL, NO_ACTIVATION, logits);
    for (int64_t row = 0; row < rows; row++)
        find_likeliest(logits + row * projection->outputs, projection->outputs, &value,
                       tokens + (places ? places[row] : row));
    free(logits);
    return DONE;
}

/* All logits of the rows whose tokens are -1. */
static int64_t compute_whole(const Room *room) {
    int64_t remaining = 0;
    for (int64_t row = 0; row < room->rows; row++)
        if (room->tokens[row] < 0) {
            copy_row(room->x, row, room->remaining, remaining, padded(room->width));
            room->whole[remaining++] = row, room->computed[row] = room->panels;
        }
    if (!remaining) return DONE;
    return choose_from_all(room->threads, room->projection, room->remaining, remaining, room->whole, room->tokens);
}

/* The likeliest output of each row, the first of equals; bytes [rows, C]: x in int8. Without a screen all logits are
   computed. computed: panels of outputs that were computed for all rows together. */
int64_t choose_likeliest(int64_t threads, const Product *projection, const Screen *screen, int64_t rows, Bytes bytes,
                         int64_t *tokens, int64_t *computed) {
    int64_t panels = (projection->outputs + panel_width() - 1) / panel_width();
    *computed = rows * panels;
    if (!screen) return choose_from_all(threads, projection, bytes, rows, NULL, tokens);
    Room room = {projection, screen, bytes, rows, projection->inputs, panels, threads, .tokens = tokens};
    if (!begin(&room)) return NO_MEMORY;
    prepare(&room);
    Bounds bounds = {screen->rest, room.slack, room.left, room.highest};
    bound_panels(threads, &screen->prefix, room.bytes, rows, &bounds);
    share(threads, search_row, &room, rows);
    int64_t status = compute_whole(&room);
    *computed = 0;
    for (int64_t row = 0; row < rows; row++) *computed += room.computed[row];
    free(room.memory);
    return status;
}
