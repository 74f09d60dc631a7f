/* What the gates of recurrent cells are made with, when they are stepped and when they are trained. */
#pragma once

#include "vectors.h"

static inline Floats logistic(Floats x) { return 1.0f / (1.0f + exponential(-x)); }

static inline Floats hyperbolic_tangent(Floats x) {
    Ints sign = (Ints)x & INT32_MIN;
    Floats t = exponential(-2.0f * (Floats)((Ints)x & INT32_MAX));
    return (Floats)((Ints)((1.0f - t) / (1.0f + t)) | sign);
}
