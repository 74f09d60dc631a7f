/* One head of attention over one sentence. Its rows lie `stride` floats apart in q and k, v. */
#pragma once

#include "training.h"

typedef struct {
    int64_t queries, keys, width, causal;
    int64_t query_stride, key_stride, context_stride;
    float scale;
    Dropout dropout;
    int64_t row; /* of the first query: what its dropout is drawn for, with the head */
    int64_t head, heads;
    const float *query, *key, *value;
} Head;

/* floats of scratch for so many queries and keys at most */
int64_t head_scratch(int64_t queries, int64_t keys, int64_t width);
/* logsum [queries], `heads` floats apart: of each query's exponentials, which the way back needs again. */
void attend(const Head *head, float *context, float *logsum, float *scratch);
void attend_back(const Head *head, const float *dcontext, const float *logsum, float *dquery, float *dkey, float *dvalue,
                 float *scratch);
