/* Beam search without a way back to Python between its steps: `models.decoding.beam.Beams.advance` over the same arrays,
   and the reordering of the caches. It stops before a step that needs more than that. */
#include "native.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct { /* hypothesis `row` of a beam, ended by the end token at `length` tokens */
    int64_t beam, row, length;
    double log_probability, score;
} Ended;

/* G beams of k hypotheses over arrays with room for more, laid out as in beam_search.py; longest: tokens of a
   hypothesis. tokens, parents [room, longest, k]; log_probabilities, ended_scores [room, k]; shared [room, k, k]; divisors
   [room, longest + 2]; all others [room]. `Beams` says what they hold. */
typedef struct {
    int64_t width, longest;
    int64_t *tokens, *parents;
    float *log_probabilities;
    int64_t *lengths, *limits, *shared;
    uint8_t *full, *done;
    double *worst, *ended_scores;
    int64_t *ended_counts;
    const double *divisors;
} Beams;

typedef struct { /* the token rules and limits of a call; its results: hypotheses that ended, and steps */
    int64_t eos;        /* -1: none */
    int64_t forced_end, renormalise;
    const int64_t *suppressed;
    int64_t suppressed_count;
    int64_t most_steps, nanoseconds; /* no step begins when so much time is over */
    Ended *ended;                    /* [most_steps · G · k] */
    int64_t ended_count, steps;
} Search;

typedef struct { /* memory of a call; candidates [G, 2k], best first */
    Scoring scoring;
    int64_t *read;                                            /* [G, k]: as scoring.continuing.rows */
    int64_t *ids, *slots, *places, *sources, *source_lengths; /* of the rows that a step reads, as of `read_tokens` */
    int64_t *origins, *old_shared;                            /* [k]; [k, k] */
    int64_t *from, *to, *since, *until;                       /* rows of the caches that move, [rows] each */
    void *memory;
} Room;

enum { LOGITS_WORTH_THREADS = 1 << 17 }; /* as in logit_kernels.py */

static int begin(Room *room, const Model *m, const Beams *b, int64_t beams, const Search *s) {
    int64_t k = b->width, hypotheses = beams * k, candidates = 2 * hypotheses, columns = m->projection.outputs;
    int64_t floats = hypotheses * columns + hypotheses + candidates + hypotheses * (2 * k + 1);
    int64_t integers = 2 * candidates + hypotheses * 2 * k + 10 * hypotheses + k + k * k;
    room->memory = aligned_alloc(64, (size_t)padded(4 * floats + 8 * integers + 20 * 64));
    if (!room->memory) return 0;
    char *next = room->memory;
    Continuing *c = &room->scoring.continuing;
    *c = (Continuing){.stride = columns, .columns = columns, .beams = beams, .width = k, .count = 2 * k, .kept = 2 * k};
    c->x = take(&next, 4 * hypotheses * columns), c->so_far = take(&next, 4 * hypotheses);
    c->values = take(&next, 4 * candidates), c->row_values = take(&next, 4 * hypotheses * (2 * k + 1));
    c->parents = take(&next, 8 * candidates), c->tokens = take(&next, 8 * candidates);
    c->row_places = take(&next, 8 * hypotheses * 2 * k);
    c->rows = room->read = take(&next, 8 * hypotheses);
    room->ids = take(&next, 8 * hypotheses), room->slots = take(&next, 8 * hypotheses);
    room->places = take(&next, 8 * hypotheses), room->sources = take(&next, 8 * hypotheses);
    room->source_lengths = take(&next, 8 * hypotheses);
    room->origins = take(&next, 8 * k), room->old_shared = take(&next, 8 * k * k);
    room->from = take(&next, 8 * hypotheses), room->to = take(&next, 8 * hypotheses);
    room->since = take(&next, 8 * hypotheses), room->until = take(&next, 8 * hypotheses);
    room->scoring.suppressed = s->suppressed, room->scoring.suppressed_count = s->suppressed_count;
    room->scoring.renormalise = s->renormalise, room->scoring.spread = hypotheses * columns >= LOGITS_WORTH_THREADS;
    room->scoring.log_probabilities = b->log_probabilities;
    return 1;
}

/* Lists the rows that the next step reads: of each hypothesis, but one of a beam that has no tokens yet, whose rows are
   equal. Returns how many. */
