"""Joins the translations of a text's sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from app.engine.interface import AlignedWord, FinishReason, Notice, TranslationResult
from app.engine.output.output_processor import total_usage
from app.engine.output.text_stream import WrittenToken
from app.translation.segments import SegmentedText

MAX_NOTICES = 1000  # of one text: a long text in a language that a model does not know has one for each word
_FROM_BEST_TO_WORST: tuple[FinishReason, ...] = ("stop", "length", "repetition")


def assembled(text: SegmentedText, parts: Sequence[TranslationResult], target_language: str) -> TranslationResult:
    """Joins the translations of the pieces of `text`; alignment spans refer to whole texts."""
    if not parts:
        return TranslationResult(text.text)
    layout = text.layout(target_language)
    alternatives, scores = _joined_alternatives(parts, layout)
    return TranslationResult(
        _joined_text([part.text for part in parts], layout),
        alternatives,
        worst_finish_reason(part.finish_reason for part in parts),
        parts[0].model,
        total_usage([part.usage for part in parts]),
        scores,
        _joined_tokens(parts, layout),
        _joined_alignment(text, parts, layout),
        _joined_notices(text, parts),
    )


def worst_finish_reason(reasons: Iterable[FinishReason]) -> FinishReason:
    return max(reasons, key=_FROM_BEST_TO_WORST.index, default="stop")


def _joined_text(texts: Iterable[str], layout: Sequence[str]) -> str:
    return "".join([part for pair in zip(layout, texts, strict=False) for part in pair] + [layout[-1]])


def _joined_alternatives(
    parts: Sequence[TranslationResult], layout: Sequence[str]
) -> tuple[tuple[str, ...], tuple[float, ...] | None]:
    """Text i joins alternative i of every sentence, or the best if it has fewer; distinct. Scores: sentence means."""
    scored = all(part.scores for part in parts)
    score_of: dict[str, float] = {}
    for number in range(1 + max(len(part.alternatives) for part in parts)):
        chosen = [number if number <= len(part.alternatives) else 0 for part in parts]
        texts = [part.alternatives[i - 1] if i else part.text for i, part in zip(chosen, parts, strict=True)]
        scores = [part.scores[i] for i, part in zip(chosen, parts, strict=True) if part.scores]
        score_of.setdefault(_joined_text(texts, layout), sum(scores) / len(parts))
    return tuple(score_of)[1:], tuple(score_of.values()) if scored else None


def _joined_tokens(parts: Sequence[TranslationResult], layout: Sequence[str]) -> tuple[WrittenToken, ...] | None:
    """Layout before a sentence joins its first token, layout after the last sentence joins the last token."""
    if all(part.tokens is None for part in parts):
        return None
    tokens: list[WrittenToken] = []
    before = ""
    for space, part in zip(layout, parts, strict=False):
        before += space
        for token in part.tokens or ():
            tokens.append(replace(token, text=before + token.text) if before else token)
            before = ""
        before += "" if part.tokens else part.text
    if tokens:
        tokens[-1] = replace(tokens[-1], text=tokens[-1].text + before + layout[-1])
    return tuple(tokens)


def _joined_notices(text: SegmentedText, parts: Sequence[TranslationResult]) -> tuple[Notice, ...]:
    """The parts' notices in order, at most MAX_NOTICES, with places in the whole text."""
    if not any(part.notices for part in parts):  # the common case
        return ()
    notices = []
    for part, (source, _) in zip(parts, text.spans, strict=False):
        notices += [notice.moved(source) for notice in part.notices]
    return tuple(notices[:MAX_NOTICES])


def _joined_alignment(
    text: SegmentedText, parts: Sequence[TranslationResult], layout: Sequence[str]
) -> tuple[AlignedWord, ...] | None:
    if all(part.alignment is None for part in parts):
        return None
    words, target = [], 0
    for space, part, (source, _) in zip(layout, parts, text.spans, strict=False):
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
