/* One token from each row of logits, as models/backends/torch/token_choice.py defines it, every row by itself.

   Of a row without a cut, the block is looked for in which the cumulated weights pass the row's share of their sum, and
   then the token inside. Of a row with one nothing is sorted but the bins in which a decision falls: weights lie in bins
   by their leading bits, the likeliest bin first. */
#include "vectors.h"

#include <math.h>
#include <stdlib.h>

enum { BLOCK = 64, BINS = 1025, BIN_BITS = 19, ONE = 0x3f800000 }; /* 16 bins from 1 to 1/2, ...; 2^-64 is as good as 0 */

typedef struct {
    const float *logits;
    int64_t size, blocks;
    float *weights; /* [blocks, BLOCK]; 0 behind the vocabulary */
    int32_t *bins;  /* of each weight */
    uint64_t *ordered;
    double *until; /* [blocks]: the sum of the weights up to each block's end */
    int64_t count[BINS];
    double mass[BINS];
    int64_t last_bin, last_count; /* what the k likeliest leave of the last bin that they reach into */
} Row;

static double block_sum(const float *weights) {
    Floats sum = load(weights);
    for (int64_t i = LANES; i < BLOCK; i += LANES) sum += load(weights + i);
    typedef float Four __attribute__((vector_size(16)));
    Four parts[LANES / 4], four;
    memcpy(parts, &sum, sizeof(sum));
    four = parts[0];
    for (int part = 1; part < LANES / 4; part++) four += parts[part];
    return (double)((four[0] + four[1]) + (four[2] + four[3]));
}

static float largest_of(const float *logits, int64_t size) {
    const Floats nothing = all(-INFINITY);
    Floats largest[4] = {nothing, nothing, nothing, nothing};
    for (int64_t i = 0; i < size; i += 4 * LANES)
        for (int part = 0; part < 4; part++) {
            Floats x = load_some(logits + i + part * LANES, size - i - part * LANES, nothing);
            largest[part] = choose(x > largest[part], x, largest[part]);
        }
    float most = -INFINITY;
    for (int part = 0; part < 4; part++)
        for (int lane = 0; lane < LANES; lane++) most = largest[part][lane] > most ? largest[part][lane] : most;
    return most;
}

/* exp((logits - their largest) * coldness), 0 where it is next to nothing, and its sums: NaN if the row is broken. */
static double weigh(Row *row, float coldness) {
    const float most = largest_of(row->logits, row->size);
    double total = 0.0;
    for (int64_t block = 0; block < row->blocks; block++) {
        for (int64_t i = block * BLOCK; i < (block + 1) * BLOCK; i += LANES) {
            Floats x = load_some(row->logits + i, row->size - i, all(-INFINITY));
            x = (x - all(most)) * all(coldness);
            store(row->weights + i, (Floats)((Ints)exponential(x) & ~(x < all(-87.0f)))); /* 0; NaN stays */
        }
        total += block_sum(row->weights + block * BLOCK);
        row->until[block] = total;
    }
    return total;
}

/* Below the sum, whatever was rounded: a draw never falls behind the last token that has a weight. */
static double share(double uniform, double total) { return fmin(uniform * total, nextafter(total, 0.0)); }

static int64_t from_all(const Row *row, double uniform) {
    double passed = share(uniform, row->until[row->blocks - 1]);
    int64_t block = 0;
    while (row->until[block] <= passed) block++;
    passed -= block ? row->until[block - 1] : 0.0;
    int64_t found = block * BLOCK;
    double sum = 0.0;
    for (int64_t i = block * BLOCK; i < (block + 1) * BLOCK; i++) {
        sum += (double)row->weights[i];
        if (row->weights[i] > 0.0f) found = i;
        if (sum > passed) break;
    }
    return found;
}

