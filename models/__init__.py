"""What a model IS: identical in training and in serving. Code only; weights live in `checkpoints/`.

This package imports neither `app` nor `training`. Read it in this order:

tokenizer/       character, word, SentencePiece and Marian tokenizers behind one protocol
interface.py     Network and Decodable: the protocols by which anything gets and steps a network
attention.py     multi-head attention: fused path, and an explicit path that returns the weights
positions.py     sinusoidal positions, interleaved or in Marian's layout
transformer_config.py  TransformerConfig: every option of the network, validated
layers.py        feed-forward, encoder and decoder layers, post- or pre-norm
transformer.py   the encoder-decoder network over whole sequences
cells.py         one step of a tanh, GRU or LSTM cell, gates included
gru_scan.py      a GRU over whole sequences on a CPU, forward and backward, with steps in C
fused_cells.py   one layer over whole sequences, in these kernels or PyTorch's
dropout.py       masks that differ from step to step, or do not
recurrent.py     RecurrentConfig and the RNN/GRU/LSTM language model over whole sequences
precision.py     fp32, bf16, fp16, int8: a network in each, and which is fastest here
products.py      x·Wᵀ + b as decoding needs it, in floating point or int8
cached_layers.py  the Transformer's layers flat, compiled to TorchScript
transformer_state.py  static caches: allocated once, copied where they differ
step_shape.py    the sizes of a step, exact or rounded to few
cached_transformer.py  the Transformer, a token at a time
native/          steps in C: the Transformer in int8 where a CPU has the instructions, recurrent networks in fp32
cached_cells.py  the recurrent cells flat, compiled likewise
cached_recurrent.py  the recurrent language model, a token at a time
graphs.py        CUDA graphs of steps
likeliest.py     the largest of many logits: argmax, top-k, the next hypotheses of beams
sampling.py      which token is drawn for independent rows
beam.py          what the beams of one width have written, as arrays, and what their hypotheses agree on
rows.py          what rows without a beam have written, as arrays
repeats.py       what a request may not write again, and what it writes less of
terms.py         how far a text has come with the terms that it must hold (no torch)
bounds.py        beam search under these: bans, and terms by dynamic beam allocation
suppression.py   probabilities among the tokens that may be chosen
options.py       DecodingOptions and TokenRules
suppression.py   tokens that are never chosen
decoding.py      the one loop that drives any network
inspection/      what a network shows of itself: attention, steps, alignment, heads taken away, a pass told step by step
gate_conventions.py  the gates of each cell by name, and what they do (no torch)
gates.py         the gates of one text
scoring.py       how probable a given text is
checkpoint.py    the checkpoint folder: write, read, verify (no torch)
networks.py      from a checkpoint's architecture to a network with its weights

Shapes are written with these letters everywhere:
B batch (rows), S source tokens, T target tokens, H heads, D head width, C d_model, V vocabulary, L layers,
Q and K the query and key positions of an attention map. Log-probabilities are natural (nats).
"""
