/* Rows of the caches that take the places of others. */
#include "native.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    int64_t count;
    const int64_t *sources, *destinations, *first, *end; /* rows, and which positions of each; first null: from 0 on */
} Moves;

/* Whether a row is read and written: then all are read before any is written. */
static int entangled(const Moves *m) {
    for (int64_t i = 0; i < m->count; i++)
        for (int64_t j = 0; j < m->count; j++)
            if (m->sources[i] == m->destinations[j]) return 1;
    return 0;
}

static int64_t positions_of(const Moves *m, int64_t i) {
    int64_t count = m->end[i] - (m->first ? m->first[i] : 0);
    return count > 0 ? count : 0;
}

/* cache [layers, slots, length, position]: as many numbers. room: for what one layer moves, or null. */
static void move(Half *cache, int64_t layers, int64_t slots, int64_t length, int64_t position, const Moves *m,
                 Half *room) {
    for (int64_t layer = 0; layer < layers; layer++, cache += slots * length * position) {
        Half *held = room;
        for (int pass = room ? 0 : 1; pass < 2; pass++, held = room)
            for (int64_t i = 0; i < m->count; i++) {
                int64_t first = m->first ? m->first[i] : 0, size = positions_of(m, i) * position;
                const Half *from = cache + (m->sources[i] * length + first) * position;
                Half *onto = cache + (m->destinations[i] * length + first) * position;
                if (room) {
                    memcpy(pass ? onto : held, pass ? held : from, (size_t)size * sizeof(Half));
                    held += size;
                } else {
                    memcpy(onto, from, (size_t)size * sizeof(Half));
                }
            }
    }
}

/* Of rows `sources` to rows `destinations`: the positions since[i]..lengths[i]-1 of their own, or all and their sources
   too, of which source_lengths is not null then. */
int64_t copy(const Model *model, const Cache *cache, const float *positions, int64_t count, const int64_t *sources,
             const int64_t *destinations, const int64_t *since, const int64_t *lengths,
             const int64_t *source_lengths) {
    (void)positions; /* all calls begin alike */
    int64_t position = 2 * model->heads * model->head_width, most = 0, of_sources = 0;
    Moves own = {count, sources, destinations, since, lengths};
    Moves read = {count, sources, destinations, NULL, source_lengths};
    for (int64_t i = 0; i < count; i++) {
        if (sources[i] < 0 || sources[i] >= cache->slots || destinations[i] < 0 || destinations[i] >= cache->slots ||
            (since && since[i] < 0) || lengths[i] > cache->target_length ||
            (source_lengths && source_lengths[i] > cache->source_length))
            return OUT_OF_RANGE;
        most += positions_of(&own, i);
        if (source_lengths) of_sources += positions_of(&read, i);
    }
    Half *room = NULL;
    if (of_sources > most) most = of_sources;
    if (most && entangled(&own)) {
        room = malloc((size_t)(most * position) * sizeof(Half));
        if (!room) return NO_MEMORY;
    }
    move(cache->own, model->decoder_layers, cache->slots, cache->target_length, position, &own, room);
    if (source_lengths)
        move(cache->source, model->decoder_layers, cache->slots, cache->source_length, position, &read, room);
    free(room);
    return DONE;
}
