"""The Transformer in int8 on a CPU with AVX-512 VNNI, in C: one call a step instead of some five hundred.

At few rows PyTorch's calls cost as much as the arithmetic between them. Here a step of all layers is one call, its
weights are read once from front to back, and no position is padded. Where there is no such CPU or no C compiler,
`cached_transformer` does the same in PyTorch, slower; tests hold the one against the other.

products.c     rows to bytes, bytes times bytes, sums to rows
attention.c    one query over a cache; layer norm
transformer.c  the layers, the encoder's and the decoder's
likeliest.c    the largest of many logits, and the next hypotheses of a beam
native.h       what these three share
build.py         compiles them, once a machine
library.py       the same structures and functions in Python
transformer.py   CachedTransformer over them
likeliest.py     likeliest.c, for whatever has float32 logits
"""
