"""What a model is: identical in training and in serving. Weights live in `checkpoints/`; nothing here imports `app` or
`training`. Read `networks/` first: a network knows none of the rest.

networks/    the Transformer, the recurrent language model and its cells, loading
interface    the protocols by which a decoder steps a network and scoring reads it
backends/    what steps a network on a device: PyTorch on its own modules, or kernels in C that compute the same
exactness    whether a network is exactly the one that a kernel was written for
decoding/    options, the loop that drives any network, beam search, sampling
scoring      how probable a given text is
inspection/  attention, gates, alignment, ablation, a pass step by step
tokenizer/   character, word, SentencePiece and Marian tokenizers behind one protocol
checkpoint   the checkpoint folder: write, read, verify (no torch)

Shapes are written with these letters everywhere:
B batch (rows), S source tokens, T target tokens, H heads, D head width, C d_model, V vocabulary, L layers,
Q and K the query and key positions of an attention map. Log-probabilities are natural (nats).
"""
