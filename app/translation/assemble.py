"""The translations of the sentences of a text, assembled into one translation of all of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from app.engine.interface import AlignedWord, FinishReason, TranslationResult, Usage
from app.engine.output.token_texts import WrittenToken
from app.translation.prepare import SegmentedText, target_spaces

_FINISH_REASONS: tuple[FinishReason, ...] = ("stop", "length", "repetition")


def assembled(layout: SegmentedText, parts: Sequence[TranslationResult], target_language: str) -> TranslationResult:
    """parts: one for each piece of the layout. Spans of the alignment count in the layout's text."""
    if not parts:
        return TranslationResult(layout.text, (), "stop", "")
    if layout.spans == ((0, len(layout.text)),):
        return parts[0]
    between = list(target_spaces(layout, target_language))
    alternatives, scores = _joined_alternatives(parts, between)
    return TranslationResult(
        _joined_text([part.text for part in parts], between),
        alternatives,
        max((part.finish_reason for part in parts), key=_FINISH_REASONS.index),
        parts[0].model,
        total_usage([part.usage for part in parts]),
        scores,
        _joined_tokens(parts, between),
        _joined_alignment(layout, parts, between),
    )


def _joined_text(texts: Iterable[str], between: Sequence[str]) -> str:
    return "".join([each for pair in zip(between, texts, strict=False) for each in pair] + [between[-1]])


def _joined_alternatives(
    parts: Sequence[TranslationResult], between: Sequence[str]
) -> tuple[tuple[str, ...], tuple[float, ...] | None]:
    """The i-th of each sentence, or its best where it has fewer; no text twice. Scores: the mean of the sentences'."""
    scored = all(part.scores for part in parts)
    found: dict[str, float] = {}
    for number in range(1 + max(len(part.alternatives) for part in parts)):
        chosen = [number if number <= len(part.alternatives) else 0 for part in parts]
        texts = [part.alternatives[i - 1] if i else part.text for i, part in zip(chosen, parts, strict=True)]
        scores = [part.scores[i] for i, part in zip(chosen, parts, strict=True) if part.scores]
        found.setdefault(_joined_text(texts, between), sum(scores) / len(parts))
    return tuple(found)[1:], tuple(found.values()) if scored else None


def _joined_tokens(parts: Sequence[TranslationResult], between: Sequence[str]) -> tuple[WrittenToken, ...] | None:
    """What stands before a sentence goes with its first token, what stands behind the last one with the last token."""
    if all(part.tokens is None for part in parts):
        return None
    tokens: list[WrittenToken] = []
    before = ""
    for space, part in zip(between, parts, strict=False):
        before += space
        for token in part.tokens or ():
            tokens.append(replace(token, text=before + token.text) if before else token)
            before = ""
        before += "" if part.tokens else part.text
    if tokens:
        tokens[-1] = replace(tokens[-1], text=tokens[-1].text + before + between[-1])
    return tuple(tokens)


def _joined_alignment(
    layout: SegmentedText, parts: Sequence[TranslationResult], between: Sequence[str]
) -> tuple[AlignedWord, ...] | None:
    if all(part.alignment is None for part in parts):
        return None
    words, target = [], 0
    for space, part, (source, _) in zip(between, parts, layout.spans, strict=False):
        target += len(space)
        words += [
            AlignedWord(
                word.target_start + target,
                word.target_end + target,
                word.source_start + source,
                word.source_end + source,
                word.weight,
            )
            for word in part.alignment or ()
        ]
        target += len(part.text)
    return tuple(words)


def total_usage(usages: Sequence[Usage]) -> Usage:
    """Tokens together; the first to begin, the last to end."""

    def least(times: Iterable[float | None]) -> float | None:
        return min((time for time in times if time is not None), default=None)

    return Usage(
        sum(usage.read_tokens for usage in usages),
        sum(usage.new_tokens for usage in usages),
        least(usage.queued_s for usage in usages),
        least(usage.first_token_s for usage in usages),
        max(usage.total_s for usage in usages),
    )
