/* One token from each row of logits, as models/sampling.py defines it, every row by itself.

   Of a row without a cut, the block is looked for in which the cumulated weights pass the row's share of their sum, and
   then the token inside. Of a row with one nothing is sorted but the bins in which a decision falls: weights lie in bins
   by their leading bits, the likeliest bin first. */
#include "vectors.h"

#include <math.h>
#include <stdlib.h>

enum { BLOCK = 64, BINS = 1017, BIN_BITS = 20, ONE = 0x3f800000 };

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
    double total = 0.0;
    for (int lane = 0; lane < LANES; lane++) total += (double)sum[lane];
    return total;
}

/* exp((logits - their largest) * coldness) and its sums: NaN if the row is broken. */
static double weigh(Row *row, float coldness) {
    const Floats nothing = all(-INFINITY);
    Floats largest = nothing;
    for (int64_t i = 0; i < row->size; i += LANES) {
        Floats x = load_some(row->logits + i, row->size - i, nothing);
        largest = choose(x > largest, x, largest);
    }
    float most = largest[0];
    for (int lane = 1; lane < LANES; lane++) most = largest[lane] > most ? largest[lane] : most;
    double total = 0.0;
    for (int64_t block = 0; block < row->blocks; block++) {
        for (int64_t i = block * BLOCK; i < (block + 1) * BLOCK; i += LANES) {
            Floats x = load_some(row->logits + i, row->size - i, nothing);
            store(row->weights + i, exponential((x - all(most)) * all(coldness)));
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
        Ints bins = (ONE - (Ints)load(row->weights + i)) >> BIN_BITS;
        memcpy(row->bins + i, &bins, sizeof(bins));
    }
    for (int64_t i = 0; i < row->size; i++) {
        row->count[row->bins[i]]++;
        row->mass[row->bins[i]] += (double)row->weights[i];
    }
}

static int compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
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
    qsort(row->ordered, (size_t)count, sizeof(*row->ordered), compare);
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

/* logits [rows, size], the others [rows]. A broken row draws 0. */
int64_t draw(const float *logits, int64_t rows, int64_t size, const double *temperature, const int64_t *top_k,
             const double *top_p, const double *uniform, int64_t *tokens) {
    int64_t padded = whole(size, BLOCK);
    char *memory = aligned_alloc(64, (size_t)whole(padded * 24, 64));
    Row *row = malloc(sizeof(Row));
    if (memory && row) {
        row->size = size, row->blocks = padded / BLOCK;
        row->weights = (float *)memory, row->bins = (int32_t *)(memory + padded * 4);
        row->ordered = (uint64_t *)(memory + padded * 8), row->until = (double *)(memory + padded * 16);
        for (int64_t i = 0; i < rows; i++) {
            row->logits = logits + i * size;
            double total = weigh(row, (float)(1.0 / fmax(temperature[i], 1e-30)));
            int cut = top_k[i] > 0 || top_p[i] < 1.0;
            if (isnan(total)) tokens[i] = 0;
            else tokens[i] = cut ? from_cut(row, top_k[i], top_p[i], uniform[i]) : from_all(row, uniform[i]);
        }
    }
    free(memory), free(row);
    return memory && row ? DONE : NO_MEMORY;
}
