/* The Transformer over rows that each are one token of some sequence: nothing is padded and nothing masked. */
#include "native.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    const Model *model;
    int64_t rows;
    float *x, *normed, *parts, *context, *wide, *scores; /* [rows, C], [rows, C], [rows, 3·H·D], [rows, H·D], [rows, I] */
    Bytes bytes;
    void *memory;
} Work;

static void *take(char **free_memory, int64_t size) {
    void *taken = *free_memory;
    *free_memory += padded(size);
    return taken;
}

/* longest: how many positions a row attends to at most. 0 if there is no memory. */
static int begin(Work *work, const Model *m, int64_t rows, int64_t longest) {
    int64_t attended = m->heads * m->head_width, widest = m->inner > m->width ? m->inner : m->width;
    if (attended > widest) widest = attended;
    int64_t floats = rows * (2 * m->width + 4 * attended + m->inner + 1) + m->heads * longest;
    int64_t bytes = rows * padded(widest) * (int64_t)sizeof(Element);
    work->memory = aligned_alloc(64, (size_t)padded(padded(floats * 4) + bytes + rows * 4 + 16 * 64));
    if (!work->memory) return 0;
    char *next = work->memory;
    work->model = m, work->rows = rows;
    work->x = take(&next, rows * m->width * 4), work->normed = take(&next, rows * m->width * 4);
    work->parts = take(&next, rows * 3 * attended * 4), work->context = take(&next, rows * attended * 4);
    work->wide = take(&next, rows * m->inner * 4), work->scores = take(&next, m->heads * longest * 4);
    work->bytes.stride = padded(widest), work->bytes.bytes = take(&next, bytes);
    work->bytes.largest = take(&next, rows * 4), work->bytes.sums = take(&next, rows * 4);
    return 1;
}

static void embed(Work *work, const float *table, const float *positions, const int64_t *ids, const int64_t *places) {
    int64_t width = work->model->width;
    for (int64_t row = 0; row < work->rows; row++) {
        const float *token = table + ids[row] * width, *position = positions + places[row] * width;
        for (int64_t i = 0; i < width; i++)
            work->x[row * width + i] = token[i] * work->model->embedding_scale + position[i];
    }
}

/* Whether all of these can stand for places among so many: what comes from elsewhere is looked at before it is used. */
static int within(const int64_t *places, int64_t count, int64_t limit) {
    for (int64_t i = 0; i < count; i++)
        if (places[i] < 0 || places[i] >= limit) return 0;
    return 1;
}

static void times(Work *work, const Product *p, const float *x, const float *residual, int activation, float *y) {
    quantize(x, work->rows, p->inputs, work->bytes);
    multiply(p, work->bytes, work->rows, residual, activation, y);
}

/* What a sublayer reads. */
static const float *enter(Work *work, const Norm *norm) {
    if (!norm->before) return work->x;
    normalize(norm, work->x, work->rows, work->model->width, work->normed);
    return work->normed;
}

/* x + y·Wᵀ, and the norm if it stands here. */
static void leave(Work *work, const Norm *norm, const Product *p, const float *y) {
    times(work, p, y, work->x, NO_ACTIVATION, work->x);
    if (!norm->before) normalize(norm, work->x, work->rows, work->model->width, work->x);
}

static void feed_forward(Work *work, const FeedForward *layer) {
    times(work, &layer->widen, enter(work, &layer->around), NULL, (int)layer->activation, work->wide);
    leave(work, &layer->around, &layer->narrow, work->wide);
}

/* Tokens of `count` sources, one below the other; places: where in its source each stands. Their representation goes,
   as keys and values of each decoder layer, to the sources' slots. */
int64_t encode(const Model *m, const Cache *cache, const float *positions, int64_t count, const int64_t *lengths,
               const int64_t *slots, const int64_t *ids, const int64_t *places) {
    int64_t attended = m->heads * m->head_width, rows = 0, longest = 0;
    for (int64_t s = 0; s < count; s++) rows += lengths[s], longest = lengths[s] > longest ? lengths[s] : longest;
    if (longest > cache->source_length || !within(slots, count, cache->slots) ||
        !within(ids, rows, m->source_vocabulary))
        return OUT_OF_RANGE;
    Work work;
    if (!begin(&work, m, rows, longest)) return NO_MEMORY;
    embed(&work, m->source_embedding, positions, ids, places);
    for (const Encoding *layer = m->encoding; layer < m->encoding + m->encoder_layers; layer++) {
        times(&work, &layer->attention.projection, enter(&work, &layer->attention.around), NULL, NO_ACTIVATION,
              work.parts);
        for (int64_t s = 0, row = 0; s < count; s++) {
            const float *first = work.parts + row * 3 * attended;
            Readable source = {first + attended, first + 2 * attended, 3 * attended, lengths[s]};
            for (int64_t end = row + lengths[s]; row < end; row++)
                attend(m, work.parts + row * 3 * attended, source, work.scores, work.context + row * attended);
        }
        leave(&work, &layer->attention.around, &layer->attention.output, work.context);
        feed_forward(&work, &layer->feed_forward);
    }
    if (m->encoder_norm.weight) normalize(&m->encoder_norm, work.x, rows, m->width, work.x);
    quantize(work.x, rows, m->width, work.bytes);
    for (int64_t number = 0; number < m->decoder_layers; number++) {
        multiply(&m->decoding[number].cross.key_value, work.bytes, rows, NULL, NO_ACTIVATION, work.parts);
        const float *from = work.parts;
        for (int64_t s = 0; s < count; from += lengths[s] * 2 * attended, s++) {
            int64_t first = (number * cache->slots + slots[s]) * cache->source_length;
            memcpy(cache->source + first * 2 * attended, from, (size_t)(lengths[s] * 2 * attended) * sizeof(float));
        }
    }
    free(work.memory);
    return DONE;
}