static void fill_bins(Row *row) {
    memset(row->count, 0, sizeof(row->count));
    memset(row->mass, 0, sizeof(row->mass));
    for (int64_t i = 0; i < row->blocks * BLOCK; i += LANES) {
        Ints bins = (ONE - (Ints)load(row->weights + i)) >> BIN_BITS, most = bins - bins + (BINS - 1);
        bins = ((bins > most) & most) | (~(bins > most) & bins);
        memcpy(row->bins + i, &bins, sizeof(bins));
    }
    for (int64_t i = 0; i < row->size; i++) {
        row->count[row->bins[i]]++;
        row->mass[row->bins[i]] += (double)row->weights[i];
    }
}

/* By Shell's method, rising: a bin holds few. */
static void sort(uint64_t *keys, int64_t count) {
    static const int64_t gaps[] = {29524, 9841, 3280, 1093, 364, 121, 40, 13, 4, 1};
    for (size_t g = 0; g < sizeof(gaps) / sizeof(*gaps); g++)
        for (int64_t i = gaps[g]; i < count; i++) {
            uint64_t key = keys[i];
            int64_t hole = i;
            for (; hole >= gaps[g] && keys[hole - gaps[g]] > key; hole -= gaps[g]) keys[hole] = keys[hole - gaps[g]];
            keys[hole] = key;
        }
}

/* The tokens of a bin into row->ordered, likeliest first and equal ones by their places; how many a cut to k leaves. */
static int64_t order_bin(Row *row, int64_t bin) {
    int64_t count = 0;
    for (int64_t i = 0; i < row->size; i++)
        if (row->bins[i] == bin) {
            int32_t bits;
            float logit = row->logits[i] + 0.0f; /* -0 is 0 */
            memcpy(&bits, &logit, sizeof(bits));
            uint32_t rising = (uint32_t)bits ^ (bits < 0 ? UINT32_MAX : 0x80000000u);
            row->ordered[count++] = (uint64_t)~rising << 32 | (uint64_t)i;
        }
    sort(row->ordered, count);
    return bin == row->last_bin ? row->last_count : count;
}

static float weight_of(const Row *row, int64_t rank) { return row->weights[row->ordered[rank] & UINT32_MAX]; }

/* Which of the likeliest tokens takes the cumulated weights above `passed`, or the last one that has a weight; where it
   stands, and the sum up to it. */
typedef struct {
    int64_t token, bin, rank;
    double sum;
} Found;

static Found from_likeliest(Row *row, double passed) {
    Found found = {0};
    double sum = 0.0;
    int64_t bin = 0;
    while (bin < row->last_bin && sum + row->mass[bin] <= passed) sum += row->mass[bin++];
    for (; bin <= row->last_bin; bin++) {
        int64_t count = row->count[bin] ? order_bin(row, bin) : 0;
        for (int64_t rank = 0; rank < count && weight_of(row, rank) > 0.0f; rank++) {
            sum += (double)weight_of(row, rank);
            found = (Found){(int64_t)(row->ordered[rank] & UINT32_MAX), bin, rank, sum};
            if (sum > passed) return found;
        }
    }
    return found;
}

/* Leaves the k likeliest, 0: all; what they weigh together. */
static double cut_to(Row *row, int64_t k) {
    double sum = 0.0;
    int64_t bin = 0, left = k == 0 || k > row->size ? row->size : k;
    for (; row->count[bin] < left; left -= row->count[bin++]) sum += row->mass[bin];
    row->last_bin = bin, row->last_count = left;
    if (left == row->count[bin]) return sum + row->mass[bin];
    order_bin(row, bin);
    for (int64_t rank = 0; rank < left; rank++) sum += (double)weight_of(row, rank);
    return sum;
}

static int64_t from_cut(Row *row, int64_t k, double p, double uniform) {
    fill_bins(row);
    double kept = cut_to(row, k);
    if (p < 1.0) { /* the smallest set that reaches p */
        Found last = from_likeliest(row, nextafter(p * kept, 0.0));
        row->last_bin = last.bin, row->last_count = last.rank + 1, kept = last.sum;
    }
    return from_likeliest(row, share(uniform, kept)).token;
}

