/* The attention sublayers with all that stands around them. A block is of whole sentences, and its rows go through the
   sublayer together: what they attend to is theirs alone. */
#include "training_residual.h"
#include "training_heads.h"

/* projected [N, 3·I]; of cross-attention [N, I], the queries, and `remembered` [M, 2·I]: keys and values of `memory`
   [M, C]. context [N, I]. logsum [N, H]. Those with a d are gradients. */
typedef struct {
    Packing packing;
    ResidualNorm around;
    Linear projection, key_value, output; /* key_value.outputs 0: self-attention */
    int64_t heads, head_width, causal;
    float scale;
    Dropout dropout;
    const float *memory;
    float *projected, *remembered, *context, *logsum, *dprojected, *dremembered, *dmemory;
} Attention;

static int crosses(const Attention *a) { return a->key_value.outputs > 0; }
static int64_t inner_of(const Attention *a) { return a->heads * a->head_width; }

static void turn_weights(const void *job, int64_t task, float *scratch) {
    (void)scratch;
    const Attention *a = job;
    const Linear *all_of[] = {&a->projection, &a->key_value, &a->output};
    int i = 0;
    while (task >= turning_tasks(all_of[i])) task -= turning_tasks(all_of[i++]);
    turn(all_of[i], task);
}

static int64_t straightening(const Attention *a, int i) {
    const Linear *all_of[] = {&a->projection, &a->key_value, &a->output};
    return all_of[i]->outputs ? straightening_tasks(all_of[i]) : 0;
}

static void straighten_weights(const void *job, int64_t task, float *scratch) {
    (void)scratch;
    const Attention *a = job;
    const Linear *all_of[] = {&a->projection, &a->key_value, &a->output};
    int i = 0;
    while (task >= straightening(a, i)) task -= straightening(a, i++);
    straighten(all_of[i], task);
}

static Head head_of(const Attention *a, int64_t sentence, int64_t head) {
    const Packing *p = &a->packing;
    int64_t row = p->own[sentence], inner = inner_of(a), at = head * a->head_width, crossed = crosses(a);
    const int64_t *read = crossed ? p->source : p->own;
    Head h = {.queries = p->own[sentence + 1] - row, .keys = read[sentence + 1] - read[sentence], .row = row,
              .width = a->head_width, .causal = a->causal, .scale = a->scale, .dropout = a->dropout,
              .head = head, .heads = a->heads, .context_stride = inner, .query_stride = a->projection.outputs};
    h.query = a->projected + row * h.query_stride + at;
    h.key_stride = crossed ? a->key_value.outputs : h.query_stride;
    h.key = crossed ? a->remembered + read[sentence] * h.key_stride + at : h.query + inner;
    h.value = h.key + inner;
    return h;
}

/* tokens and first row of a block, of its own rows or of the source's */
static int64_t rows_of(const Packing *p, const int64_t *starts, int64_t block, int64_t *first) {
    *first = starts[p->first[block]];
    return starts[p->first[block + 1]] - *first;
}

static void forward_block(const void *job, int64_t block, float *scratch) {
    const Attention *a = job;
    const Packing *p = &a->packing;
    int64_t first, begin, rows = rows_of(p, p->own, block, &first), inner = inner_of(a), width = a->around.width;
    float *output = scratch, *rest = scratch + p->longest * width;
    forward_rows(&a->projection, enter(&a->around, first, rows), rows, a->projected + first * a->projection.outputs);
    if (crosses(a)) {
        int64_t sources = rows_of(p, p->source, block, &begin);
        forward_rows(&a->key_value, a->memory + begin * width, sources, a->remembered + begin * a->key_value.outputs);
    }
    for (int64_t s = p->first[block]; s < p->first[block + 1]; s++)
        for (int64_t i = 0; i < a->heads; i++) {
            Head head = head_of(a, s, i);
            attend(&head, a->context + p->own[s] * inner + i * a->head_width, a->logsum + p->own[s] * a->heads + i, rest);
        }
    forward_rows(&a->output, a->context + first * inner, rows, output);
    leave(&a->around, first, rows, output);
}

