/* softmax(q·kᵀ·scale)·v of one head and one sentence, forward and backward. Sentences are short: the weights of all
   queries stay in the cache, and no key that a query may not see is ever written anywhere. */
#include "training_heads.h"

#include <math.h>

int64_t head_scratch(int64_t queries, int64_t keys, int64_t width) {
    return whole(keys, PANEL) * (2 * queries + 2 * width) + 2 * PANEL;
}

/* q·kᵀ, [queries, padded keys] */
static void scores(const Head *h, const float *rows, int64_t stride, const float *columns, int64_t columns_stride,
                   float *turned, float *to) {
    int64_t padded = whole(h->keys, LANES);
    transpose_into(columns, columns_stride, h->keys, h->width, turned, padded);
    Right right = {turned, padded, PANEL};
    product(h->queries, h->width, padded, (Left){rows, stride, 1}, right, (Into){to, padded, NULL, 0});
}

static uint32_t key_of(const Head *h, int64_t query) {
    return key_of_row(&h->dropout, (h->row + query) * h->heads + h->head);
}

/* One query's exponentials in place of its scores, zero where it may not look; their sum, and by what they were
   divided all, as its logarithm. */
static float exponentials(const Head *h, float *row, int64_t seen, int64_t padded, float *divided) {
    Floats most = all(-INFINITY), sum = all(0.0f), scale = all(h->scale);
    for (int64_t k = 0; k < seen; k += LANES) {
        Floats x = choose(places(k) < (int32_t)seen, load(row + k) * scale, all(-INFINITY));
        most = choose(x > most, x, most);
    }
    float largest = largest_of(most);
    for (int64_t k = 0; k < padded; k += LANES) {
        Ints open = places(k) < (int32_t)seen;
        Floats x = choose(open, exponential(load(row + k) * scale - all(largest)), all(0.0f));
        store(row + k, x);
        sum += x;
    }
    *divided = largest;
    return sum_of(sum);
}

void attend(const Head *h, float *context, float *logsum, float *scratch) {
    int64_t padded = whole(h->keys, LANES);
    float *turned = scratch, *weights = turned + padded * h->width;
    scores(h, h->query, h->query_stride, h->key, h->key_stride, turned, weights);
    for (int64_t q = 0; q < h->queries; q++) {
        float *row = weights + q * padded, divided;
        float total = exponentials(h, row, h->causal ? q + 1 : h->keys, padded, &divided);
        logsum[q * h->heads] = divided + logf(total);
        uint32_t key = key_of(h, q);
        for (int64_t k = 0; k < padded; k += LANES) {
            Floats weight = load(row + k) * all(1.0f / total);
            if (h->dropout.rate > 0) weight *= kept(&h->dropout, key, k);
            store(row + k, weight);
        }
    }
    product(h->queries, h->keys, h->width, (Left){weights, padded, 1}, (Right){h->value, h->key_stride, PANEL},
            (Into){context, h->context_stride, NULL, 0});
}

/* Of one query: from scores to the weights that met the values, and from the gradients of these to those of q·k. */
static void softmax_back(const Head *h, int64_t q, float logsum, float *weights, float *gradients, int64_t padded) {
    int64_t seen = h->causal ? q + 1 : h->keys;
    uint32_t key = key_of(h, q);
    Floats sum = all(0.0f);
    for (int64_t k = 0; k < padded; k += LANES) {
        Ints open = places(k) < (int32_t)seen;
        Floats weight = choose(open, exponential(load(weights + k) * all(h->scale) - all(logsum)), all(0.0f));
        Floats gradient = choose(open, load(gradients + k), all(0.0f));
        if (h->dropout.rate > 0) gradient *= kept(&h->dropout, key, k);
        store(weights + k, weight);
        store(gradients + k, gradient);
        sum += weight * gradient;
    }
    Floats mean = all(sum_of(sum));
    for (int64_t k = 0; k < padded; k += LANES) {
        Floats weight = load(weights + k);
        store(gradients + k, weight * (load(gradients + k) - mean) * all(h->scale));
        if (h->dropout.rate > 0) store(weights + k, weight * kept(&h->dropout, key, k));
    }
}

void attend_back(const Head *h, const float *dcontext, const float *logsum, float *dquery,
                 float *dkey, float *dvalue, float *scratch) {
    int64_t padded = whole(h->keys, LANES), stride = h->context_stride;
    float *turned = scratch, *weights = turned + padded * h->width, *gradients = weights + padded * h->queries;
    scores(h, h->query, h->query_stride, h->key, h->key_stride, turned, weights);
    scores(h, dcontext, stride, h->value, h->key_stride, turned, gradients);
    for (int64_t q = 0; q < h->queries; q++)
        softmax_back(h, q, logsum[q * h->heads], weights + q * padded, gradients + q * padded, padded);
    Into to_value = {dvalue, h->key_stride, NULL, 0}, to_key = {dkey, h->key_stride, NULL, 0};
    product(h->keys, h->queries, h->width, (Left){weights, 1, padded}, (Right){dcontext, stride, PANEL}, to_value);
    product(h->keys, h->queries, h->width, (Left){gradients, 1, padded}, (Right){h->query, h->query_stride, PANEL}, to_key);
    product(h->queries, h->keys, h->width, (Left){gradients, padded, 1}, (Right){h->key, h->key_stride, PANEL},
            (Into){dquery, h->query_stride, NULL, 0});
}