static int64_t list_rows(Room *room, const Beams *b, int64_t beams, const int64_t *rows, const int64_t *feed,
                         const int64_t *places, const int64_t *source_lengths) {
    int64_t k = b->width, count = 0;
    for (int64_t beam = 0; beam < beams; beam++)
        for (int64_t h = beam * k; h < (beam + 1) * k; h++) {
            int64_t row = rows[h];
            if (b->lengths[beam] || h == beam * k) {
                room->ids[count] = feed[row], room->slots[count] = row, room->places[count] = places[row];
                room->sources[count] = rows[beam * k]; /* a beam has one source */
                room->source_lengths[count++] = source_lengths[row];
            }
            room->read[h] = count - 1;
        }
    return count;
}

/* The position that a step has read into one row of each beam without tokens, for the beam's other rows. */
static int64_t spread_first(const Room *room, const Model *m, const Cache *cache, const float *positions,
                            const Beams *b, int64_t beams, const int64_t *rows, const int64_t *places) {
    int64_t k = b->width, count = 0;
    for (int64_t beam = 0; beam < beams; beam++)
        for (int64_t i = 1; i < k && !b->lengths[beam]; i++, count++) {
            room->from[count] = rows[beam * k], room->to[count] = rows[beam * k + i];
            room->since[count] = places[rows[beam * k]], room->until[count] = room->since[count] + 1;
        }
    return count ? copy(m, cache, positions, count, room->from, room->to, room->since, room->until, NULL) : DONE;
}

/* Whether `beams` beams of these rows are what the arrays can hold. */
static int fits(const Model *m, const Cache *cache, const Beams *b, int64_t beams, const int64_t *rows,
                const Search *s) {
    int64_t hypotheses = beams * b->width;
    if (hypotheses > cache->slots || 2 * b->width > m->projection.outputs) return 0;
    for (int64_t h = 0; h < hypotheses; h++)
        if (rows[h] < 0 || rows[h] >= hypotheses) return 0;
    for (int64_t beam = 0; beam < beams; beam++)
        if (b->lengths[beam] < 0 || b->lengths[beam] >= b->limits[beam] || b->limits[beam] > b->longest) return 0;
    for (int64_t i = 0; i < s->suppressed_count; i++)
        if (s->suppressed[i] < 0 || s->suppressed[i] >= m->projection.outputs) return 0;
    return 1;
}

/* The first of a beam's candidates that is no end token. */
static int64_t first_live(const Continuing *c, int64_t beam, int64_t eos) {
    int64_t at = beam * c->kept;
    while (c->tokens[at] == eos) at++;
    return at;
}

/* Whether a beam has to end as it is: by its limit, or because nothing can continue it. Python does that. */
static int cut(const Beams *b, int64_t beams, const Search *s) {
    for (int64_t beam = 0; s->forced_end && beam < beams; beam++)
        if (b->lengths[beam] + 1 >= b->limits[beam]) return 1;
    return 0;
}

static int dead(const Continuing *c, const Search *s) {
    for (int64_t beam = 0; beam < c->beams; beam++)
        if (c->values[first_live(c, beam, s->eos)] == -INFINITY) return 1;
    return 0;
}

/* Notes a hypothesis that has ended if it is one of the best k: `Beams._insert`. */
static void insert(const Beams *b, Search *s, Ended ended) {
    double *scores = b->ended_scores + ended.beam * b->width;
    int64_t count = b->ended_counts[ended.beam], at = count;
    while (at && scores[at - 1] < ended.score) at--;
    if (at == b->width) return;
    if (count < b->width) b->ended_counts[ended.beam] = ++count;
    for (int64_t i = count - 1; i > at; i--) scores[i] = scores[i - 1];
    scores[at] = ended.score;
    if (count == b->width) b->full[ended.beam] = 1, b->worst[ended.beam] = scores[count - 1];
    s->ended[s->ended_count++] = ended;
}