static void attend_all_back(const Attention *a, int64_t block, const float *dcontext, float *scratch) {
    const Packing *p = &a->packing;
    int64_t inner = inner_of(a), first = p->own[p->first[block]], wide = a->projection.outputs;
    for (int64_t s = p->first[block]; s < p->first[block + 1]; s++)
        for (int64_t i = 0; i < a->heads; i++) {
            int64_t at = i * a->head_width, row = p->own[s];
            Head head = head_of(a, s, i);
            float *dquery = a->dprojected + row * wide + at;
            float *dkey = crosses(a) ? a->dremembered + p->source[s] * head.key_stride + at : dquery + inner;
            attend_back(&head, dcontext + (row - first) * inner + at, a->logsum + row * a->heads + i, dquery, dkey,
                        dkey + inner, scratch);
        }
}

static void backward_block(const void *job, int64_t block, float *scratch) {
    const Attention *a = job;
    const Packing *p = &a->packing;
    int64_t first, begin, rows = rows_of(p, p->own, block, &first), width = a->around.width;
    float *dread = scratch + p->longest * width, *dcontext = dread + p->longest * width;
    float *rest = dcontext + whole(p->longest * inner_of(a) + LANES, LANES);
    const float *ds = leave_back(&a->around, block, first, rows, scratch);
    backward_rows(&a->output, a->around.dropped + first * width, rows, dcontext);
    attend_all_back(a, block, dcontext, rest);
    backward_rows(&a->projection, a->dprojected + first * a->projection.outputs, rows, dread);
    enter_back(&a->around, block, first, rows, ds, dread);
    if (crosses(a)) {
        int64_t sources = rows_of(p, p->source, block, &begin);
        backward_rows(&a->key_value, a->dremembered + begin * a->key_value.outputs, sources, a->dmemory + begin * width);
    }
}

static void weight_gradients(const void *job, int64_t task, float *scratch) {
    (void)scratch;
    const Attention *a = job;
    const Packing *p = &a->packing;
    const float *read = a->around.before ? a->around.normed : a->around.x;
    int64_t tokens = p->own[p->first[p->blocks]];
    int64_t tasks[] = {gradient_tasks(&a->projection), gradient_tasks(&a->key_value), gradient_tasks(&a->output)};
    if (task < tasks[0]) return gradient(&a->projection, a->dprojected, read, tokens, task, 0);
    if ((task -= tasks[0]) < tasks[1])
        return gradient(&a->key_value, a->dremembered, a->memory, p->source[p->first[p->blocks]], task, 0);
    if ((task -= tasks[1]) < tasks[2]) return gradient(&a->output, a->around.dropped, a->context, tokens, task, 0);
    norm_gradients(&a->around, p->blocks);
}

static int64_t room_for_heads(const Attention *a) {
    return head_scratch(a->packing.longest, a->packing.longest, whole(a->head_width, LANES));
}

int64_t attention(const Attention *a) {
    int64_t turning = turning_tasks(&a->projection) + turning_tasks(&a->key_value) + turning_tasks(&a->output);
    Phase phases[] = {{turn_weights, turning}, {forward_block, a->packing.blocks}};
    return run_phases(a->packing.threads, phases, 2, a, a->packing.longest * a->around.width + room_for_heads(a));
}

int64_t attention_back(const Attention *a) {
    int64_t straightened = straightening(a, 0) + straightening(a, 1) + straightening(a, 2);
    int64_t gradients = gradient_tasks(&a->projection) + gradient_tasks(&a->key_value) + gradient_tasks(&a->output) + 1;
    Phase phases[] = {{straighten_weights, straightened}, {backward_block, a->packing.blocks},
                      {weight_gradients, gradients}};
    int64_t room = a->packing.longest * (2 * a->around.width + inner_of(a)) + 2 * LANES + room_for_heads(a);
    return run_phases(a->packing.threads, phases, 3, a, room);
}