/* Attention to what stands before each row in its slot, itself included, once its own keys and values are written. */
static void self_attention(Work *work, const SelfAttention *layer, float *cache, int64_t length, const int64_t *slots,
                           const int64_t *places) {
    const Model *m = work->model;
    int64_t attended = m->heads * m->head_width, position = 2 * attended;
    times(work, &layer->projection, enter(work, &layer->around), NULL, NO_ACTIVATION, work->parts);
    for (int64_t row = 0; row < work->rows; row++)
        memcpy(cache + (slots[row] * length + places[row]) * position, work->parts + row * 3 * attended + attended,
               (size_t)position * sizeof(float));
    for (int64_t row = 0; row < work->rows; row++) {
        const float *first = cache + slots[row] * length * position;
        Readable written = {first, first + attended, position, places[row] + 1};
        attend(m, work->parts + row * 3 * attended, written, work->scores, work->context + row * attended);
    }
    leave(work, &layer->around, &layer->output, work->context);
}

static void cross_attention(Work *work, const CrossAttention *layer, const float *cache, int64_t length,
                            const int64_t *sources, const int64_t *source_lengths) {
    const Model *m = work->model;
    int64_t attended = m->heads * m->head_width, position = 2 * attended;
    times(work, &layer->query, enter(work, &layer->around), NULL, NO_ACTIVATION, work->parts);
    for (int64_t row = 0; row < work->rows; row++) {
        const float *first = cache + sources[row] * length * position;
        Readable source = {first, first + attended, position, source_lengths[row]};
        attend(m, work->parts + row * attended, source, work->scores, work->context + row * attended);
    }
    leave(work, &layer->around, &layer->output, work->context);
}

/* Tokens of any slots; places: where in its slot each stands; sources: the slot whose source it reads. Several tokens of
   one slot may come at once, if all that stands before them is there or comes too. work->x is what the output matrix
   reads, if the status is DONE: then the caller frees work->memory. */
static int64_t read_tokens(Work *work, const Model *m, const Cache *cache, const float *positions, int64_t rows,
                           const int64_t *ids, const int64_t *slots, const int64_t *places, const int64_t *sources,
                           const int64_t *source_lengths) {
    int64_t position = 2 * m->heads * m->head_width, longest = 0;
    for (int64_t row = 0; row < rows; row++) {
        if (places[row] + 1 > longest) longest = places[row] + 1;
        if (source_lengths[row] > longest) longest = source_lengths[row];
    }
    if (!within(places, rows, cache->target_length) || !within(slots, rows, cache->slots) ||
        !within(sources, rows, cache->slots) || !within(source_lengths, rows, cache->source_length + 1) ||
        !within(ids, rows, m->target_vocabulary))
        return OUT_OF_RANGE;
    if (!begin(work, m, rows, longest)) return NO_MEMORY;
    embed(work, m->target_embedding, positions, ids, places);
    for (int64_t number = 0; number < m->decoder_layers; number++) {
        const Decoding *layer = m->decoding + number;
        int64_t first = number * cache->slots;
        self_attention(work, &layer->attention, cache->own + first * cache->target_length * position,
                       cache->target_length, slots, places);
        cross_attention(work, &layer->cross, cache->source + first * cache->source_length * position,
                        cache->source_length, sources, source_lengths);
        feed_forward(work, &layer->feed_forward);
    }
    if (m->decoder_norm.weight) normalize(&m->decoder_norm, work->x, rows, m->width, work->x);
    return DONE;
}

/* logits [rows, V] or null; features [rows, C], which the output matrix reads, or null. */
int64_t decode(const Model *m, const Cache *cache, const float *positions, int64_t rows, const int64_t *ids,
               const int64_t *slots, const int64_t *places, const int64_t *sources, const int64_t *source_lengths,
               float *logits, float *features) {
    Work work;
    int64_t status = read_tokens(&work, m, cache, positions, rows, ids, slots, places, sources, source_lengths);
    if (status != DONE) return status;
    if (features) memcpy(features, work.x, (size_t)(rows * m->width) * sizeof(float));
    if (logits) times(&work, &m->projection, work.x, NULL, NO_ACTIVATION, logits);
    free(work.memory);
    return DONE;
}

/* The likeliest token of each row, tokens [rows]. projection: the model's, with a bias of -inf for suppressed tokens;
   computed: panels of outputs that were computed for all rows together. */
int64_t decode_likeliest(const Model *m, const Cache *cache, const float *positions, int64_t rows, const int64_t *ids,
                         const int64_t *slots, const int64_t *places, const int64_t *sources,
                         const int64_t *source_lengths, const Product *projection, const Screen *screen,
                         int64_t *tokens, int64_t *computed) {
    Work work;
    int64_t status = read_tokens(&work, m, cache, positions, rows, ids, slots, places, sources, source_lengths);
    if (status != DONE) return status;
    quantize(work.x, rows, m->width, work.bytes);
    status = choose_likeliest(projection, screen, rows, work.bytes, tokens, computed);
    free(work.memory);
    return status;
}