/* The candidates of a beam become its hypotheses or end: `Beams.advance`. */
static void advance(const Beams *b, const Room *room, int64_t beam, Search *s) {
    const Continuing *c = &room->scoring.continuing;
    int64_t k = b->width, before = b->lengths[beam], live = 0, first = beam * c->kept;
    const double *divisors = b->divisors + beam * (b->longest + 2);
    int64_t *tokens = b->tokens + (beam * b->longest + before) * k, *parents = b->parents + (beam * b->longest + before) * k;
    float *log_probabilities = b->log_probabilities + beam * k;
    for (int64_t at = first; live < k; at++) { /* at most k of the 2k can be end tokens */
        float value = c->values[at];
        if (c->tokens[at] != s->eos)
            tokens[live] = c->tokens[at], parents[live] = c->parents[at], log_probabilities[live++] = value;
        else if (at - first < k && value != -INFINITY)
            insert(b, s, (Ended){beam, c->parents[at], before, value, value / divisors[before + 1]});
    }
    b->lengths[beam] = before + 1;
    b->done[beam] = before + 1 >= b->limits[beam] ||
                    (b->full[beam] && log_probabilities[0] / divisors[before + 1] <= b->worst[beam]);
    memcpy(room->origins, parents, (size_t)k * sizeof(int64_t));
}

/* The rows of a beam whose parents are others, which have `prefix` tokens before their own, and how many tokens two
   hypotheses share: `Beams._update_shared` and `Beams.moved`. Returns the number of rows that move. */
static int64_t reorder(const Beams *b, Room *room, int64_t beam, const int64_t *rows, int64_t prefix,
                       const int64_t *places, int64_t moved) {
    int64_t k = b->width, *shared = b->shared + beam * k * k;
    memcpy(room->old_shared, shared, (size_t)(k * k) * sizeof(int64_t));
    for (int64_t i = 0; i < k; i++) {
        int64_t origin = room->origins[i];
        for (int64_t j = 0; j < k; j++)
            shared[i * k + j] = i == j ? b->lengths[beam] : room->old_shared[origin * k + room->origins[j]];
        if (origin == i || b->done[beam]) continue;
        room->from[moved] = rows[beam * k + origin], room->to[moved] = rows[beam * k + i];
        room->since[moved] = prefix + room->old_shared[origin * k + i];
        room->until[moved++] = places[rows[beam * k + origin]];
    }
    return moved;
}

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Advances `beams` beams, which are all rows 0..beams·k-1, until one of them is done, a step is not for here, or the
   bounds of the search are reached. feed [rows]: the next tokens; places, source_lengths [slots]: tokens that are in
   each row; tokens of its source. rows [beams, k]: of the hypotheses; prefixes [beams]: tokens before their own, the
   first of feed included. s->steps may be 0. */
int64_t advance_beams(const Model *m, const Cache *cache, const float *positions, int64_t beams, int64_t *feed,
                      int64_t *places, const int64_t *source_lengths, const int64_t *rows,
                      const int64_t *prefixes, const Beams *b, Search *s) {
    int64_t hypotheses = beams * b->width, end = now() + s->nanoseconds, status = DONE, ended = 0;
    s->steps = s->ended_count = 0;
    if (!fits(m, cache, b, beams, rows, s)) return OUT_OF_RANGE;
    Room room;
    if (!begin(&room, m, b, beams, s)) return NO_MEMORY;
    while (!ended && s->steps < s->most_steps && !cut(b, beams, s)) {
        int64_t read = list_rows(&room, b, beams, rows, feed, places, source_lengths);
        status = decode_continuations(m, cache, positions, read, room.ids, room.slots, room.places, room.sources,
                                      room.source_lengths, &room.scoring);
        if (status == DONE) status = spread_first(&room, m, cache, positions, b, beams, rows, places);
        if (status != DONE || dead(&room.scoring.continuing, s)) break;
        int64_t moved = 0;
        for (int64_t row = 0; row < hypotheses; row++) places[row]++;
        for (int64_t beam = 0; beam < beams; beam++) {
            advance(b, &room, beam, s);
            for (int64_t i = 0; i < b->width; i++)
                feed[rows[beam * b->width + i]] =
                    b->tokens[(beam * b->longest + b->lengths[beam] - 1) * b->width + i];
            moved = reorder(b, &room, beam, rows, prefixes[beam], places, moved);
            ended |= b->done[beam];
        }
        s->steps++;
        if (moved) status = copy(m, cache, positions, moved, room.from, room.to, room.since, room.until, NULL);
        if (status != DONE || now() >= end) break;
    }
    free(room.memory);
    return status;
}
