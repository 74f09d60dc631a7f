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

enum { TOGETHER = 4 }; /* rows that are rotated at once */
static const float MARGIN = 4e-4f, RELATIVE = 1e-6f;

typedef struct {
    float *read, *turned;   /* [TOGETHER, C] x̂ of some rows; [rows, K] z */
    float *slack, *left;    /* [rows] see Bounds */
    float *highest;         /* [rows, panels] */
    Bytes bytes, remaining; /* p; the rows that are computed as a whole, in int8 */
    int64_t *whole;         /* which rows these are */
    void *memory;
} Room;

static void *take(char **free_memory, int64_t size) {
    void *taken = *free_memory;
    *free_memory += padded(size);
    return taken;
}

static int begin(Room *room, const Product *projection, const Screen *s, int64_t rows, int64_t stride) {
    int64_t kept = s->prefix.inputs, panels = projection->outputs / panel_width() + 1;
    int64_t floats = padded(TOGETHER * projection->inputs) + rows * (padded(kept) + panels + 6);
    int64_t elements = rows * (padded(kept) + stride) * (int64_t)sizeof(Element);
    room->memory = aligned_alloc(64, (size_t)padded(4 * floats + elements + 8 * rows + 64 * 16));
    if (!room->memory) return 0;
    char *next = room->memory;
    room->read = take(&next, 4 * TOGETHER * projection->inputs), room->turned = take(&next, 4 * rows * kept);
    room->slack = take(&next, 4 * rows), room->left = take(&next, 4 * rows);
    room->highest = take(&next, 4 * rows * panels), room->whole = take(&next, 8 * rows);
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

/* z = R·x for `rows` rows, a constant where this is inlined; rotation [C, K]; K a multiple of 32. */
static inline __attribute__((always_inline)) void turn(const int rows, const float *rotation, const float *x,
                                                       int64_t width, int64_t kept, float *z) {
    for (int64_t first = 0; first < kept; first += 2 * LANES) {
        Floats sums[TOGETHER][2];
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) sums[r][0] = sums[r][1] = every(0.0f);
        for (int64_t i = 0; i < width; i++) {
            const float *row = rotation + i * kept + first;
            Floats one = load_whole(row), two = load_whole(row + LANES);
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++) {
                Floats value = every(x[r * width + i]);
                sums[r][0] = multiply_add(value, one, sums[r][0]);
                sums[r][1] = multiply_add(value, two, sums[r][1]);
            }
        }
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            store_whole(z + r * kept + first, sums[r][0]);
            store_whole(z + r * kept + first + LANES, sums[r][1]);
        }
    }
}

/* p of each row, and what the bounds of its logits add. */
static void prepare(Room *room, const Screen *s, Bytes x, int64_t rows, int64_t width) {
    int64_t kept = s->prefix.inputs;
    for (int64_t row = 0; row < rows; row++) {
        float unit = x.largest[row] / 127.0f, *read = room->read + row % TOGETHER * width;
        for (int64_t i = 0; i < width; i++) read[i] = (float)x.bytes[row * x.stride + i] * unit;
        room->left[row] = squared_norm(read, width);
        if (row % TOGETHER == TOGETHER - 1)
            turn(TOGETHER, s->rotation, room->read, width, kept, room->turned + (row + 1 - TOGETHER) * kept);
        else if (row == rows - 1)
            for (int64_t single = row / TOGETHER * TOGETHER; single <= row; single++)
                turn(1, s->rotation, room->read + single % TOGETHER * width, width, kept, room->turned + single * kept);
    }
    quantize(room->turned, rows, kept, room->bytes);
    for (int64_t row = 0; row < rows; row++) {
        float *z = room->turned + row * kept, whole = room->left[row], inside = squared_norm(z, kept);
        float step = room->bytes.largest[row] / 127.0f;
        const Element *p = room->bytes.bytes + row * room->bytes.stride;
        for (int64_t i = 0; i < kept; i++) z[i] -= (float)p[i] * step; /* f */
        float moved = sqrtf(squared_norm(z, kept)), norm = sqrtf(inside) + moved; /* of p */
        room->left[row] = sqrtf(fmaxf(whole - inside, 0.0f) + MARGIN * whole);
        room->slack[row] = 127.0f * (norm * s->rounding + moved * s->size);
    }
}

/* The best output of a row among those whose bound reaches the best, starting with the highest bound. -1: the whole row
   has to be computed. */
static int64_t search(const Product *p, Bytes x, int64_t row, const float *highest, int64_t panels, int64_t most,
                      int64_t *computed) {
    float y[64] __attribute__((aligned(64))), best, value;
    int64_t place, found, first, width = panel_width(), count = 0;
    find_likeliest(highest, panels, &best, &first);
    if (!isfinite(x.largest[row]) || !isfinite(best)) return -1;
    multiply_row(p, x, row, first, y);
    find_likeliest(y, width, &best, &place);
    place += first * width;
    if (!isfinite(best)) return -1;
    float least = best - fabsf(best) * RELATIVE;
    for (int64_t panel = 0; panel < panels; panel++) count += highest[panel] >= least;
    if (count > most) return -1;
    for (int64_t panel = 0; panel < panels; panel++) {
        if (panel == first || highest[panel] < best - fabsf(best) * RELATIVE) continue;
        multiply_row(p, x, row, panel, y);
        find_likeliest(y, width, &value, &found);
        found += panel * width;
        if (value > best || (value == best && found < place)) best = value, place = found; /* of equals the first */
        ++*computed;
    }
    ++*computed;
    return place;
}

static void copy_row(Bytes from, int64_t row, Bytes to, int64_t at, int64_t width) {
    for (int64_t i = 0; i < width; i++) to.bytes[at * to.stride + i] = from.bytes[row * from.stride + i];
    to.largest[at] = from.largest[row], to.sums[at] = from.sums[row];
}

/* The likeliest output of each row, the first of equals; bytes [rows, C]: x in int8. */
int64_t choose_likeliest(const Product *projection, const Screen *screen, int64_t rows, Bytes bytes, int64_t *tokens,
                         int64_t *computed) {
    Room room;
    int64_t panels = (projection->outputs + panel_width() - 1) / panel_width(), remaining = 0, most = screen->most;
    if (!begin(&room, projection, screen, rows, bytes.stride)) return NO_MEMORY;
    prepare(&room, screen, bytes, rows, projection->inputs);
    Bounds bounds = {screen->rest, room.slack, room.left, room.highest};
    bound_panels(&screen->prefix, room.bytes, rows, &bounds);
    *computed = 0;
    for (int64_t row = 0; row < rows; row++) {
        tokens[row] = search(projection, bytes, row, room.highest + row * panels, panels, most, computed);
        if (tokens[row] < 0) room.whole[remaining] = row, copy_row(bytes, row, room.remaining, remaining++, padded(projection->inputs));
    }
    int64_t status = DONE;
    if (remaining) {
        float *logits = aligned_alloc(64, (size_t)padded(4 * remaining * projection->outputs)), value;
        if (logits) {
            multiply(projection, room.remaining, remaining, NULL, NO_ACTIVATION, logits);
            for (int64_t i = 0; i < remaining; i++)
                find_likeliest(logits + i * projection->outputs, projection->outputs, &value, tokens + room.whole[i]);
            *computed += remaining * panels;
        } else {
            status = NO_MEMORY;
        }
        free(logits);
    }
    free(room.memory);
    return status;
}
