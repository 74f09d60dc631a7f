"""Edits of a translation that keep its text, the texts of its tokens and its word alignment together; and the edits
that remove layout which a model invented.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from app.engine.interface import AlignedWord, TranslationResult
from app.engine.output.token_texts import WrittenToken
from app.text.layout_characters import JOINERS, MODEL_LAYOUT, is_spelling_joiner


@dataclass(frozen=True, slots=True)
class Edit:
    """`text` instead of what stands between the two places of the old text."""

    start: int
    end: int
    text: str

    @property
    def growth(self) -> int:
        return len(self.text) - (self.end - self.start)


def with_edits(translation: TranslationResult, edits: Sequence[Edit]) -> TranslationResult:
    """edits: in order, none within another. The alternatives stay as they are."""
    if not edits:
        return translation
    tokens, alignment = translation.tokens, translation.alignment
    moves = _Offsets(edits)
    return replace(
        translation,
        text=_edited_text(translation.text, edits),
        tokens=None if tokens is None else _edited_tokens(tokens, moves),
        alignment=None if alignment is None else tuple(map(moves.moved, alignment)),
    )


class _Offsets:
    """Where places of the old text are in the new one."""

    def __init__(self, edits: Sequence[Edit]) -> None:
        self.edits = edits
        self.starts, self.ends = [edit.start for edit in edits], [edit.end for edit in edits]
        self._growth = list(accumulate((edit.growth for edit in edits), initial=0))

    def moved(self, word: AlignedWord) -> AlignedWord:
        """What is put in beside a word is no part of it; what takes the place of a part of it is."""
        start, end = word.target_start, word.target_end
        before, until = bisect_right(self.ends, start), bisect_left(self.starts, end)
        first = min(start, self.starts[before]) if before < len(self.starts) else start
        last, within = end, until
        if until and self.ends[until - 1] > end:
            within -= 1
            last = self.starts[within] + len(self.edits[within].text)
        first, last = first + self._growth[before], last + self._growth[within]
        return replace(word, target_start=first, target_end=max(first, last))

    def between(self, start: int, end: int) -> Sequence[Edit]:
        """Those that touch this part of the old text."""
        return self.edits[bisect_left(self.ends, start) : bisect_right(self.starts, end)]


def _edited_text(text: str, edits: Sequence[Edit], start: int = 0) -> str:
    """start: where the text begins in the one that the edits are of."""
    parts, at = [], 0
    for edit in edits:
        parts += [text[at : edit.start - start], edit.text]
        at = edit.end - start
    return "".join([*parts, text[at:]])


def _edited_tokens(tokens: Sequence[WrittenToken], moves: _Offsets) -> tuple[WrittenToken, ...]:
    """A change belongs to the token that it begins in, or to the last that has a text; what it takes away of others,
    they lose."""
    last = max((i for i, token in enumerate(tokens) if token.text), default=len(tokens) - 1)
    found, start = [], 0
    for number, token in enumerate(tokens):
        end = start + len(token.text)
        own = []
        for edit in moves.between(start, end):
            begins = start <= edit.start < end or (number == last and edit.start >= end)
            if begins:
                own.append(Edit(edit.start, min(edit.end, end), edit.text))
            elif edit.start < start < edit.end:
                own.append(Edit(start, min(edit.end, end), ""))
        found.append(replace(token, text=_edited_text(token.text, own, start)) if own else token)
        start = end
    return tuple(found)


def without_invented_layout(translation: TranslationResult, prefix: str) -> TranslationResult:
    """prefix: what the translation was made to begin with, which stays as it is."""
    edits = list(_layout_edits(translation.text, prefix))
    others = tuple(strip_invented_layout(text, prefix) for text in translation.alternatives)
    if not edits and others == translation.alternatives:
        return translation
    return with_edits(replace(translation, alternatives=others), edits)


def strip_invented_layout(text: str, prefix: str) -> str:
    return with_edits(TranslationResult(text, (), "stop", ""), list(_layout_edits(text, prefix))).text


class LayoutFilter:
    """The same of a text that is still being written: what may yet change is held back."""

    def __init__(self, prefix: str) -> None:
        self._prefix, self._text, self._shown = prefix, "", 0

    def more(self, text: str) -> str:
        """What can be shown now."""
        self._text += text
        end = len(self._text)
        while end > len(self._prefix) and MODEL_LAYOUT.fullmatch(self._text[end - 1]):
            end -= 1
        sound = strip_invented_layout(self._text[:end], self._prefix)
        shown, self._shown = sound[self._shown :], max(self._shown, len(sound))
        return shown


def _layout_edits(text: str, prefix: str) -> Iterator[Edit]:
    start = len(prefix) if prefix and text.startswith(prefix) else 0
    for found in MODEL_LAYOUT.finditer(text, start):
        run = found[0]
        if run == " " and found.start() > 0 and found.end() < len(text):
            continue
        if run in JOINERS and is_spelling_joiner(text, found.start()):
            continue
        inner = found.start() > 0 and found.end() < len(text)
        yield Edit(found.start(), found.end(), " " if inner and any(map(str.isspace, run)) else "")
