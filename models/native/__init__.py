"""Steps in C.

The Transformer in int8 on a CPU with AVX2, in C: one call a step instead of some five hundred.

At few rows PyTorch's calls cost as much as the arithmetic between them. Here a step of all layers is one call, its
weights are read once from front to back, and no position is padded. The same sources are compiled for AVX-512 VNNI,
for AVX-VNNI and for AVX2 alone; a process loads the best that its CPU has, and all give the same integers. Where there
is no such CPU or no C compiler, `cached_transformer` does the same in PyTorch, slower; tests hold the one against the
other.

products.c     rows to bytes, bytes times bytes, sums to rows
attention.c    one query over a cache; layer norm
transformer.c  the layers, the encoder's and the decoder's
likeliest.c    the largest of many logits, and the next hypotheses of a beam
copying.c      rows of the caches that take the places of others
native.h       what these share
avx512.h, avx2.h   the vectors and operations that they are written in, for each width
variants.py      which instruction sets there are, and which this CPU has
build.py         compiles them, once a machine
library.py       the same structures and functions in Python
state.py         the caches, and what a call is told of them
transformer.py   `cached_transformer` over them
likeliest.py     likeliest.c, for whatever has float32 logits

Recurrent networks in fp32, and draws from any network's logits, are a second library. It needs no instruction beyond
those of the architecture and uses wider vectors where they are. What it is there for is not speed alone: a row's
numbers are summed in one order, and so do not depend on the rows beside it.

vectors.h      floats in vectors
matrices.c     products in fp32
recurrent.c    the cells, a step, the reading of prompts
draws.c        uniform numbers; a token from each row of logits
recurrent.h    what these share
tiles.h        tables of the inner loops of both libraries' products
recurrent.py     CachedRecurrent over them
draws.py         models.sampling over them

A third library, in training/, trains Transformers.
"""
