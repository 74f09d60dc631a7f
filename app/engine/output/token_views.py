"""Token views: each token's offsets, word, text and probability; the two sides of an inspected sentence pair."""

from __future__ import annotations

import math
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest

import numpy as np
from msgspec import structs

from app.engine.interface import FloatArray, Token, TokenExpectation
from app.engine.output.output_processor import BYTE_PIECE, Detokenizer
from app.engine.protocol import messages as m
from models.checkpoint import IDEOGRAPHS, Checkpoint
from models.inspection.results import AttentionFindings, Candidate, DecoderStep, Walkthrough
from models.tokenizer import Tokenizer, is_language

COMBINING = "\u0300"  # stands for every combining character
ZERO_WIDTH_SPACE = "\u200b"
LETTER = rf"[^\W_{IDEOGRAPHS}]{COMBINING}*"
WORD_PATTERN = re.compile(
    rf"[{IDEOGRAPHS}]{COMBINING}*|(?:{LETTER})+(?:['’\-](?:{LETTER})+)*|[^\s{COMBINING}]{COMBINING}*"
)


def word_spans(text: str) -> list[tuple[int, int]]:
    """(start, end) code points of words: letters with combining characters, one ideograph or kana, or any other one."""
    classes = text if text.isascii() else "".join(map(_character_class, text))
    return [match.span() for match in WORD_PATTERN.finditer(classes)]


def _character_class(character: str) -> str:
    if character == ZERO_WIDTH_SPACE:
        return " "
    category = unicodedata.category(character)
    written_onto = category == "Cf" or category[0] == "M" or "\U0001f3fb" <= character <= "\U0001f3ff"  # skin tones
    return COMBINING if written_onto else character


def with_word_numbers(tokens: Sequence[Token], text: str) -> tuple[Token, ...]:
    """Sets word numbers: the first word that a token overlaps, from 0; None for a lone space or a target-language token
    (>>deu<<). Byte tokens of a split character get the word of the character's last token."""
    spans = sentence_word_spans(tokens, text)
    ends = [end for _, end in spans]

    def word(token: Token) -> int | None:
        if token.special or token.start is None or token.end is None or token.start >= token.end:
            return None
        number = bisect_right(ends, token.start)
        return number if number < len(spans) and spans[number][0] < token.end else None

    found, behind = list[Token](), None
    for token in reversed(tokens):
        is_byte = BYTE_PIECE.fullmatch(token.piece) is not None
        if behind is not None and is_byte and token.start is not None and token.start == token.end == behind.start:
            found.append(structs.replace(token, word=behind.word))
        else:
            found.append(structs.replace(token, word=word(token)))
            behind = found[-1]
    return tuple(reversed(found))


def sentence_word_spans(tokens: Sequence[Token], text: str) -> list[tuple[int, int]]:
    """The word spans that word numbers index: the text without a leading target-language token."""
    if tokens and is_language(tokens[0].piece) and tokens[0].end is not None:
        text = " " * tokens[0].end + text[tokens[0].end :]
    return word_spans(text)


def text_tokens(tokenizer: Tokenizer, text: str) -> tuple[Token, ...]:
    pieces = tokenizer.pieces(text)
    views = [Token(p.id, p.piece, text[p.start : p.end], p.start, p.end, special=False) for p in pieces]
    return with_word_numbers(views, text)


def decoded_tokens(tokenizer: Tokenizer, ids: Sequence[int]) -> tuple[Token, ...]:
    """The tokens of a generated text, with the offsets at which incremental decoding adds them."""
    detokenizer, views, end = Detokenizer(tokenizer), list[Token](), 0
    grown = [detokenizer.feed([token]) for token in ids]
    if grown:
        grown[-1] += detokenizer.finish()
    for token, text in zip(ids, grown, strict=True):
        end += len(text)
        shown = text.lstrip()
        views.append(Token(token, tokenizer.piece(token), shown, end - len(shown), end, special=False))
    return with_word_numbers(views, "".join(grown))


def special_tokens(tokenizer: Tokenizer, ids: Sequence[int]) -> list[Token]:
    """Start, end and padding tokens, which have no text."""
    return [Token(i, tokenizer.piece(i), "", None, None, special=True) for i in ids]


def with_texts(checkpoint: Checkpoint, findings: AttentionFindings) -> AttentionFindings:
    """Adds token texts to a device's findings, which have ids only."""
    writer, steps, without = checkpoint.tokenizers["target"], findings.steps, findings.ablation

    def read(step: DecoderStep) -> DecoderStep:
        names = [(writer.piece(each.id), text_alone(writer, each.id)) for each in step.top]
        top = [Candidate(each.id, each.logprob, *name) for each, name in zip(step.top, names, strict=True)]
        return structs.replace(step, top=top)

    if steps is not None:
        steps = [read(step) for step in steps]
    if without is not None:
        without = structs.replace(without, text_after=checkpoint.decode(without.tokens))
    return structs.replace(findings, steps=steps, ablation=without)


def walkthrough_with_texts(checkpoint: Checkpoint, walkthrough: Walkthrough) -> Walkthrough:
    """Adds the texts of vocabulary tokens to a walkthrough's steps."""
    writer = checkpoint.tokenizers["target"]
    steps = tuple(
        step
        if step.indices is None
        else structs.replace(step, texts=tuple(text_alone(writer, token) for token in step.indices))
        for step in walkthrough.steps
    )
    return structs.replace(walkthrough, steps=steps)


def text_alone(tokenizer: Tokenizer, token: int) -> str:
    """A token's text by itself; special tokens and parts of characters as in the vocabulary."""
    return tokenizer.decode([token]) or tokenizer.piece(token)


def float_array(part: m.FloatTensor) -> FloatArray:
    return np.frombuffer(part.data, dtype="<f4").reshape(part.shape)


def token_expectations(tokenizer: Tokenizer, expected: m.ExpectedTokens) -> tuple[TokenExpectation, ...]:
    """The distribution at each position; without an actual token its rank is None. The top tokens exclude tokens of
    probability 0 and padding of the output layer beyond the vocabulary."""
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
    """An encoder input. text: offsets refer to it. starts, ends: number of special tokens before and after it."""

    text: str
    tokens: tuple[Token, ...]
    starts: int
    ends: int

    @property
    def ids(self) -> list[int]:
        return [token.id for token in self.tokens]

    @property
    def units(self) -> list[int | None]:
        return [token.word for token in self.tokens]


def source_side(checkpoint: Checkpoint, text: str | None, ids: Sequence[int] | None) -> SourceSide:
    """The source side of a text, or of ids without the checkpoint's prefix and suffix."""
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
    """Decoder inputs and outputs. finished: the last output is the end token; else the last output is not an input."""

    text: str
    inputs: tuple[Token, ...]
    outputs: tuple[Token, ...]
    finished: bool


def target_side(checkpoint: Checkpoint, text: str | None, ids: Sequence[int], *, finished: bool) -> TargetSide:
    """The target side of a forced text, or with text None of generated `ids` without special tokens."""
    writer, config = checkpoint.tokenizers["target"], checkpoint.config
    if text is None:
        text, written = checkpoint.decode(ids), decoded_tokens(writer, ids)
    else:
        written = text_tokens(writer, text)
    start = special_tokens(writer, config.target_prefix)
    end = special_tokens(writer, [config.eos] if finished and config.eos is not None else [])
    return TargetSide(text, (*start, *(written if end else written[:-1])), (*written, *end), bool(end))
