/* The recurrent language model, a token a row; models/cells.py has the formulae and the order of the gates. */
#include "recurrent.h"

#include "gates.h"

#include <stdlib.h>

enum { RNN, GRU, LSTM };
static const int64_t GATES[] = {1, 3, 4};

/* One row of a layer: x and r [G, padded] are what its input and its hidden state come to; h and c are written over. */
static void rnn(const Recurrent *m, const float *x, const float *r, float *h) {
    for (int64_t i = 0; i < m->hidden; i += LANES)
        store_some(h + i, hyperbolic_tangent(load(x + i) + load(r + i)), m->hidden - i);
}

static void gru(const Recurrent *m, const float *x, const float *r, float *h) {
    int64_t width = m->padded;
    for (int64_t i = 0; i < m->hidden; i += LANES) {
        Floats reset = logistic(load(x + i) + load(r + i));
        Floats keep = logistic(load(x + width + i) + load(r + width + i));
        Floats n = hyperbolic_tangent(load(x + 2 * width + i) + reset * load(r + 2 * width + i));
        Floats before = load_some(h + i, m->hidden - i, all(0.0f));
        store_some(h + i, n + keep * (before - n), m->hidden - i);
    }
}

static void lstm(const Recurrent *m, const float *x, const float *r, float *h, float *c) {
    int64_t width = m->padded;
    for (int64_t i = 0; i < m->hidden; i += LANES) {
        Floats input = logistic(load(x + i) + load(r + i));
        Floats forget = logistic(load(x + width + i) + load(r + width + i));
        Floats g = hyperbolic_tangent(load(x + 2 * width + i) + load(r + 2 * width + i));
        Floats output = logistic(load(x + 3 * width + i) + load(r + 3 * width + i));
        Floats memory = forget * load_some(c + i, m->hidden - i, all(0.0f)) + input * g;
        store_some(c + i, memory, m->hidden - i);
        store_some(h + i, output * hyperbolic_tangent(memory), m->hidden - i);
    }
}

static void cell(const Recurrent *m, const float *x, const float *r, float *h, float *c) {
    if (m->cell == RNN) rnn(m, x, r, h);
    else if (m->cell == GRU) gru(m, x, r, h);
    else lstm(m, x, r, h, c);
}

typedef struct {
    float *inputs, *recurrent; /* [rows, G * padded] */
    const float **below, **own; /* [rows], hidden states */
    int64_t *tokens, *slots;
    void *memory;
} Work;

static int begin(Work *work, const Recurrent *m, int64_t rows) {
    int64_t size = rows * GATES[m->cell] * m->padded * (int64_t)sizeof(float);
    char *memory = work->memory = aligned_alloc(64, (size_t)whole(2 * size + 4 * rows * 8, 64));
    if (!memory) return 0;
    work->inputs = (float *)memory, work->recurrent = (float *)(memory + size);
    work->below = (const float **)(memory + 2 * size), work->own = work->below + rows;
    work->tokens = (int64_t *)(work->own + rows), work->slots = work->tokens + rows;
    return 1;
}

/* A token for each of so many slots; work->below becomes the last layer's hidden states. */
static void advance(const Recurrent *m, const State *s, Work *work, int64_t rows, const int64_t *slots,
                    const int64_t *tokens) {
    int64_t width = GATES[m->cell] * m->padded;
    for (int64_t number = 0; number < m->layers; number++) {
        const Layer *layer = m->layer + number;
        for (int64_t row = 0; row < rows; row++)
            work->own[row] = s->hidden + (number * s->slots + slots[row]) * m->hidden;
        if (number) multiply(&layer->input, work->below, rows, work->inputs, width);
        multiply(&layer->recurrent, work->own, rows, work->recurrent, width);
        for (int64_t row = 0; row < rows; row++) {
            const float *x = number ? work->inputs + row * width : m->table + tokens[row] * width;
            int64_t first = (number * s->slots + slots[row]) * m->hidden;
            cell(m, x, work->recurrent + row * width, s->hidden + first, s->memory + first);
            work->below[row] = work->own[row];
        }
    }
}

static int within(const int64_t *places, int64_t count, int64_t limit) {
    for (int64_t i = 0; i < count; i++)
        if (places[i] < 0 || places[i] >= limit) return 0;
    return 1;
}

/* A token [rows] for slots 0..rows-1; logits [rows, O]. */
int64_t step(const Recurrent *m, const State *s, int64_t rows, const int64_t *tokens, float *logits) {
    if (rows > s->slots || !within(tokens, rows, m->vocabulary)) return OUT_OF_RANGE;
    Work work;
    if (!begin(&work, m, rows)) return NO_MEMORY;
    for (int64_t row = 0; row < rows; row++) work.slots[row] = row;
    advance(m, s, &work, rows, work.slots, tokens);
    multiply(&m->output, work.below, rows, logits, m->output.outputs);
    free(work.memory);
    return DONE;
}

/* Texts of so many tokens, one behind the other, into their slots, whatever these held. */
int64_t read_texts(const Recurrent *m, const State *s, int64_t count, const int64_t *slots, const int64_t *lengths,
                   const int64_t *tokens) {
    int64_t total = 0, longest = 0;
    if (!within(lengths, count, INT64_MAX)) return OUT_OF_RANGE;
    for (int64_t i = 0; i < count; i++) total += lengths[i], longest = lengths[i] > longest ? lengths[i] : longest;
    if (!within(slots, count, s->slots) || !within(tokens, total, m->vocabulary)) return OUT_OF_RANGE;
    Work work;
    if (!begin(&work, m, count)) return NO_MEMORY;
    for (int64_t i = 0; i < count * m->layers; i++) {
        int64_t first = (i / count * s->slots + slots[i % count]) * m->hidden;
        memset(s->hidden + first, 0, (size_t)m->hidden * sizeof(float));
        memset(s->memory + first, 0, (size_t)m->hidden * sizeof(float));
    }
    for (int64_t place = 0; place < longest; place++) {
        int64_t rows = 0;
        for (int64_t i = 0, first = 0; i < count; first += lengths[i++])
            if (place < lengths[i]) work.slots[rows] = slots[i], work.tokens[rows++] = tokens[first + place];
        advance(m, s, &work, rows, work.slots, work.tokens);
    }
    free(work.memory);
    return DONE;
}
