/* Layer norm, dropout and the residual connection, forward and backward, of rows that are in the cache. */
#include "training_residual.h"

#include <math.h>

void norm_row(const ResidualNorm *a, const float *x, float *y, float *statistics) {
    int64_t width = a->width;
    Floats sum = all(0.0f), squares = all(0.0f), zero = all(0.0f);
    for (int64_t c = 0; c < width; c += LANES) sum += load_some(x + c, width - c, zero);
    float mean = sum_of(sum) / (float)width;
    for (int64_t c = 0; c < width; c += LANES) {
        Floats from = load_some(x + c, width - c, all(mean)) - all(mean);
        squares += from * from;
    }
    float scale = 1.0f / sqrtf(sum_of(squares) / (float)width + a->epsilon);
    statistics[0] = mean, statistics[1] = scale;
    for (int64_t c = 0; c < width; c += LANES) {
        int64_t left = width - c;
        Floats normed = (load_some(x + c, left, zero) - all(mean)) * all(scale);
        store_some(y + c, normed * load_some(a->weight + c, left, zero) + load_some(a->bias + c, left, zero), left);
    }
}

/* dx of one row (onto it, where `onto` is given), and its part of the gradients of weight and bias. */
void norm_row_back(const ResidualNorm *a, const float *x, const float *dy, const float *statistics, const float *onto,
                   float *dx, float *partial) {
    int64_t width = a->width;
    Floats mean = all(statistics[0]), scale = all(statistics[1]), zero = all(0.0f), sum = zero, dot = zero;
    for (int64_t c = 0; c < width; c += LANES) {
        int64_t left = width - c;
        Floats normed = (load_some(x + c, left, mean) - mean) * scale, d = load_some(dy + c, left, zero);
        Floats g = d * load_some(a->weight + c, left, zero);
        store_some(partial + c, load_some(partial + c, left, zero) + d * normed, left);
        store_some(partial + width + c, load_some(partial + width + c, left, zero) + d, left);
        sum += g;
        dot += g * normed;
    }
    Floats s = all(sum_of(sum) / (float)width), t = all(sum_of(dot) / (float)width);
    for (int64_t c = 0; c < width; c += LANES) {
        int64_t left = width - c;
        Floats normed = (load_some(x + c, left, mean) - mean) * scale;
        Floats g = load_some(dy + c, left, zero) * load_some(a->weight + c, left, zero);
        Floats back = (g - s - normed * t) * scale;
        if (onto) back += load_some(onto + c, left, zero);
        store_some(dx + c, back, left);
    }
}

const float *enter(const ResidualNorm *a, int64_t first, int64_t rows) {
    if (!a->before) return a->x + first * a->width;
    for (int64_t r = first; r < first + rows; r++)
        norm_row(a, a->x + r * a->width, a->normed + r * a->width, a->statistics + 2 * r);
    return a->normed + first * a->width;
}

void leave(const ResidualNorm *a, int64_t first, int64_t rows, const float *output) {
    int64_t width = a->width;
    for (int64_t r = first; r < first + rows; r++, output += width) {
        const float *x = a->x + r * width;
        float *to = (a->before ? a->y : a->sum) + r * width;
        uint32_t key = key_of_row(&a->dropout, r);
        for (int64_t c = 0; c < width; c += LANES) {
            int64_t left = width - c;
            Floats value = load_some(output + c, left, all(0.0f));
            if (a->dropout.rate > 0) value *= kept(&a->dropout, key, c);
            store_some(to + c, value + load_some(x + c, left, all(0.0f)), left);
        }
        if (!a->before) norm_row(a, to, a->y + r * width, a->statistics + 2 * r);
    }
}

/* The gradient of the sum, in `scratch` for a post-norm; `dropped` gets that of f's output. */
const float *leave_back(const ResidualNorm *a, int64_t block, int64_t first, int64_t rows, float *scratch) {
    int64_t width = a->width;
    float *partial = a->partial + block * 2 * width;
    memset(partial, 0, (size_t)width * 2 * sizeof(float));
    const float *ds = a->before ? a->dy + first * width : scratch;
    for (int64_t r = first; r < first + rows; r++) {
        const float *from = ds + (r - first) * width;
        if (!a->before)
            norm_row_back(a, a->sum + r * width, a->dy + r * width, a->statistics + 2 * r, NULL,
                          scratch + (r - first) * width, partial);
        uint32_t key = key_of_row(&a->dropout, r);
        for (int64_t c = 0; c < width; c += LANES) {
            Floats value = load_some(from + c, width - c, all(0.0f));
            if (a->dropout.rate > 0) value *= kept(&a->dropout, key, c);
            store_some(a->dropped + r * width + c, value, width - c);
        }
    }
    return ds;
}

void enter_back(const ResidualNorm *a, int64_t block, int64_t first, int64_t rows, const float *residual,
                const float *dread) {
    int64_t width = a->width;
    for (int64_t r = 0; r < rows; r++, residual += width, dread += width) {
        float *dx = a->dx + (first + r) * width;
        if (a->before)
            norm_row_back(a, a->x + (first + r) * width, dread, a->statistics + 2 * (first + r), residual, dx,
                          a->partial + block * 2 * width);
        else
            for (int64_t c = 0; c < width; c += LANES) {
                int64_t left = width - c;
                store_some(dx + c, load_some(residual + c, left, all(0.0f)) + load_some(dread + c, left, all(0.0f)), left);
            }
    }
}

void norm_gradients(const ResidualNorm *a, int64_t blocks) {
    for (int64_t c = 0; c < a->width; c++) {
        float weight = 0.0f, bias = 0.0f;
        for (int64_t b = 0; b < blocks; b++) {
            weight += a->partial[b * 2 * a->width + c];
            bias += a->partial[(b * 2 + 1) * a->width + c];
        }
        a->weight_gradient[c] = weight, a->bias_gradient[c] = bias;
    }
}
