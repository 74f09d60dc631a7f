"""The two sides of a sentence that is looked into: its tokens as a translator reads and writes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.engine import messages as m
from app.engine.insights import TokenView
from app.engine.views import decoded_tokens, special_tokens, text_tokens
from app.engine.words import with_words
from models.checkpoint import Checkpoint


@dataclass(frozen=True, slots=True)
class Side:
    """text: what offsets count in. ids: what the network reads, special tokens included. starts, ends: how many of
    these stand before and behind the text."""

    text: str
    tokens: tuple[TokenView, ...]
    starts: int
    ends: int

    @property
    def ids(self) -> list[int]:
        return [token.id for token in self.tokens]

    @property
    def units(self) -> list[int | None]:
        return [token.word for token in self.tokens]


def source_side(checkpoint: Checkpoint, text: str | None, ids: Sequence[int] | None) -> Side:
    """Of a text, or of ids without what the checkpoint puts around them."""
    reader, config = checkpoint.tokenizers["source"], checkpoint.config
    if ids is None:
        assert text is not None
        ids, middle = reader.encode(text), text_tokens(reader, text)
    else:
        middle = decoded_tokens(reader, ids)
        text = reader.decode(ids)
    before = special_tokens(reader, checkpoint.source_prefix(ids))
    behind = special_tokens(reader, config.source_suffix)
    return Side(text, (*before, *with_words(middle, text), *behind), len(before), len(behind))


@dataclass(frozen=True, slots=True)
class TargetSide:
    """What the decoder reads (inputs) and writes (outputs); finished: whether the end token was written last. The input
    of a finished target's last step predicts the end; an unfinished one's last token is not read."""

    text: str
    inputs: tuple[TokenView, ...]
    outputs: tuple[TokenView, ...]
    finished: bool


@dataclass(frozen=True, slots=True)
class Sides:
    """found: the model's own translation behind `prefix`, where the target was not given; beam and length_penalty: how
    it was looked for, or would have been."""

    source: Side
    target: TargetSide
    found: m.Hypothesis | None
    beam: int
    length_penalty: float
    prefix: tuple[int, ...] = ()


def target_side(checkpoint: Checkpoint, text: str | None, ids: Sequence[int], *, finished: bool) -> TargetSide:
    """text: the one that was given, or None for a text that a model wrote as `ids`, which has no special tokens."""
    writer, config = checkpoint.tokenizers["target"], checkpoint.config
    written: Sequence[TokenView] = decoded_tokens(writer, ids) if text is None else text_tokens(writer, text)
    text = checkpoint.decode(ids) if text is None else text
    written = with_words(written, text)
    start = special_tokens(writer, config.target_prefix)
    end = special_tokens(writer, [config.eos] if finished and config.eos is not None else [])
    return TargetSide(text, (*start, *(written if end else written[:-1])), (*written, *end), bool(end))
