"""Models, identical in training and serving. Weights live in `checkpoints/`; nothing here imports `app` or `training`.
Read `networks/` first: a network depends on none of the other modules.

networks/    the Transformer, the recurrent language model and its cells, loading
interface    the protocols by which a decoder steps a network and scoring reads it
backends/    steps a network on a device: PyTorch on its own modules, or kernels in C (CPU) or Triton (GPU) that
             compute the same
exactness    checks that a network is exactly the one that a kernel was written for; networks without weights
decoding/    options, the decoding loop for any network, beam search, sampling
scoring      the probability of a given text
inspection/  attention, gates, alignment, ablation, step-by-step walkthrough
tokenizer/   character, word, SentencePiece and Marian tokenizers behind one protocol
checkpoint   the checkpoint folder: write, read, verify (no torch)
model_names  what people call a model to import, and the folder that belongs to the name

Shapes use these letters everywhere:
B batch (rows), S source tokens, T target tokens, H heads, D head width, C d_model, V vocabulary, L layers,
Q and K the query and key positions of an attention map. Log-probabilities are in nats."""
