"""C kernels for CPUs: int8 steps of the Transformer, fp32 steps of recurrent networks, sampling and top-k of logits."""