/* The first of equals; of a row that is broken all over, the first token. */
static int64_t likeliest(const Row *row) {
    const float most = largest_of(row->logits, row->size);
    for (int64_t i = 0; i < row->size; i += LANES) {
        Ints equal = load_some(row->logits + i, row->size - i, all(NAN)) == all(most);
        for (int lane = 0; lane < LANES; lane++)
            if (equal[lane]) return i + lane;
    }
    return 0;
}

static Row *begin(int64_t size) {
    int64_t padded = whole(size, BLOCK), head = whole(sizeof(Row), LINE);
    char *memory = aligned_alloc(LINE, (size_t)(head + whole(padded * 24, LINE)));
    Row *row = (Row *)memory;
    if (!row) return NULL;
    memory += head;
    row->size = size, row->blocks = padded / BLOCK;
    row->weights = (float *)memory, row->bins = (int32_t *)(memory + padded * 4);
    row->ordered = (uint64_t *)(memory + padded * 8), row->until = (double *)(memory + padded * 16);
    return row;
}

/* See models/backends/torch/token_choice.py: two rounds of SplitMix64's finalizer over a counter. */
static double uniform_number(uint64_t seed, uint64_t position) {
    uint64_t state = seed * 0x9E3779B97F4A7C15u + position * 0xD1342543DE82EF95u + 0x632BE59BD9B4E019u;
    for (int round = 0; round < 2; round++) {
        state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9u;
        state = (state ^ (state >> 27)) * 0x94D049BB133111EBu;
        state ^= state >> 31;
    }
    return (double)(state >> 11) * 0x1p-53;
}

/* What the choice of a row's token reads, [slots] each: options of models/decoding/options.py by name, and how many
   tokens each row has written. Python fills the structure by what `choose_tokens_columns` says. */
#define ROW_PARAMETERS(column) \
    column(double, temperature) column(int64_t, top_k) column(double, top_p) column(double, min_p) \
    column(uint64_t, seed) column(int64_t, lengths)

typedef struct {
#define FIELD(type, name) const type *name;
    ROW_PARAMETERS(FIELD)
} Columns;

/* Writes "type name" lines, in the structure's order, into the caller's [size] bytes, which may lie in the memory of
   another process (tests/arm). Returns how many bytes there are. */
int64_t choose_tokens_columns(char *text, int64_t size) {
#define WORDS(type, name) #type " " #name "\n"
    static const char columns[] = ROW_PARAMETERS(WORDS);
    int64_t length = sizeof columns - 1;
    for (int64_t i = 0; i < length && i < size; i++) text[i] = columns[i];
    return length;
}

/* How many tokens weigh at least `share` of the likeliest, whose weight is 1. */
static int64_t probable(const Row *row, double share) {
    int64_t count = 0;
    for (int64_t i = 0; i < row->size; i++) count += (double)row->weights[i] >= share;
    return count;
}

/* Of two numbers of likeliest tokens; 0: all. */
static int64_t fewer(int64_t k, int64_t count) { return k > 0 && k < count ? k : count; }

static int64_t draw_one(Row *row, const Columns *c, int64_t slot) {
    double total = weigh(row, (float)(1.0 / fmax(c->temperature[slot], 1e-30)));
    if (isnan(total)) return 0;
    int64_t k = c->top_k[slot];
    double p = c->top_p[slot], uniform = uniform_number(c->seed[slot], (uint64_t)c->lengths[slot]);
    if (c->min_p[slot] > 0.0) k = fewer(k, probable(row, c->min_p[slot]));
    return k > 0 || p < 1.0 ? from_cut(row, k, p, uniform) : from_all(row, uniform);
}

/* logits [rows, size] of `slots` [rows]: the likeliest token where the temperature is 0, else a draw.
   A broken row draws 0. */
int64_t choose_tokens(const Columns *c, const float *logits, int64_t rows, int64_t size, const int64_t *slots,
                      int64_t *tokens) {
    Row *row = begin(size);
    if (!row) return NO_MEMORY;
    for (int64_t i = 0; i < rows; i++) {
        row->logits = logits + i * size;
        tokens[i] = c->temperature[slots[i]] > 0.0 ? draw_one(row, c, slots[i]) : likeliest(row);
    }
    free(row);
    return DONE;
}
