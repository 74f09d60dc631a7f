"""Steps in C for CPUs: the Transformer in int8, recurrent networks in fp32, draws and top-k of logits."""
