"""The decode step of a Transformer in Triton kernels for CUDA, launched without a compiler on the serving machine."""
