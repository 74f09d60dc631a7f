/* The Transformer over rows that each are one token of some sequence: nothing is padded and nothing masked. */
#include "native.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const Model *model;
    int64_t rows, longest; /* longest: how many positions a row attends to at most */
    float *x, *normed, *parts, *context, *wide;           /* [rows, C], [rows, C], [rows, 3·H·D], [rows, H·D], [rows, I] */
    float *scores;                                        /* [threads, H, longest] */
    Readable *readable;                                   /* [rows] */
    Half *read;                                           /* [rows, 2·H·D] keys and values that no cache keeps */
    int64_t stride;                                       /* of what `attend_rows` reads in parts */
    Bytes bytes;
    void *memory;
    int64_t threads;
} Work;

enum { ROWS_OF_A_PART = 4 }; /* in tasks between the products */
enum { ENCODED_ROWS = 512 };

/* 0 if there is no memory; otherwise `end` frees it. encodes: whether rows attend to one another without a cache. */
static int begin(Work *work, const Model *m, int64_t rows, int64_t longest, int64_t most_threads, int encodes) {
    int64_t attended = m->heads * m->head_width, widest = m->inner > m->width ? m->inner : m->width;
    if (attended > widest) widest = attended;
    int64_t threads = most_threads > 1 ? MOST_THREADS : 1; /* helpers of an earlier call may take part */
    int64_t floats = rows * (2 * m->width + 4 * attended + m->inner + 1) + threads * m->heads * longest;
    int64_t bytes = rows * padded(widest) * (int64_t)sizeof(Element);
    int64_t halves = encodes ? rows * 2 * attended * (int64_t)sizeof(Half) : 0;
    int64_t size = padded(floats * 4) + bytes + halves + rows * (4 + (int64_t)sizeof(Readable)) + 16 * 64;
    work->memory = aligned_alloc(64, (size_t)padded(size));
    if (!work->memory) return 0;
    char *next = work->memory;
    work->model = m, work->rows = rows, work->longest = longest;
    work->x = take(&next, rows * m->width * 4), work->normed = take(&next, rows * m->width * 4);
    work->parts = take(&next, rows * 3 * attended * 4), work->context = take(&next, rows * attended * 4);
    work->wide = take(&next, rows * m->inner * 4), work->scores = take(&next, threads * m->heads * longest * 4);
    work->bytes.stride = padded(widest), work->bytes.bytes = take(&next, bytes);
    work->readable = take(&next, rows * (int64_t)sizeof(Readable)), work->read = take(&next, halves);
    work->bytes.largest = take(&next, rows * 4), work->bytes.sums = take(&next, rows * 4);
    work->threads = begin_team(most_threads);
    return 1;
}

