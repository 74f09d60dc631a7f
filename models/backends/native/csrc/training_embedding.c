/* Embeddings: table[id]·scale + position, dropped out; and the table's gradient. */
#include "training.h"

/* ids, places [N]; y, dy [N, C]; dtable [rows, C]. */
typedef struct {
    int64_t threads, tokens, width, rows;
    const int64_t *ids, *places;
    const float *table, *positions;
    float scale;
    Dropout dropout;
    float *y;
    const float *dy;
    float *dtable;
} Embedding;

enum { ROWS = 64 };

static void forward_block(const void *job, int64_t block, float *scratch) {
    (void)scratch;
    const Embedding *e = job;
    int64_t last = smaller(e->tokens, (block + 1) * ROWS), width = e->width;
    for (int64_t r = block * ROWS; r < last; r++) {
        const float *from = e->table + e->ids[r] * width, *place = e->positions + e->places[r] * width;
        uint32_t key = key_of_row(&e->dropout, r);
        for (int64_t c = 0; c < width; c += LANES) {
            int64_t left = width - c;
            Floats x = load_some(from + c, left, all(0.0f)) * all(e->scale) + load_some(place + c, left, all(0.0f));
            if (e->dropout.rate > 0) x *= kept(&e->dropout, key, c);
            store_some(e->y + r * width + c, x, left);
        }
    }
}

/* Of some columns, token by token: a word that comes twice is summed in the order in which it came. */
static void backward_columns(const void *job, int64_t panel, float *scratch) {
    (void)scratch;
    const Embedding *e = job;
    int64_t width = e->width, begin = panel * PANEL, end = smaller(width, begin + PANEL);
    for (int64_t r = 0; r < e->rows; r++) memset(e->dtable + r * width + begin, 0, (size_t)(end - begin) * sizeof(float));
    for (int64_t r = 0; r < e->tokens; r++) {
        float *to = e->dtable + e->ids[r] * width;
        uint32_t key = key_of_row(&e->dropout, r);
        for (int64_t c = begin; c < end; c += LANES) {
            int64_t left = end - c;
            Floats d = load_some(e->dy + r * width + c, left, all(0.0f)) * all(e->scale);
            if (e->dropout.rate > 0) d *= kept(&e->dropout, key, c);
            store_some(to + c, load_some(to + c, left, all(0.0f)) + d, left);
        }
    }
}

int64_t embedding(const Embedding *e) {
    for (int64_t r = 0; r < e->tokens; r++)
        if (e->ids[r] < 0 || e->ids[r] >= e->rows) return OUT_OF_RANGE;
    Phase phase = {forward_block, (e->tokens + ROWS - 1) / ROWS};
    return run_phases(e->threads, &phase, 1, e, 0);
}

int64_t embedding_back(const Embedding *e) {
    Phase phase = {backward_columns, whole(e->width, PANEL) / PANEL};
    return run_phases(e->threads, &phase, 1, e, 0);
}
