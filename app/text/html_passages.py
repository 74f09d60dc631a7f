"""An HTML page as tokens, and the passages between its blocks: their text, and the inline elements in it.

The tokens are turbohtml's (the WHATWG tokenizer in C, with the place of each token): html.parser takes 100 s for
100,000 characters of "<a ", html5lib and selectolax keep no places, lxml normalizes what it reads.
Attributes (alt, title, placeholder, aria-label) are left as they are, as LibreTranslate and DeepL do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Literal

_ELEMENT_NAME = re.compile(r"\w+")
# A tag of these ends a text: what stands before and behind it is translated apart.
BLOCKS = frozenset(
    _ELEMENT_NAME.findall(
        "address article aside base blockquote body br caption center col colgroup dd details dialog dir div dl dt "
        "fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li "
        "link main menu meta nav noscript ol optgroup option p param pre search section select summary table tbody td "
        "template tfoot th thead title tr ul"
    )
)
VOID = frozenset(
    _ELEMENT_NAME.findall(
        "area base basefont bgsound br col embed frame hr img input keygen link meta param source track wbr"
    )
)
# Not for people to read, or not as running text: a sentence around them reads as if they were not there.
HIDDEN = frozenset(
    _ELEMENT_NAME.findall(
        "script style svg math textarea iframe noembed noframes xmp plaintext object audio video canvas applet"
    )
)
# Words of a machine within a sentence: they come back to the letter.
VERBATIM = frozenset({"code", "kbd", "samp", "var", "tt"})
# An end tag may be left out: the next of their kind ends them.
_ENDED_BY = {
    "li": frozenset({"li"}),
    "dt": frozenset({"dt", "dd"}),
    "dd": frozenset({"dt", "dd"}),
    "option": frozenset({"option", "optgroup"}),
    "tr": frozenset({"tr"}),
    "td": frozenset({"td", "th", "tr"}),
    "th": frozenset({"td", "th", "tr"}),
    "p": BLOCKS - {"br"},
}


def ends_element(started: str, element: str) -> bool:
    """Whether a start tag of `started` ends an open `element` whose end tag was left out."""
    return started in _ENDED_BY.get(element, ())


def is_marked_untranslatable(attributes: Iterable[tuple[str, str | None]]) -> bool:
    """translate="no", or the class "notranslate"."""
    for name, value in attributes:
        if name == "translate" and (value or "").strip().lower() == "no":
            return True
        if name == "class" and "notranslate" in (value or "").lower().split():
            return True
    return False


TokenKind = Literal["text", "reference", "start", "end", "comment", "doctype", "rest"]


@dataclass(frozen=True, slots=True)
class HtmlToken:
    """raw: as it stands in the page. text: what a text or a reference (`&amp;`) says. tag: of a start or end tag, in
    lower case. kept: the author wants the element left as it is. closed: written <tag/>."""

    kind: TokenKind
    raw: str
    text: str = ""
    tag: str = ""
    kept: bool = False
    closed: bool = False


def tokenize_page(source: str) -> list[HtmlToken]:
    """Linear in the length of `source`, whatever stands in it. A tag that the page ends within is its "rest"."""
    # Here and not at the top: it is needed once somebody translates a page.
    from turbohtml import TokenType, tokenize

    kinds: dict[TokenType, TokenKind] = {
        TokenType.TEXT: "text",
        TokenType.CHARACTER_REFERENCE: "reference",
        TokenType.START_TAG: "start",
        TokenType.END_TAG: "end",
        TokenType.DOCTYPE: "doctype",
    }
    read = source.replace("\r", " ")  # places count \r\n as one; to a tag it is a space as well
    lines = [0, *(index + 1 for index, character in enumerate(read) if character == "\n")]
    found = list(tokenize(read, resolve_references=False, capture_source=True))
    places = [lines[each.line - 1] + each.col for each in found]
    end = places[-1] + len(found[-1].source or found[-1].data or "") if found else 0
    cut = []
    for each, start, stop in zip(found, places, [*places[1:], end][: len(found)], strict=True):
        kind, raw = kinds.get(each.type, "comment"), source[start:stop]
        text = raw if kind == "text" else (each.data or "") if kind == "reference" else ""
        tag = each.tag or ""
        kept = kind == "start" and is_marked_untranslatable(each.attrs or ())
        cut.append(HtmlToken(kind, raw, text, tag, kept, each.self_closing))
    if end < len(source):
        cut.append(HtmlToken("rest", source[end:]))
    return cut


HTML_SPACES = " \t\n\r\f"  # what HTML calls whitespace: a no-break space is none
MAX_INLINE_DEPTH = 64  # inline elements within each other; a deeper one begins a passage of its own
_SHORT_WORDS = re.compile(r"[^\W\d_]+(?:[ '’-][^\W\d_]+){0,2}")

Part = Literal["element", "mark", "verbatim"]


@dataclass(slots=True, eq=False)
class InlineElement:
    """start, end: what it stands around, in code points of the passage's text. element: an opening and a closing tag,
    "" where the passage has only one of them. mark: an image, a comment, at one place. verbatim: written in place of
    the words that the text has for it. spaced: whitespace stands before and behind it. from_start, to_end: an element
    that other passages have their part of (<b>a<br>b</b>): nothing of this one may get before or behind it."""

    part: Part
    opening: str
    start: int
    end: int
    closing: str = ""
    within: list[InlineElement] = field(default_factory=list)
    spaced: tuple[bool, bool] = (False, False)
    from_start: bool = False
    to_end: bool = False


@dataclass(slots=True)
class Passage:
    """text: as the model is to read it, whitespace as a browser shows it unless it stands in a <pre>. before, behind:
    the whitespace around it, as it was."""

    text: str
    inline: list[InlineElement]
    before: str = ""
    behind: str = ""
    bare_greater_than: bool = False  # ">" stands in it without being written &gt;
    no_break_reference: bool = False  # &nbsp; is how its no-break spaces are written


class PassageBuilder:
    """A passage while its tokens come in."""

    def __init__(self, *, preformatted: bool = False) -> None:
        self.raw: list[str] = []  # all of it, for a passage without a word
        self._preformatted = preformatted
        self._pieces: list[str] = []
        self._length = 0
        self._before: list[str] = []
        self._space: list[str] = []  # whitespace that the next word will follow
        self._top: list[InlineElement] = []
        self._open: list[tuple[str, InlineElement]] = []
        self._closers = 0  # closing tags of elements that began before this passage
        self._said = False
        self._greater = self._reference = False
        self._numbers = count(1)

    @property
    def depth(self) -> int:
        return max(len(self._open), self._closers)

    def add_text(self, token: HtmlToken) -> None:
        self.raw.append(token.raw)
        self._said = self._said or bool(token.text.strip())
        if token.kind == "reference" and token.text and token.text in HTML_SPACES and not self._preformatted:
            self._space.append(token.raw)
            return None
        if token.kind == "reference":
            self._reference = self._reference or "\xa0" in token.text
            return self._write(token.text)
        self._greater = self._greater or ">" in token.text
        if self._preformatted:
            return self._write(token.text)
        for piece in re.split(f"([{HTML_SPACES}]+)", token.text):
            if piece and piece[0] in HTML_SPACES:
                self._space.append(piece)
            elif piece:
                self._write(piece)
        return None

    def open(self, token: HtmlToken) -> None:
        self.raw.append(token.raw)
        made = InlineElement("element", token.raw, *self._here())
        self._put(made)
        self._open.append((token.tag, made))

    def close(self, token: HtmlToken) -> None:
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
            return self._put(InlineElement("mark", token.raw, here, here))
        self._closers += 1
        self._top = [InlineElement("element", "", 0, here, token.raw, self._top, from_start=True)]
        return None

    def add_mark(self, raw: str) -> None:
        self.raw.append(raw)
        self._put(InlineElement("mark", raw, *self._here()))

    def add_verbatim(self, raw: str, says: str) -> None:
        """says: what stands in the element. Words are read as such; of anything else the text has a stand-in."""
        self.raw.append(raw)
        shown = " ".join(says.split())
        if not shown:
            return self._put(InlineElement("mark", raw, *self._here()))
        if not _SHORT_WORDS.fullmatch(shown) or len(shown) > 60:
            shown = f"{{{next(self._numbers)}}}"
        self._flush()
        start = self._length
        self._write(shown)
        return self._put(InlineElement("verbatim", raw, start, self._length))

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
        elif not self._length or self._pieces[-1][-1] in HTML_SPACES:
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

    def _siblings(self) -> list[InlineElement]:
        return self._open[-1][1].within if self._open else self._top

    def _put(self, made: InlineElement) -> None:
        self._siblings().append(made)


def _note_spaces(text: str, inline: list[InlineElement]) -> None:
    waiting = list(inline)
    while waiting:
        each = waiting.pop()
        each.spaced = text[each.start - 1 : each.start].isspace(), text[each.end : each.end + 1].isspace()
        waiting += each.within
