"""What a model IS: identical in training and in serving. Code only; weights live in `checkpoints/`.

This package imports neither `app` nor `training`. Read it in this order:

tokenizer.py     character, word and SentencePiece tokenizers behind one protocol
interface.py     Decodable: the protocol by which anything steps a network
attention.py     multi-head attention: fused path, and an explicit path that returns the weights
positions.py     sinusoidal positions, interleaved or in Marian's layout
transformer_config.py  TransformerConfig: every option of the network, validated
layers.py        feed-forward, encoder and decoder layers, post- or pre-norm
transformer.py   the encoder-decoder network
cells.py         one step of a tanh, GRU or LSTM cell, gates included
recurrent.py     RecurrentConfig and the RNN/GRU/LSTM language model
sampling.py      which token comes next for independent rows
beam.py          which tokens come next for a beam
decoding.py      DecodingOptions and the one loop that drives any network
inspection.py    attention maps of one sentence
checkpoint.py    the checkpoint folder: write, read, verify (no torch)
networks.py      from a checkpoint's architecture to a network with its weights
precision.py     fp32, bf16, fp16

Shapes are written with these letters everywhere:
B batch (rows), S source tokens, T target tokens, H heads, D head width, C d_model, V vocabulary, L layers,
Q and K the query and key positions of an attention map. Log-probabilities are natural (nats).
"""
