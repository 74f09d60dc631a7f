"""Tokenizes an HTML page, and builds the passages between its blocks: their text and inline elements. The tokenizer is
turbohtml (WHATWG, in C, with token positions). html.parser takes 100 s for 100,000 characters of unclosed tags,
html5lib and selectolax report no positions, lxml normalizes its input. Attributes (alt, title, placeholder, aria-label)
are not translated, as in LibreTranslate and DeepL."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import count
from typing import Literal

# Elements by their role in a sentence; unlisted elements are inline, as in browsers. A block's tag ends a passage.
_NAME = re.compile(r"\w+")
BLOCKS = frozenset(
    _NAME.findall(
        "address article aside base blockquote body br button caption center col colgroup dd details dialog dir div dl "
        "dt fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html label "
        "legend li link main menu meta nav noscript ol optgroup option p param pre search section select summary table "
        "tbody td template tfoot th thead title tr ul"
    )
)
VOID = frozenset(
    _NAME.findall("area base basefont bgsound br col embed frame hr img input keygen link meta param source track wbr")
)
# Not displayed, or not as running text: the sentence around them is translated without them.
HIDDEN = frozenset(
    _NAME.findall(
        "script style svg math textarea iframe noembed noframes xmp plaintext object audio video canvas applet"
    )
)
# Code within a sentence, restored exactly.
VERBATIM = frozenset({"code", "kbd", "samp", "var", "tt"})
# Elements with an optional end tag, and the start tags that end them.
ENDED_BY = {
    "li": frozenset({"li"}),
    "dt": frozenset({"dt", "dd"}),
    "dd": frozenset({"dt", "dd"}),
    "option": frozenset({"option", "optgroup"}),
    "tr": frozenset({"tr"}),
    "td": frozenset({"td", "th", "tr"}),
    "th": frozenset({"td", "th", "tr"}),
    "p": BLOCKS - {"br"},
}
HTML_SPACES = " \t\n\r\f"  # excludes the no-break space
_HTML_SPACE = re.compile(f"([{HTML_SPACES}]+)")
MAX_INLINE_DEPTH = 64  # nested inline elements; a deeper one begins a new passage
# A passage longer than any paragraph ends here, so that placing its elements takes a bounded time.
MAX_PASSAGE_CHARACTERS = 20_000
_MAX_PASSAGE_ELEMENTS = 1000
_SHORT_WORDS = re.compile(r"[^\W\d_]+(?:[ '’-][^\W\d_]+){0,2}")

TokenKind = Literal["text", "reference", "start", "end", "comment", "doctype", "rest"]
Part = Literal["element", "mark", "verbatim"]


@dataclass(frozen=True, slots=True)
class HtmlToken:
    """raw: its source. text: the characters of a text or reference (`&amp;`). tag: lower-case name of a start or end
    tag. untranslatable: by attributes of the start tag. closed: written <tag/>."""

    kind: TokenKind
    raw: str
    text: str = ""
    tag: str = ""
    untranslatable: bool = False
    closed: bool = False


def tokenize_page(source: str) -> list[HtmlToken]:
    """Tokens, in linear time; their `raw` parts join to `source`. A tag cut off at the end is its "rest"."""
    # Imported here: few servers translate a page.
    from turbohtml import TokenType, tokenize

    kinds: dict[TokenType, TokenKind] = {
        TokenType.TEXT: "text",
        TokenType.CHARACTER_REFERENCE: "reference",
        TokenType.START_TAG: "start",
        TokenType.END_TAG: "end",
        TokenType.DOCTYPE: "doctype",
    }
    read = source.replace("\r", " ")  # turbohtml counts \r\n as one position; inside a tag it is a space as well
    lines = [0, *(match.end() for match in re.finditer("\n", read))]
    parsed = list(tokenize(read, resolve_references=False, capture_source=True))
    places = [lines[token.line - 1] + token.col for token in parsed]
    end = places[-1] + len(parsed[-1].source or parsed[-1].data or "") if parsed else 0
    tokens = []
    if places and places[0]:  # "</>" is no token; within the page the token before it has it
        tokens.append(HtmlToken("comment", source[: places[0]]))
    for token, start, stop in zip(parsed, places, [*places[1:], end][: len(parsed)], strict=True):
        kind, raw = kinds.get(token.type, "comment"), source[start:stop]
        text = raw if kind == "text" else (token.data or "") if kind == "reference" else ""
        untranslatable = kind == "start" and any(
            (name == "translate" and (value or "").strip().lower() == "no")
            or (name == "class" and "notranslate" in (value or "").lower().split())
            for name, value in token.attrs or ()
        )
        tokens.append(HtmlToken(kind, raw, text, token.tag or "", untranslatable, token.self_closing))
    if end < len(source):
        tokens.append(HtmlToken("rest", source[end:]))
    return tokens


@dataclass(slots=True, eq=False)
class InlineElement:
    """start, end: the enclosed span, in code points of the passage's text. from_start, to_end: the element continues in
    other passages (<b>a<br>b</b>), so nothing of this passage may move before or behind it.
    - "element": an opening and a closing tag, "" for one outside the passage.
    - "mark": an image or a comment, at one position.
    - "verbatim": code and the like, written in place of the words that represent it in the text."""

    part: Part
    opening: str
    start: int
    end: int
    closing: str = ""
    within: list[InlineElement] = field(default_factory=list)
    from_start: bool = False
    to_end: bool = False

    def spaced(self, text: str) -> tuple[bool, bool]:
        """Whether whitespace precedes and follows it in the passage's text."""
        return text[self.start - 1 : self.start].isspace(), text[self.end : self.end + 1].isspace()


