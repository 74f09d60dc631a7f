"""ICU messages with branches ({n, plural, one {# cat} other {# cats}}; select and selectordinal alike, also nested):
the branches are translated, each as a text of its own, and the frame around them is kept."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from app.engine.interface import AlignedWord, Notice, TranslationResult
from app.engine.output.output_processor import total_usage
from app.translation.assemble import worst_finish_reason
from app.translation.edits import Edit, with_edits

_BEGINS = re.compile(
    r"\{\s*[\w.\-]+\s*,\s*(?:plural|select|selectordinal)\s*,\s*(?:offset:\s*\d+\s*)?(?=[^\s{}]+\s*\{)"
)
_SELECTOR = re.compile(r"\s*(?:=\d+|[\w-]+)\s*\{")
_MOST_NESTED = 8
_NUMBER = "{#}"


@dataclass(frozen=True, slots=True)
class Message:
    """branches: the spans of their texts."""

    start: int
    end: int
    branches: tuple[tuple[int, int], ...]


def messages_in(text: str) -> list[Message]:
    """The outermost messages of a text, in order. What only begins like one is none."""
    found: list[Message] = []
    for begins in _BEGINS.finditer(text) if "{" in text and "," in text else ():
        if not found or begins.start() >= found[-1].end:
            message = _message(text, begins)
            found += [message] if message else []
    return found


def _message(text: str, begins: re.Match[str]) -> Message | None:
    branches: list[tuple[int, int]] = []
    at = begins.end()
    while selector := _SELECTOR.match(text, at):
        end = _closing_brace(text, selector.end())
        if end < 0:
            return None
        branches.append((selector.end(), end))
        at = end + 1
    closing = re.compile(r"\s*\}").match(text, at)
    return Message(begins.start(), closing.end(), tuple(branches)) if closing and branches else None


def _closing_brace(text: str, at: int) -> int:
    """The place of the brace that closes the one before `at`, -1 without one. Braces within '{…}' are text."""
    depth = 0
    for found in re.compile(r"'[{}][^']*'|[{}]").finditer(text, at):
        if found[0] == "{":
            depth += 1
            if depth > _MOST_NESTED:
                return -1
        elif found[0] == "}":
            if depth == 0:
                return found.start()
            depth -= 1
    return -1


@dataclass(frozen=True, slots=True)
class Framed:
    """A text with messages. text: with a placeholder for each. branches: the texts of all branches, in order."""

    source: str
    messages: tuple[Message, ...]
    text: str
    placeholders: tuple[str, ...]

    @classmethod
    def of(cls, source: str) -> Framed | None:
        """None of a text without messages."""
        messages = messages_in(source)
        if not messages:
            return None
        free = (f"{{{number}}}" for number in range(1, len(source) + len(messages) + 1))
        names = tuple(name for name, _ in zip((name for name in free if name not in source), messages, strict=False))
        parts, at = list[str](), 0
        for message, name in zip(messages, names, strict=True):
            parts += [source[at : message.start], name]
            at = message.end
        return cls(source, tuple(messages), "".join((*parts, source[at:])), names)

    @property
    def branches(self) -> list[str]:
        """With a placeholder for the number (#), which begins a heading in other texts."""
        texts = (self.source[start:end] for message in self.messages for start, end in message.branches)
        return [text.replace("#", self._number) for text in texts]

    @property
    def _number(self) -> str:
        return "#" if _NUMBER in self.source else _NUMBER

    def filled(self, outer: TranslationResult, branches: Sequence[TranslationResult]) -> TranslationResult:
        """The translation of `text` with the messages in their places, and the translations of their branches."""
        remaining = iter(branches)
        edits = []
        for message, name in zip(self.messages, self.placeholders, strict=True):
            written, at = list[str](), message.start
            for start, end in message.branches:
                written += [self.source[at:start], next(remaining).text.replace(self._number, "#")]
                at = end
            place = outer.text.index(name)
            edits.append(Edit(place, place + len(name), "".join((*written, self.source[at : message.end]))))
        result = with_edits(outer, sorted(edits, key=lambda edit: edit.start))
        notices = (*self._moved_notices(outer.notices), *(n for b in branches for n in b.notices if n.start is None))
        alignment = None if result.alignment is None else tuple(self._moved_words(result.alignment))
        return replace(
            result,
            alternatives=(),
            scores=result.scores and result.scores[:1],
            model=next((each.model for each in (result, *branches) if each.model), ""),
            finish_reason=worst_finish_reason(each.finish_reason for each in (result, *branches)),
            usage=total_usage([result.usage, *(branch.usage for branch in branches)]),
            alignment=alignment,
            notices=notices,
        )

    def _in_source(self, at: int) -> int:
        """The place in `source` of a place in `text`."""
        moved = at
        for message, name in zip(self.messages, self.placeholders, strict=True):
            if message.start < moved:
                moved += (message.end - message.start) - len(name)
        return moved

    def _moved_words(self, words: Sequence[AlignedWord]) -> Iterator[AlignedWord]:
        for word in words:
            start, end = self._in_source(word.source_start), self._in_source(word.source_end)
            yield AlignedWord(word.target_start, word.target_end, start, end, word.weight)

    def _moved_notices(self, notices: Sequence[Notice]) -> Iterator[Notice]:
        for notice in notices:
            if notice.start is None or notice.end is None:
                yield notice
            else:
                start, end = self._in_source(notice.start), self._in_source(notice.end)
                yield Notice(notice.code, notice.message, start, end, notice.models)
