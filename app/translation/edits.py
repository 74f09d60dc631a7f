"""Changes of a translation after it was found: its text, the texts of its tokens and its alignment stay together."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

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
    moves = _Moves(edits)
    return replace(
        translation,
        text=_text(translation.text, edits),
        tokens=None if tokens is None else _tokens(tokens, moves),
        alignment=None if alignment is None else tuple(map(moves.moved, alignment)),
    )


class _Moves:
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


def _text(text: str, edits: Sequence[Edit], start: int = 0) -> str:
    """start: where the text begins in the one that the edits are of."""
    parts, at = [], 0
    for edit in edits:
        parts += [text[at : edit.start - start], edit.text]
        at = edit.end - start
    return "".join([*parts, text[at:]])


def _tokens(tokens: Sequence[WrittenToken], moves: _Moves) -> tuple[WrittenToken, ...]:
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
        found.append(replace(token, text=_text(token.text, own, start)) if own else token)
        start = end
    return tuple(found)