@dataclass(slots=True)
class Passage:
    """A text between block tags. text: its whitespace is collapsed except in a <pre>. before, behind: the whitespace
    around the text in the page."""

    text: str
    inline: list[InlineElement]
    before: str = ""
    behind: str = ""
    bare_greater_than: bool = False  # it contains an unescaped ">"
    no_break_reference: bool = False  # it writes no-break spaces as &nbsp;


class PassageBuilder:
    def __init__(self, *, preformatted: bool = False) -> None:
        self.raw: list[str] = []  # the whole source, for a passage without words
        self._preformatted = preformatted
        self._pieces: list[str] = []
        self._length = 0
        self._before: list[str] = []
        self._space: list[str] = []  # whitespace, written when a word or a tag follows
        self._top: list[InlineElement] = []
        self._open: list[tuple[str, InlineElement]] = []
        self._closers = 0  # closing tags of elements opened before this passage
        self._has_text = False
        self._bare_greater_than = self._no_break_reference = False
        self._numbers = count(1)
        self._elements = 0

    @property
    def depth(self) -> int:
        return max(len(self._open), self._closers)

    @property
    def full(self) -> bool:
        return self._elements >= _MAX_PASSAGE_ELEMENTS or self._length > MAX_PASSAGE_CHARACTERS

    def add_text(self, token: HtmlToken) -> None:
        self.raw.append(token.raw)
        reference = token.kind == "reference"
        self._has_text |= bool(token.text.strip())
        self._no_break_reference |= reference and "\xa0" in token.text
        self._bare_greater_than |= not reference and ">" in token.text
        for piece in [token.text] if reference or self._preformatted else _HTML_SPACE.split(token.text):
            if piece and not piece.strip(HTML_SPACES) and not self._preformatted:
                self._space.append(token.raw if reference else piece)
            elif piece or reference:
                self._write(piece)

    def open(self, token: HtmlToken) -> None:
        self._open.append((token.tag, self.add("element", token.raw)))

    def close(self, token: HtmlToken) -> None:
        """Closes an element, and ends the unclosed elements inside it, whose closing tags may follow later."""
        place = next((i for i in range(len(self._open) - 1, -1, -1) if self._open[i][0] == token.tag), None)
        if place is None and self._open:  # an element that was never opened, or that another tag has closed
            self.add("mark", token.raw)
            return
        self.raw.append(token.raw)
        here = self._here()
        if place is None:
            self._closers += 1
            self._top = [InlineElement("element", "", 0, here, token.raw, self._top, from_start=True)]
            return
        for _, element in self._open[place:]:
            element.end = here
        self._open[place][1].closing = token.raw
        del self._open[place:]

    def add(self, part: Part, raw: str) -> InlineElement:
        self.raw.append(raw)
        here = self._here()
        element = InlineElement(part, raw, here, here)
        self._elements += 1
        self._siblings().append(element)
        return element

    def add_verbatim(self, raw: str, content: str) -> None:
        """Adds an element that is copied. content: its text, which the model reads if it is a few words; instead of a
        longer text the model reads a placeholder {1}."""
        shown = " ".join(content.split())
        if not shown:
            self.add("mark", raw)
            return
        if not _SHORT_WORDS.fullmatch(shown) or len(shown) > 60:
            shown = f"{{{next(self._numbers)}}}"
        element = self.add("verbatim", raw)
        self._write(shown)
        element.end = self._length

    def built(self) -> Passage | None:
        """None if there is nothing to translate."""
        if not self._has_text:
            return None
        for _, element in self._open:
            element.end, element.to_end = self._length, True
        text, before, behind = map("".join, (self._pieces, self._before, self._space))
        return Passage(text, self._top, before, behind, self._bare_greater_than, self._no_break_reference)

    def _here(self) -> int:
        """Position of a tag: behind the whitespace before it."""
        if self._space and not self._length and not self._top:
            self._before += self._space
        elif self._space and (not self._length or self._pieces[-1][-1] in HTML_SPACES):
            # whitespace separated from other whitespace only by a tag stays with that tag
            space, siblings = "".join(self._space), self._siblings()
            if siblings and siblings[-1].part == "element":
                siblings[-1].closing += space
            else:
                (siblings[-1] if siblings else self._open[-1][1]).opening += space
        elif self._space:
            self._pieces.append(" ")
            self._length += 1
        self._space = []
        return self._length

    def _write(self, text: str) -> None:
        self._here()
        if text:
            self._pieces.append(text)
            self._length += len(text)

    def _siblings(self) -> list[InlineElement]:
        return self._open[-1][1].within if self._open else self._top
