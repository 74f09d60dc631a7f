"""Tokens as people see them: where each stands in its text, its word, how it reads and how probable it was.

Also the two sides of a sentence that is inspected, with the special tokens that the network reads around the text.
"""

from __future__ import annotations

import math
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import zip_longest

import numpy as np
from msgspec import structs

from app.engine.interface import FloatArray, TokenExpectation, TokenView
from app.engine.output.output_processor import BYTE_PIECE, Detokenizer
from app.engine.protocol import messages as m
from models.checkpoint import Checkpoint
from models.inspection.results import AttentionFindings, Candidate, OutputStep, Walkthrough
from models.tokenizer import Tokenizer, is_language

# kana and Chinese characters, written without spaces
IDEOGRAPHS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
COMBINING = "\u0300"  # stands for all that is written onto a character
ZERO_WIDTH_SPACE = "\u200b"
LETTER = rf"[^\W_{IDEOGRAPHS}]{COMBINING}*"
WORD_PATTERN = re.compile(
    rf"[{IDEOGRAPHS}]{COMBINING}*|(?:{LETTER})+(?:['’\-](?:{LETTER})+)*|[^\s{COMBINING}]{COMBINING}*"
)


def word_spans(text: str) -> list[tuple[int, int]]:
    """First and last code point + 1 of each word: letters with what is written onto them (accents, vowel signs,
    joiners), one Chinese character or kana, or one of any other characters."""
    return [
        match.span()
        for match in WORD_PATTERN.finditer(text if text.isascii() else "".join(map(_character_class, text)))
    ]


def _character_class(character: str) -> str:
    if character == ZERO_WIDTH_SPACE:
        return " "
    category = unicodedata.category(character)
    written_onto = category == "Cf" or category[0] == "M" or "\U0001f3fb" <= character <= "\U0001f3ff"  # skin tones
    return COMBINING if written_onto else character


def with_word_numbers(tokens: Sequence[TokenView], text: str) -> tuple[TokenView, ...]:
    """The tokens with the number of the first word that they have a part of, from 0. One that has none (a space alone)
    belongs to none, as does the token that names the language to write (>>deu<<), which is no part of the sentence. A
    character that is cut into bytes stands with the last of them, and the others go with it."""
    spans = sentence_word_spans(tokens, text)
    ends = [end for _, end in spans]

    def word(token: TokenView) -> int | None:
        if token.special or token.start is None or token.end is None or token.start >= token.end:
            return None
        number = bisect_right(ends, token.start)
        return number if number < len(spans) and spans[number][0] < token.end else None

    found, behind = list[TokenView](), None
    for token in reversed(tokens):
        is_byte = BYTE_PIECE.fullmatch(token.piece) is not None
        if behind is not None and is_byte and token.start is not None and token.start == token.end == behind.start:
            found.append(replace(token, word=behind.word))
        else:
            found.append(replace(token, word=word(token)))
            behind = found[-1]
    return tuple(reversed(found))


def sentence_word_spans(tokens: Sequence[TokenView], text: str) -> list[tuple[int, int]]:
    """The words that the tokens' numbers count: the text's, without the token that names the language to write."""
    if tokens and is_language(tokens[0].piece) and tokens[0].end is not None:
        text = " " * tokens[0].end + text[tokens[0].end :]
    return word_spans(text)


def text_tokens(tokenizer: Tokenizer, text: str) -> tuple[TokenView, ...]:
    """The tokens of a text that was given."""
    pieces = tokenizer.pieces(text)
    views = [TokenView(p.id, p.piece, text[p.start : p.end], p.start, p.end, special=False) for p in pieces]
    return with_word_numbers(views, text)


def decoded_tokens(tokenizer: Tokenizer, ids: Sequence[int]) -> tuple[TokenView, ...]:
    """The tokens of a text that a model wrote: each stands where the text grows by decoding one more."""
    detokenizer, views, end = Detokenizer(tokenizer), list[TokenView](), 0
    grown = [detokenizer.feed([token]) for token in ids]
    if grown:
        grown[-1] += detokenizer.finish()
    for token, text in zip(ids, grown, strict=True):
        end += len(text)
        shown = text.lstrip()
        views.append(TokenView(token, tokenizer.piece(token), shown, end - len(shown), end, special=False))
    return with_word_numbers(views, "".join(grown))


def special_tokens(tokenizer: Tokenizer, ids: Sequence[int]) -> list[TokenView]:
    """Start, end and padding tokens, which stand for no text."""
    return [TokenView(i, tokenizer.piece(i), "", None, None, special=True) for i in ids]


