"""A text between two blocks, and the inline tags in it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import count
from typing import Literal

from app.text.markup.tokens import Token

SPACES = " \t\n\r\f"  # what HTML calls whitespace: a no-break space is none
DEEPEST = 64  # inline elements within each other; a deeper one begins a passage of its own
_WORDS = re.compile(r"[^\W\d_]+(?:[ '’-][^\W\d_]+){0,2}")

Part = Literal["element", "mark", "verbatim"]


@dataclass(slots=True, eq=False)
class Inline:
    """start, end: what it stands around, in code points of the passage's text. element: an opening and a closing tag,
    "" where the passage has only one of them. mark: an image, a comment, at one place. verbatim: written in place of
    the words that the text has for it. spaced: whitespace stands before and behind it. from_start, to_end: an element
    that other passages have their part of (<b>a<br>b</b>): nothing of this one may get before or behind it."""

    part: Part
    opening: str
    start: int
    end: int
    closing: str = ""
    within: list[Inline] = field(default_factory=list)
    spaced: tuple[bool, bool] = (False, False)
    from_start: bool = False
    to_end: bool = False


@dataclass(slots=True)
class Passage:
    """text: as the model is to read it, whitespace as a browser shows it unless it stands in a <pre>. before, behind:
    the whitespace around it, as it was."""

    text: str
    inline: list[Inline]
    before: str = ""
    behind: str = ""
    bare_greater_than: bool = False  # ">" stands in it without being written &gt;
    no_break_reference: bool = False  # &nbsp; is how its no-break spaces are written


class Draft:
    """A passage while its tokens come in."""

    def __init__(self, *, preformatted: bool = False) -> None:
        self.raw: list[str] = []  # all of it, for a passage without a word
        self._preformatted = preformatted
        self._pieces: list[str] = []
        self._length = 0
        self._before: list[str] = []
        self._space: list[str] = []  # whitespace that the next word will follow
        self._top: list[Inline] = []
        self._open: list[tuple[str, Inline]] = []
        self._closers = 0  # closing tags of elements that began before this passage
        self._said = False
        self._greater = self._reference = False
        self._numbers = count(1)

    @property
    def depth(self) -> int:
        return max(len(self._open), self._closers)

    def add_text(self, token: Token) -> None:
        self.raw.append(token.raw)
        self._said = self._said or bool(token.text.strip())
        if token.kind == "reference" and token.text and token.text in SPACES and not self._preformatted:
            self._space.append(token.raw)
            return None
        if token.kind == "reference":
            self._reference = self._reference or "\xa0" in token.text
            return self._write(token.text)
        self._greater = self._greater or ">" in token.text
        if self._preformatted:
            return self._write(token.text)
        for piece in re.split(f"([{SPACES}]+)", token.text):
            if piece and piece[0] in SPACES:
                self._space.append(piece)
            elif piece:
                self._write(piece)
        return None

    def open(self, token: Token) -> None:
        self.raw.append(token.raw)
        made = Inline("element", token.raw, *self._here())
        self._put(made)
        self._open.append((token.tag, made))

    def close(self, token: Token) -> None:
        """What was opened after it and not closed stays open only to the eye: its closing tag is still to come."""
        self.raw.append(token.raw)
        place = next((i for i in range(len(self._open) - 1, -1, -1) if self._open[i][0] == token.tag), None)
        _, here = self._here()
        if place is not None:
            for _, each in self._open[place:]:
                each.end = here
            self._open[place][1].closing = token.raw
            del self._open[place:]
            return None
        if self._open:  # the page closes what it never opened, or what another tag closed
            return self._put(Inline("mark", token.raw, here, here))
        self._closers += 1
        self._top = [Inline("element", "", 0, here, token.raw, self._top, from_start=True)]
        return None

    def add_mark(self, raw: str) -> None:
        self.raw.append(raw)
        self._put(Inline("mark", raw, *self._here()))

    def add_verbatim(self, raw: str, says: str) -> None:
        """says: what stands in the element. Words are read as such; of anything else the text has a stand-in."""
        self.raw.append(raw)
        shown = " ".join(says.split())
        if not shown:
            return self._put(Inline("mark", raw, *self._here()))
        if not _WORDS.fullmatch(shown) or len(shown) > 60:
            shown = f"{{{next(self._numbers)}}}"
        self._flush()
        start = self._length
        self._write(shown)
        return self._put(Inline("verbatim", raw, start, self._length))

    def ended(self) -> Passage | None:
        """None: nothing in it is to be translated."""
        if not self._said:
            return None
        for _, each in self._open:
            each.end, each.to_end = self._length, True
        text = "".join(self._pieces)
        _note_spaces(text, self._top)
        behind = "".join(self._space)
        return Passage(text, self._top, "".join(self._before), behind, self._greater, self._reference)

    def _here(self) -> tuple[int, int]:
        """A tag after whitespace stands behind it."""
        self._flush()
        return self._length, self._length

    def _flush(self) -> None:
        if not self._space:
            return
        if not self._length and not self._top:
            self._before += self._space
        elif not self._length or self._pieces[-1][-1] in SPACES:
            self._keep_aside()
        else:
            self._pieces.append(" ")
            self._length += 1
        self._space = []

    def _keep_aside(self) -> None:
        """Whitespace after whitespace that a tag parts from it: it stays with the tag."""
        siblings, space = self._siblings(), "".join(self._space)
        if siblings and siblings[-1].part == "element":
            siblings[-1].closing += space
        else:
            (siblings[-1] if siblings else self._open[-1][1]).opening += space

    def _write(self, text: str) -> None:
        self._flush()
        if text:
            self._pieces.append(text)
            self._length += len(text)

    def _siblings(self) -> list[Inline]:
        return self._open[-1][1].within if self._open else self._top

    def _put(self, made: Inline) -> None:
        self._siblings().append(made)


def _note_spaces(text: str, inline: list[Inline]) -> None:
    waiting = list(inline)
    while waiting:
        each = waiting.pop()
        each.spaced = text[each.start - 1 : each.start].isspace(), text[each.end : each.end + 1].isspace()
        waiting += each.within
