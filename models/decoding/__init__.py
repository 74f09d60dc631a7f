"""Decoding: options, continuous batching for any network, beam search, sampling and logits processors. Only `options`
and `constraints` can be imported without torch.

`Decoder` chooses for each step the fastest of these ways that all live requests allow; results are the same:

rows on the host    `row_state`: greedy search and sampling. Where nothing but the likeliest token of each row is wanted
                    (`RowState.argmax_suffices`) a network that is `Likeliest` chooses it itself.
beams on the host   `beam`, and `constrained_beam` where options constrain them (`DecodingOptions.constrains_beam`)
beams in C          beam.c, where all live rows are beams of one width, none of them constrained or streamed
                    (`Beams.plain`)
CUDA graphs         `device_step`, where no request needs the host (`needs_host`)

`row_state` applies the options of a row (temperature, top_k, top_p, seed; scores, logprobs, top_logprobs) with its
`RowLogitsProcessors` (the penalties, no_repeat_ngram_size), on a GPU `device_step` and its kernels; `beam` and beam.c
those of a beam (beam_size, n_best, length_penalty, max_new_tokens), `constrained_beam` required and
no_repeat_ngram_size. tests/models/decoding/test_ways_of_decoding.py lists which way each option leaves open."""