static void end(Work *work) {
    end_team(work->threads);
    free(work->memory);
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

/* Rows of x, `width` wide: their norm, if there is one, goes to normed; then they go into int8, if that is asked. */
typedef struct {
    const Work *work;
    const Norm *norm;
    const float *x;
    float *normed;
    int64_t width, rounds;
} Readied;

static void ready_part(const void *job, int64_t part, int64_t thread) {
    (void)thread;
    const Readied *r = job;
    int64_t first = part * ROWS_OF_A_PART, left = r->work->rows - first, rows = left < ROWS_OF_A_PART ? left : ROWS_OF_A_PART;
    const float *x = r->x + first * r->width;
    Bytes to = r->work->bytes;
    Bytes into = {to.bytes + first * to.stride, to.largest + first, to.sums + first, to.stride};
    if (r->norm) normalize(r->norm, x, rows, r->width, r->normed + first * r->width), x = r->normed + first * r->width;
    if (r->rounds) quantize(x, rows, r->width, into);
}

static void ready(Work *work, const Norm *norm, const float *x, int64_t width, float *normed, int rounds) {
    Readied job = {work, norm, x, normed, width, rounds};
    share(work->threads, ready_part, &job, (work->rows + ROWS_OF_A_PART - 1) / ROWS_OF_A_PART);
}

/* What the sublayer reads, times its first matrix. */
static void enter(Work *work, const Norm *norm, const Product *p, int activation, float *y) {
    ready(work, norm->before ? norm : NULL, work->x, work->model->width, work->normed, 1);
    multiply(work->threads, p, work->bytes, work->rows, NULL, activation, y);
}

/* x + y·Wᵀ, and the norm if it stands here. */
static void leave(Work *work, const Norm *norm, const Product *p, const float *y) {
    ready(work, NULL, y, p->inputs, NULL, 1);
    multiply(work->threads, p, work->bytes, work->rows, work->x, NO_ACTIVATION, work->x);
    if (!norm->before) ready(work, norm, work->x, work->model->width, work->x, 0);
}

static void feed_forward(Work *work, const FeedForward *layer) {
    enter(work, &layer->around, &layer->widen, (int)layer->activation, work->wide);
    leave(work, &layer->around, &layer->narrow, work->wide);
}

static void attend_part(const void *job, int64_t part, int64_t thread) {
    const Work *work = job;
    const Model *m = work->model;
    int64_t attended = m->heads * m->head_width, last = (part + 1) * ROWS_OF_A_PART;
    for (int64_t row = part * ROWS_OF_A_PART; row < last && row < work->rows; row++)
        attend(m, work->parts + row * work->stride, work->readable[row],
               work->readable[row + 1 < work->rows ? row + 1 : row],
               work->scores + thread * m->heads * work->longest, work->context + row * attended);
}

/* Attention of each row of work->parts, which begin with a query and are `stride` apart, to work->readable. */
static void attend_rows(Work *work, int64_t stride) {
    work->stride = stride;
    share(work->threads, attend_part, work, (work->rows + ROWS_OF_A_PART - 1) / ROWS_OF_A_PART);
}

/* The keys and values of rows that stand in work->parts behind their queries. */
static void halve_part(const void *job, int64_t part, int64_t thread) {
    (void)thread;
    const Work *work = job;
    int64_t attended = work->model->heads * work->model->head_width, last = (part + 1) * ROWS_OF_A_PART;
    for (int64_t row = part * ROWS_OF_A_PART; row < last && row < work->rows; row++)
        halve(work->parts + row * 3 * attended + attended, 2 * attended, work->read + row * 2 * attended);
}

static int64_t encode_together(const Model *m, const Cache *cache, const float *positions, int64_t count,
                               const int64_t *lengths, const int64_t *slots, const int64_t *ids,
                               const int64_t *places) {
    int64_t attended = m->heads * m->head_width, rows = 0, longest = 0;
    for (int64_t s = 0; s < count; s++) rows += lengths[s], longest = lengths[s] > longest ? lengths[s] : longest;
    if (longest > cache->source_length || !within(slots, count, cache->slots) ||
        !within(ids, rows, m->source_vocabulary))
        return OUT_OF_RANGE;
    Work work;
    if (!begin(&work, m, rows, longest, cache->threads, 1)) return NO_MEMORY;
    embed(&work, m->source_embedding, positions, ids, places);
    for (int64_t s = 0, row = 0; s < count; s++) {
        const Half *first = work.read + row * 2 * attended;
        for (int64_t last = row + lengths[s]; row < last; row++)
            work.readable[row] = (Readable){first, first + attended, 2 * attended, lengths[s]};
    }
    for (const Encoding *layer = m->encoding; layer < m->encoding + m->encoder_layers; layer++) {
        enter(&work, &layer->attention.around, &layer->attention.projection, NO_ACTIVATION, work.parts);
        share(work.threads, halve_part, &work, (rows + ROWS_OF_A_PART - 1) / ROWS_OF_A_PART);
        attend_rows(&work, 3 * attended);
        leave(&work, &layer->attention.around, &layer->attention.output, work.context);
        feed_forward(&work, &layer->feed_forward);
    }
    ready(&work, m->encoder_norm.weight ? &m->encoder_norm : NULL, work.x, m->width, work.x, 1);
    for (int64_t number = 0; number < m->decoder_layers; number++) {
        multiply(work.threads, &m->decoding[number].cross.key_value, work.bytes, rows, NULL, NO_ACTIVATION, work.parts);
        const float *from = work.parts;
        for (int64_t s = 0; s < count; from += lengths[s] * 2 * attended, s++) {
            int64_t first = (number * cache->slots + slots[s]) * cache->source_length;
            halve(from, lengths[s] * 2 * attended, cache->source + first * 2 * attended);
        }
    }
    end(&work);
    return DONE;
}

/* Tokens of `count` sources, one below the other; places: where in its source each stands. Their representation goes,
   as keys and values of each decoder layer, to the sources' slots. So many sources are read together that what stands
   between the products stays in the cache; nothing depends on which. */
int64_t encode(const Model *m, const Cache *cache, const float *positions, int64_t count, const int64_t *lengths,
               const int64_t *slots, const int64_t *ids, const int64_t *places) {
    for (int64_t first = 0, last; first < count; first = last) {
        int64_t rows = lengths[first];
        for (last = first + 1; last < count && rows + lengths[last] <= ENCODED_ROWS; last++) rows += lengths[last];
        int64_t status =
            encode_together(m, cache, positions, last - first, lengths + first, slots + first, ids, places);
        if (status != DONE) return status;
        ids += rows, places += rows;
    }
    return DONE;
}

/* Attention to what stands before each row in its slot, itself included, once its own keys and values are written. */
static void self_attention(Work *work, const SelfAttention *layer, Half *cache, int64_t length, const int64_t *slots,
                           const int64_t *places) {
    const Model *m = work->model;
    int64_t attended = m->heads * m->head_width, position = 2 * attended;
    enter(work, &layer->around, &layer->projection, NO_ACTIVATION, work->parts);
    for (int64_t row = 0; row < work->rows; row++)
        halve(work->parts + row * 3 * attended + attended, position,
              cache + (slots[row] * length + places[row]) * position);
    for (int64_t row = 0; row < work->rows; row++) {
        const Half *first = cache + slots[row] * length * position;
        work->readable[row] = (Readable){first, first + attended, position, places[row] + 1};
    }
    attend_rows(work, 3 * attended);
    leave(work, &layer->around, &layer->output, work->context);
}

static void cross_attention(Work *work, const CrossAttention *layer, const Half *cache, int64_t length,
                            const int64_t *sources, const int64_t *source_lengths) {
    const Model *m = work->model;
    int64_t attended = m->heads * m->head_width, position = 2 * attended;
    enter(work, &layer->around, &layer->query, NO_ACTIVATION, work->parts);
    for (int64_t row = 0; row < work->rows; row++) {
        const Half *first = cache + sources[row] * length * position;
        work->readable[row] = (Readable){first, first + attended, position, source_lengths[row]};
    }
    attend_rows(work, attended);
    leave(work, &layer->around, &layer->output, work->context);
}

/* Tokens of any slots; places: where in its slot each stands; sources: the slot whose source it reads. Several tokens of
   one slot may come at once, if all that stands before them is there or comes too. work->x, and in int8 work->bytes, is what the output
   matrix reads, if the status is DONE: then the caller calls `end`. */
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
    if (!begin(work, m, rows, longest, cache->threads, 0)) return NO_MEMORY;
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
    ready(work, m->decoder_norm.weight ? &m->decoder_norm : NULL, work->x, m->width, work->x, 1);
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
    if (logits) multiply(work.threads, &m->projection, work.bytes, rows, NULL, NO_ACTIVATION, logits);
    end(&work);
    return DONE;
}

