"""Tokens and attention as people see them: where each token stands in its text, and the weights by number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from app.engine import messages as m
from app.engine.detokenizing import Detokenizer
from app.engine.jobs import AttentionJob, AttentionMap, AttentionReport, TokenView
from models.checkpoint import Checkpoint
from models.tokenizer import Tokenizer


def text_tokens(tokenizer: Tokenizer, text: str) -> list[TokenView]:
    """The tokens of a text that was given."""
    return [
        TokenView(p.id, p.piece, text[p.start : p.end], p.start, p.end, special=False) for p in tokenizer.pieces(text)
    ]


def decoded_tokens(tokenizer: Tokenizer, ids: Sequence[int]) -> list[TokenView]:
    """The tokens of a text that a model wrote: each stands where the text grows by decoding one more."""
    detokenizer, views, end = Detokenizer(tokenizer), list[TokenView](), 0
    grown = [detokenizer.feed([token]) for token in ids]
    if grown:
        grown[-1] += detokenizer.finish()
    for token, text in zip(ids, grown, strict=True):
        start, end = end, end + len(text)
        shown = text.lstrip()
        views.append(
            TokenView(token, tokenizer.piece(token), shown, start + len(text) - len(shown), end, special=False)
        )
    return views


def special_tokens(tokenizer: Tokenizer, ids: Sequence[int]) -> list[TokenView]:
    """Start, end and padding tokens, which stand for no text."""
    return [TokenView(i, tokenizer.piece(i), "", None, None, special=True) for i in ids]


def attention_map(part: m.Slice) -> AttentionMap:
    """float32 widened to float64 would print 17 digits; 8 decimals are below float32's own steps at 1."""
    weights = np.frombuffer(part.data, dtype="<f4").reshape(part.shape).astype(np.float64)
    return AttentionMap(tuple(part.layers), tuple(part.heads), np.round(weights, 8).tolist())


def attention_report(
    checkpoint: Checkpoint, job: AttentionJob, target: list[int], finished: bool, result: m.Attention
) -> AttentionReport:
    """target: ids without the start token; finished: whether the end token belongs behind them."""
    reader, writer = checkpoint.tokenizers["source"], checkpoint.tokenizers["target"]
    config = checkpoint.config
    written = decoded_tokens(writer, target) if job.target is None else text_tokens(writer, job.target)
    start = special_tokens(writer, config.target_prefix)
    end = special_tokens(writer, [config.eos] if finished and config.eos is not None else [])
    return AttentionReport(
        model=checkpoint.name,
        source_text=job.source,
        target_text=checkpoint.decode(target) if job.target is None else job.target,
        forced=job.target is not None,
        source_tokens=(
            *special_tokens(reader, checkpoint.source_prefix(reader.encode(job.source))),
            *text_tokens(reader, job.source),
            *special_tokens(reader, config.source_suffix),
        ),
        input_tokens=(*start, *(written if finished else written[:-1])),
        output_tokens=(*written, *end),
        maps={part.kind: attention_map(part) for part in result.slices},  # type: ignore[misc]
    )
