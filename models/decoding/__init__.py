"""Decoding: options, continuous batching for any network, beam search, sampling and logits processors. Only `options`
and `constraints` can be imported without torch."""