def with_texts(checkpoint: Checkpoint, findings: AttentionFindings) -> AttentionFindings:
    """With the texts of tokens, which devices know by number alone."""
    writer, steps, without = checkpoint.tokenizers["target"], findings.steps, findings.ablation

    def read(step: OutputStep) -> OutputStep:
        names = [(writer.piece(each.id), text_alone(writer, each.id)) for each in step.top]
        top = [Candidate(each.id, each.logprob, *name) for each, name in zip(step.top, names, strict=True)]
        return structs.replace(step, top=top)

    if steps is not None:
        steps = [read(step) for step in steps]
    if without is not None:
        without = structs.replace(without, text_after=checkpoint.decode(without.tokens))
    return structs.replace(findings, steps=steps, ablation=without)


def walkthrough_with_texts(checkpoint: Checkpoint, walkthrough: Walkthrough) -> Walkthrough:
    """With the texts of the tokens that values are of."""
    writer = checkpoint.tokenizers["target"]
    steps = tuple(
        step
        if step.indices is None
        else structs.replace(step, texts=tuple(text_alone(writer, token) for token in step.indices))
        for step in walkthrough.steps
    )
    return structs.replace(walkthrough, steps=steps)


def text_alone(tokenizer: Tokenizer, token: int) -> str:
    """How a token reads on its own; special ones and parts of characters as the vocabulary writes them."""
    return tokenizer.decode([token]) or tokenizer.piece(token)


def float_array(part: m.FloatTensor) -> FloatArray:
    return np.frombuffer(part.data, dtype="<f4").reshape(part.shape)


def token_expectations(tokenizer: Tokenizer, expected: m.ExpectedTokens) -> tuple[TokenExpectation, ...]:
    """One for each place; where nothing came, it has no rank. Tokens that can never come are left out of the likeliest,
    and so are numbers that the vocabulary has no name for."""
    entropies, tops = (float_array(part).tolist() for part in (expected.entropies, expected.top_log_probabilities))
    came = zip_longest(float_array(expected.log_probabilities).tolist(), expected.ranks, entropies)

    @cache
    def candidate_text(token: int) -> tuple[str, str]:
        return tokenizer.piece(token), tokenizer.decode([token])

    def likeliest(tokens: list[int], nats: list[float]) -> tuple[Candidate, ...]:
        candidates = zip(tokens, nats, strict=True)
        return tuple(
            Candidate(token, logprob, *candidate_text(token))
            for token, logprob in candidates
            if logprob > -math.inf and token < tokenizer.size
        )

    return tuple(
        TokenExpectation(log_probability, rank, entropy, likeliest(tokens, nats))
        for (log_probability, rank, entropy), tokens, nats in zip(came, expected.tokens, tops, strict=True)
    )


@dataclass(frozen=True, slots=True)
class SourceSide:
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


def source_side(checkpoint: Checkpoint, text: str | None, ids: Sequence[int] | None) -> SourceSide:
    """Of a text, or of ids without what the checkpoint puts around them."""
    reader, config = checkpoint.tokenizers["source"], checkpoint.config
    if ids is None:
        assert text is not None
        ids, middle = reader.encode(text), text_tokens(reader, text)
    else:
        text, middle = reader.decode(ids), decoded_tokens(reader, ids)
    before = special_tokens(reader, checkpoint.source_prefix(ids))
    behind = special_tokens(reader, config.source_suffix)
    return SourceSide(text, (*before, *middle, *behind), len(before), len(behind))


@dataclass(frozen=True, slots=True)
class TargetSide:
    """What the decoder reads (inputs) and writes (outputs); finished: whether the end token was written last. The input
    of a finished target's last step predicts the end; an unfinished one's last token is not read."""

    text: str
    inputs: tuple[TokenView, ...]
    outputs: tuple[TokenView, ...]
    finished: bool


def target_side(checkpoint: Checkpoint, text: str | None, ids: Sequence[int], *, finished: bool) -> TargetSide:
    """text: the one that was given, or None for a text that a model wrote as `ids`, which has no special tokens."""
    writer, config = checkpoint.tokenizers["target"], checkpoint.config
    if text is None:
        text, written = checkpoint.decode(ids), decoded_tokens(writer, ids)
    else:
        written = text_tokens(writer, text)
    start = special_tokens(writer, config.target_prefix)
    end = special_tokens(writer, [config.eos] if finished and config.eos is not None else [])
    return TargetSide(text, (*start, *(written if end else written[:-1])), (*written, *end), bool(end))
