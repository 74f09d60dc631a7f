"""Verbatim parts and passages in turn; the page written again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.text.markup.elements import BLOCKS, HIDDEN, VERBATIM, VOID, ends
from app.text.markup.passage import DEEPEST, Draft, Passage
from app.text.markup.tokens import Token, tokens
from app.text.markup.words import Word
from app.text.markup.writing import written


@dataclass(frozen=True, slots=True)
class Page:
    """parts: joined in order they are the page."""

    parts: tuple[str | Passage, ...]

    @property
    def texts(self) -> list[str]:
        """What is to be translated, in order."""
        return [part.text for part in self.parts if isinstance(part, Passage)]

    def pieces(self, translations: Sequence[tuple[str, Sequence[Word] | None]]) -> list[str]:
        """The page again, part by part; translations: one for each of `texts`, with the words' alignment."""
        left = iter(translations)
        return [part if isinstance(part, str) else written(part, *next(left)) for part in self.parts]


def read_page(source: str) -> Page:
    """A page or a fragment of one; nothing that stands in it is an error."""
    return _Reader(tokens(source)).page()


class _Reader:
    def __init__(self, cut: Sequence[Token]) -> None:
        self._tokens = cut
        self._parts: list[str | Passage] = []
        self._preformatted = 0
        self._draft = Draft()

    def page(self) -> Page:
        index = 0
        while index < len(self._tokens):
            index = self._take(index)
        self._end()
        return Page(tuple(self._parts))

    def _take(self, index: int) -> int:
        """Returns the index of the next token to take."""
        token = self._tokens[index]
        if token.kind in ("text", "reference"):
            self._draft.add_text(token)
        elif token.kind == "start":
            return self._start(index)
        elif token.kind == "end" and token.tag not in BLOCKS:
            if self._draft.depth >= DEEPEST:
                self._end()
            self._draft.close(token)
        elif token.kind == "comment":
            self._draft.add_mark(token.raw)
        else:
            self._separate(token)
        return index + 1

    def _start(self, index: int) -> int:
        token = self._tokens[index]
        block = token.tag in BLOCKS
        if (token.kept or token.tag in HIDDEN or token.tag in VERBATIM) and token.tag not in VOID:
            return self._left_alone(index, block)
        if block:
            self._separate(token)
        elif token.tag in VOID:
            self._draft.add_mark(token.raw)
        else:
            if self._draft.depth >= DEEPEST:
                self._end()
            self._draft.open(token)
        return index + 1

    def _left_alone(self, index: int, block: bool) -> int:
        token = self._tokens[index]
        behind = _end_of(self._tokens, index)
        inside = self._tokens[index:behind]
        raw = "".join(each.raw for each in inside)
        if block:
            self._end()
            self._parts.append(raw)
        elif token.tag in HIDDEN:
            self._draft.add_mark(raw)
        else:
            self._draft.add_verbatim(raw, "".join(each.text for each in inside))
        return behind

    def _separate(self, token: Token) -> None:
        if token.tag == "pre":
            self._preformatted = max(0, self._preformatted + (1 if token.kind == "start" else -1))
        self._end()
        self._parts.append(token.raw)

    def _end(self) -> None:
        passage = self._draft.ended()
        if passage is not None:
            self._parts.append(passage)
        elif self._draft.raw:
            self._parts.append("".join(self._draft.raw))
        self._draft = Draft(preformatted=self._preformatted > 0)


def _end_of(cut: Sequence[Token], index: int) -> int:
    """Behind the element that begins at `index`: its end tag, or where the block around it ends without one."""
    element, blocks, same = cut[index].tag, 0, 0
    foreign = element in ("svg", "math")
    if foreign and cut[index].closed:
        return index + 1
    for behind in range(index + 1, len(cut)):
        token = cut[behind]
        if token.kind not in ("start", "end") or token.tag in VOID:
            continue
        if token.tag == element:
            if token.kind == "start" and not same and not blocks and ends(token.tag, element):
                return behind
            same += 0 if foreign and token.closed else 1 if token.kind == "start" else -1
            if same < 0:
                return behind + 1
        elif token.tag in BLOCKS and not foreign:
            if token.kind == "start" and not blocks and not same and ends(token.tag, element):
                return behind
            blocks += 1 if token.kind == "start" else -1
            if blocks < 0:
                return behind
    return len(cut)
