/* One step of a GRU in training, forward and backward, without its matrix products: these PyTorch does. models/cells.py
   has the formulae and the order of the gates. B rows, N hidden width, which may be any. */
#include "gates.h"

/* The derivatives of the two activations, from what these came to. */
static inline Floats logistic_slope(Floats y) { return y * (1.0f - y); }
static inline Floats tangent_slope(Floats y) { return 1.0f - y * y; }

static inline Floats some(const float *from, int64_t count) { return load_some(from, count, all(0.0f)); }

/* x [B, 3N]: what the input comes to; p [B, 3N]: the product of h [B, N], the hidden state before, with its matrix, and
   b [3N] that matrix's bias. Written: y [B, N], the hidden state after, and saved [B, 4N]: r, z, n and p + b of n. */
void gru_forward(int64_t rows, int64_t n, const float *x, const float *p, const float *b, const float *h, float *y,
                 float *saved) {
    for (int64_t row = 0; row < rows; row++, x += 3 * n, p += 3 * n, h += n, y += n, saved += 4 * n)
        for (int64_t i = 0; i < n; i += LANES) {
            int64_t left = n - i;
            Floats reset = logistic(some(x + i, left) + some(p + i, left) + some(b + i, left));
            Floats keep = logistic(some(x + n + i, left) + some(p + n + i, left) + some(b + n + i, left));
            Floats own = some(p + 2 * n + i, left) + some(b + 2 * n + i, left);
            Floats fresh = hyperbolic_tangent(some(x + 2 * n + i, left) + reset * own);
            store_some(y + i, fresh + keep * (some(h + i, left) - fresh), left);
            store_some(saved + i, reset, left);
            store_some(saved + n + i, keep, left);
            store_some(saved + 2 * n + i, fresh, left);
            store_some(saved + 3 * n + i, own, left);
        }
}

/* The loss by the hidden state after has three parts [B, N]: dy comes from above, dp from the next step's product, and
   direct from the next step's z; direct is written over for the step before. Written: d [B, 4N], the loss by p's n, by
   the sums of r and of z, and by x's n: the first three are p's, in this order, and the last three x's. */
void gru_backward(int64_t rows, int64_t n, const float *dy, const float *dp, float *direct, const float *saved,
                  const float *h, float *d) {
    for (int64_t row = 0; row < rows; row++, dy += n, dp += n, direct += n, saved += 4 * n, h += n, d += 4 * n)
        for (int64_t i = 0; i < n; i += LANES) {
            int64_t left = n - i;
            Floats reset = some(saved + i, left), keep = some(saved + n + i, left);
            Floats fresh = some(saved + 2 * n + i, left), own = some(saved + 3 * n + i, left);
            Floats of_state = some(dy + i, left) + some(dp + i, left) + some(direct + i, left);
            Floats of_fresh = of_state * (1.0f - keep) * tangent_slope(fresh);
            store_some(d + i, of_fresh * reset, left);
            store_some(d + n + i, of_fresh * own * logistic_slope(reset), left);
            store_some(d + 2 * n + i, of_state * (some(h + i, left) - fresh) * logistic_slope(keep), left);
            store_some(d + 3 * n + i, of_fresh, left);
            store_some(direct + i, of_state * keep, left);
        }
}