/* The likeliest token of each row, tokens [rows]. projection: the model's, with a bias of -inf for suppressed tokens;
   screen, or null, and computed: as of `choose_likeliest`. */
int64_t decode_likeliest(const Model *m, const Cache *cache, const float *positions, int64_t rows, const int64_t *ids,
                         const int64_t *slots, const int64_t *places, const int64_t *sources,
                         const int64_t *source_lengths, const Product *projection, const Screen *screen,
                         int64_t *tokens, int64_t *computed) {
    Work work;
    int64_t status = read_tokens(&work, m, cache, positions, rows, ids, slots, places, sources, source_lengths);
    if (status != DONE) return status;
    status = choose_likeliest(work.threads, projection, screen, rows, work.bytes, tokens, computed);
    end(&work);
    return status;
}

/* The log of the sum of the exponentials of all logits of a row, and -log of what is left without `suppressed`: what the
   log-probabilities over the others are too large by, in float64 as `models.decoding.logits_processors` has it. */
static double suppressed_logsumexp(const float *row, int64_t columns, const Scoring *s) {
    const double most = 1 - 0x1p-24;
    float largest, whole;
    int64_t place;
    double mass = 0;
    likeliest(row, 1, columns, columns, 1, &largest, &place);
    log_totals(row, 1, columns, columns, &largest, &whole);
    for (int64_t i = 0; i < s->suppressed_count; i++) mass += exp((double)(row[s->suppressed[i]] - whole));
    return -log1p(-(mass > most ? most : mass));
}

/* A step of beams: tokens as of `read_tokens`, whose likeliest continuations go to scoring->continuing. Hypotheses that
   have the logits of one row stand together. */
int64_t decode_continuations(const Model *m, const Cache *cache, const float *positions, int64_t rows,
                             const int64_t *ids, const int64_t *slots, const int64_t *places, const int64_t *sources,
                             const int64_t *source_lengths, const Scoring *scoring) {
    const Continuing *c = &scoring->continuing;
    Work work;
    int64_t status = read_tokens(&work, m, cache, positions, rows, ids, slots, places, sources, source_lengths);
    if (status != DONE) return status;
    float *logits = (float *)c->x, *so_far = (float *)c->so_far;
    multiply(work.threads, &m->projection, work.bytes, rows, NULL, NO_ACTIVATION, logits);
    double share_of_others = 0;
    for (int64_t h = 0; h < c->beams * c->width; h++) {
        float *row = logits + c->rows[h] * c->columns;
        if (!shares_logits(c->rows, h)) {
            if (scoring->suppressed_count && !scoring->renormalise)
                share_of_others = suppressed_logsumexp(row, c->columns, scoring);
            for (int64_t i = 0; i < scoring->suppressed_count; i++) row[scoring->suppressed[i]] = -INFINITY;
        }
        so_far[h] = (float)((double)scoring->log_probabilities[h] - share_of_others);
    }
    find_continuations(scoring->spread ? work.threads : 1, c);
    end(&work);
    return DONE;
}
