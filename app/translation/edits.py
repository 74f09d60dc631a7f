"""Edits of a translation that keep its text, token texts and word alignment consistent; removal of invented layout."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate

from app.engine.interface import AlignedWord, TranslationResult
from app.engine.output.text_stream import WrittenToken
from app.text.layout_characters import JOINERS, MODEL_LAYOUT, is_spelling_joiner, is_unspaced_script

_FULL_STOPS = (".", "。")


@dataclass(frozen=True, slots=True)
class Edit:
    """Replaces the span [start, end) of a text."""

    start: int
    end: int
    text: str


def with_edits(translation: TranslationResult, edits: Sequence[Edit]) -> TranslationResult:
    """Applies edits, in order and without overlaps, to the text, tokens and alignment; not to the alternatives."""
    if not edits:
        return translation
    offsets = _Offsets(edits)
    return replace(
        translation,
        text=_edited_text(translation.text, edits),
        tokens=None if translation.tokens is None else offsets.edited_tokens(translation.tokens),
        alignment=None if translation.alignment is None else tuple(map(offsets.moved, translation.alignment)),
    )


def _edited_text(text: str, edits: Sequence[Edit], start: int = 0) -> str:
    """Applies edits. start: the offset of `text` in the text that the edits refer to."""
    parts, at = [], 0
    for edit in edits:
        parts += [text[at : edit.start - start], edit.text]
        at = edit.end - start
    return "".join([*parts, text[at:]])


class _Offsets:
    """Maps words and tokens of the old text to the new one."""

    def __init__(self, edits: Sequence[Edit]) -> None:
        self._edits = edits
        self._starts, self._ends = [edit.start for edit in edits], [edit.end for edit in edits]
        self._growth = list(accumulate((len(edit.text) - (edit.end - edit.start) for edit in edits), initial=0))

    def moved(self, word: AlignedWord) -> AlignedWord:
        """A replacement within the word becomes part of it; an insertion beside it does not."""
        start, end = word.target_start, word.target_end
        before, until = bisect_right(self._ends, start), bisect_left(self._starts, end)
        first = min(start, self._starts[before]) if before < len(self._starts) else start
        last, within = end, until
        if until and self._ends[until - 1] > end:
            within -= 1
            last = self._starts[within] + len(self._edits[within].text)
        first, last = first + self._growth[before], last + self._growth[within]
        return replace(word, target_start=first, target_end=max(first, last))

    def edited_tokens(self, tokens: Sequence[WrittenToken]) -> tuple[WrittenToken, ...]:
        """An edit belongs to the token where it begins, or to the last with text; others lose replaced characters."""
        last = max((i for i, token in enumerate(tokens) if token.text), default=len(tokens) - 1)
        edited, start = [], 0
        for number, token in enumerate(tokens):
            end = start + len(token.text)
            own = []
            for edit in self._edits[bisect_left(self._ends, start) : bisect_right(self._starts, end)]:
                if start <= edit.start < end or (number == last and edit.start >= end):
                    own.append(Edit(edit.start, min(edit.end, end), edit.text))
                elif edit.start < start < edit.end:
                    own.append(Edit(start, min(edit.end, end), ""))
            edited.append(replace(token, text=_edited_text(token.text, own, start)) if own else token)
            start = end
        return tuple(edited)


def without_invented_layout(translation: TranslationResult, prefix: str) -> TranslationResult:
    """Removes invented layout: the model's input has single spaces only. The forced prefix keeps its layout."""
    edits = list(_layout_edits(translation.text, prefix))
    alternatives = tuple(map(partial(strip_invented_layout, prefix=prefix), translation.alternatives))
    if not edits and alternatives == translation.alternatives:
        return translation
    return with_edits(replace(translation, alternatives=alternatives), edits)


def without_added_stop(source: str, translation: TranslationResult) -> TranslationResult:
    """The translation of a part of a sentence without a full stop that the part does not have."""
    length = len(translation.text)
    if source[-1:] in _FULL_STOPS or length < 2 or translation.text[-1] not in _FULL_STOPS:
        return translation
    return with_edits(translation, [Edit(length - 1, length, "")])


def with_closing_colon(source: str, translation: TranslationResult) -> TranslationResult:
    """With the colon at the end of a label (Name:), if a model has left it out."""
    length, last = len(translation.text), translation.text[-1:]
    is_missing = source[-1:] in (":", "：") and last.isalnum()
    colon = "：" if is_missing and is_unspaced_script(last) else ":"
    return with_edits(translation, [Edit(length, length, colon)]) if is_missing else translation


def strip_invented_layout(text: str, prefix: str) -> str:
    return _edited_text(text, list(_layout_edits(text, prefix)))


class LayoutFilter:
    """Removes invented layout from streamed text, and holds back text that may still change."""

    def __init__(self, prefix: str) -> None:
        self._prefix, self._text, self._shown = prefix, "", 0

    def add(self, text: str) -> str:
        """Adds text; returns the text that is final now."""
        self._text += text
        end = len(self._text)
        while end > len(self._prefix) and MODEL_LAYOUT.fullmatch(self._text[end - 1]):
            end -= 1
        stable = strip_invented_layout(self._text[:end], self._prefix)
        shown, self._shown = stable[self._shown :], max(self._shown, len(stable))
        return shown


def _layout_edits(text: str, prefix: str) -> Iterator[Edit]:
    for match in MODEL_LAYOUT.finditer(text, len(prefix) if text.startswith(prefix) else 0):
        run, inner = match[0], match.start() > 0 and match.end() < len(text)
        if (run == " " and inner) or (run in JOINERS and is_spelling_joiner(text, match.start())):
            continue
        yield Edit(match.start(), match.end(), " " if inner and any(map(str.isspace, run)) else "")
