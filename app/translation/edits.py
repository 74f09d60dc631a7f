"""Changes of a translation after it was found: its text, the texts of its tokens and its alignment stay together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.engine.jobs import AlignedWord, Translation
from app.engine.token_texts import WrittenToken


@dataclass(frozen=True, slots=True)
class Edit:
    """`text` instead of what stands between the two places of the old text."""

    start: int
    end: int
    text: str

    @property
    def growth(self) -> int:
        return len(self.text) - (self.end - self.start)


def edited(translation: Translation, edits: Sequence[Edit]) -> Translation:
    """edits: in order, none within another. The alternatives stay as they are."""
    if not edits:
        return translation
    tokens, alignment = translation.tokens, translation.alignment
    return replace(
        translation,
        text=_text(translation.text, edits),
        tokens=None if tokens is None else _tokens(tokens, edits),
        alignment=None if alignment is None else tuple(_moved(word, edits) for word in alignment),
    )


def _text(text: str, edits: Sequence[Edit], start: int = 0) -> str:
    """start: where the text begins in the one that the edits are of."""
    parts, at = [], 0
    for edit in edits:
        parts += [text[at : edit.start - start], edit.text]
        at = edit.end - start
    return "".join([*parts, text[at:]])


def _tokens(tokens: Sequence[WrittenToken], edits: Sequence[Edit]) -> tuple[WrittenToken, ...]:
    """A change belongs to the token that it begins in, or to the last that has a text; what it takes away of others,
    they lose."""
    last = max((i for i, token in enumerate(tokens) if token.text), default=len(tokens) - 1)
    found, start = [], 0
    for number, token in enumerate(tokens):
        end = start + len(token.text)
        own = []
        for edit in edits:
            begins = start <= edit.start < end or (number == last and edit.start >= end)
            if begins:
                own.append(Edit(edit.start, min(edit.end, end), edit.text))
            elif edit.start < start < edit.end:
                own.append(Edit(start, min(edit.end, end), ""))
        found.append(replace(token, text=_text(token.text, own, start)))
        start = end
    return tuple(found)


def _moved(word: AlignedWord, edits: Sequence[Edit]) -> AlignedWord:
    """What is put in beside a word is no part of it; what takes the place of a part of it is."""
    start, end = word.target_start, word.target_end
    before = sum(edit.growth for edit in edits if edit.end <= start)
    within = sum(edit.growth for edit in edits if edit.start < end and edit.end <= end)
    first = next((edit.start for edit in edits if edit.start < start < edit.end), start) + before
    last = next((edit.start + len(edit.text) for edit in edits if edit.start < end < edit.end), end) + within
    return replace(word, target_start=first, target_end=max(first, last))
