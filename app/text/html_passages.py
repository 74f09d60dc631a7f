"""Tokenizes an HTML page, and builds the passages between its blocks: their text and inline elements. The tokenizer is
turbohtml (WHATWG, in C, with token positions). html.parser takes 100 s for 100,000 characters of unclosed tags,
html5lib and selectolax report no positions, lxml normalizes its input. Attributes (alt, title, placeholder, aria-label)
are not translated, as in LibreTranslate and DeepL."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import count
from typing import Literal

from app.text.islands_in_markup import COPIED, MARK, masked_page, parts

_ELEMENTS = [
    line.split("\t") for line in (files("app.text") / "html_elements.tsv").read_text(encoding="utf-8").splitlines()[1:]
]


def _of_role(role: str) -> frozenset[str]:
    return frozenset(name for name, roles, *_ in _ELEMENTS if role in roles.split())


# Elements by their role in a sentence; unlisted elements are inline, as in browsers. A block's tag ends a passage. The
# sentence around a hidden element is translated without it; a verbatim one, such as code, is restored exactly.
BLOCKS, VOID, HIDDEN, VERBATIM = map(_of_role, ("block", "void", "hidden", "verbatim"))
# In XML and in clients' own markup, these stand within a sentence also where text stands only in elements of theirs.
INLINE = _of_role("inline")
# Of elements with an optional end tag: the start tags that end them.
ENDED_BY = {
    name: BLOCKS - {"br"} if tags == ["block"] else frozenset(tags[0].split()) for name, _, *tags in _ELEMENTS if tags
}
_NO_VARIABLES = BLOCKS | VOID | HIDDEN | VERBATIM
HTML_SPACES = " \t\n\r\f"  # excludes the no-break space
_HTML_SPACE = re.compile(f"([{HTML_SPACES}]+)")
MAX_INLINE_DEPTH = 64  # nested inline elements; a deeper one begins a new passage
# A passage longer than any paragraph ends here, so that placing its elements takes a bounded time.
MAX_PASSAGE_CHARACTERS = 20_000
_MAX_PASSAGE_ELEMENTS = 1000
_SHORT_WORDS = re.compile(r"[^\W\d_]+(?:[ '’-][^\W\d_]+){0,2}")
TokenKind = Literal["text", "reference", "start", "end", "verbatim", "comment", "doctype", "rest"]
Part = Literal["element", "mark", "verbatim"]


@dataclass(frozen=True, slots=True)
class HtmlToken:
    """raw: its source. text: the characters of a text or reference (`&amp;`). tag: name of a start or end tag, in lower
    case of HTML. untranslatable: by attributes of the start tag. closed: written <tag/>. "verbatim": part of a sentence
    that is copied, such as a formula."""

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
    read = masked_page(source, _NO_VARIABLES).replace(
        "\r", " "
    )  # turbohtml counts \r\n as one position; inside a tag it is a space as well
    lines = [0, *(match.end() for match in re.finditer("\n", read))]
    parsed = list(tokenize(read, resolve_references=False, capture_source=True))
    places = [lines[token.line - 1] + token.col for token in parsed]
    end = places[-1] + len(parsed[-1].source or parsed[-1].data or "") if parsed else 0
    tokens = []
    if places and places[0]:  # "</>" is no token; within the page the token before it has it
        tokens.append(HtmlToken("comment", source[: places[0]]))
    for token, start, stop in zip(parsed, places, [*places[1:], end][: len(parsed)], strict=True):
        kind, raw = kinds.get(token.type, "comment"), source[start:stop]
        if kind == "text":
            tokens += text_tokens(raw, read[start:stop])
            continue
        text = (token.data or "") if kind == "reference" else ""
        untranslatable = kind == "start" and any(
            (name == "translate" and (value or "").strip().lower() == "no")
            or (name == "class" and "notranslate" in (value or "").lower().split())
            for name, value in token.attrs or ()
        )
        tokens.append(HtmlToken(kind, raw, text, token.tag or "", untranslatable, token.self_closing))
    if end < len(source):
        tokens.append(HtmlToken("rest", source[end:]))
    return tokens


def text_tokens(raw: str, masked: str) -> Iterator[HtmlToken]:
    kinds: dict[str, TokenKind] = {"": "text", COPIED: "verbatim", MARK: "comment"}
    for part, mask in parts(raw, masked):
        yield HtmlToken(kinds[mask], part, part)


@dataclass(slots=True, eq=False)
class InlineElement:
    """start, end: the enclosed span, in code points of the passage's text. from_start, to_end: the element continues in
    other passages (<b>a<br>b</b>), so nothing of this passage may move before or after it. parting: it alone stands
    between two words, which the passage's text has a space between.
    - "element": an opening and a closing tag, "" for one outside the passage.
    - "mark": an image, a footnote's number or a comment, at one position.
    - "verbatim": code and the like, written in place of the words that represent it in the text."""

    part: Part
    opening: str
    start: int
    end: int
    closing: str = ""
    within: list[InlineElement] = field(default_factory=list)
    from_start: bool = False
    to_end: bool = False
    parting: bool = False


@dataclass(slots=True)
class Passage:
    """A text between block tags. text: its whitespace is collapsed except in a <pre>. before, behind: the whitespace
    around the text in the page. bare_less_than: the characters that follow its unescaped "<" signs."""

    text: str
    inline: list[InlineElement]
    before: str = ""
    behind: str = ""
    bare_greater_than: bool = False  # it contains an unescaped ">"
    bare_less_than: str = ""
    no_break_reference: str = ""  # as which it writes no-break spaces, such as &nbsp; if not as characters


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
        self._has_text = self._has_escaped_tags = False
        self._bare_greater_than, self._bare_less_than, self._no_break_reference = False, "", ""
        self._numbers = count(1)
        self._elements = 0
        self._behind_tag = False
        self._parting: InlineElement | None = None  # the image at this position

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
        self._has_escaped_tags |= reference and token.text == "<"
        if reference and "\xa0" in token.text:
            self._no_break_reference = token.raw if token.raw.endswith(";") else "&nbsp;"
        text = token.text
        if not reference:
            self._bare_greater_than |= ">" in text
            self._bare_less_than += "".join(re.findall("<(.)", text, re.DOTALL)) if "<" in text else ""
        if self._preformatted and self._behind_tag and self._in_space and not reference:
            text = text.lstrip(HTML_SPACES)
            self._keep_with_tag(token.text[: len(token.text) - len(text)])
        for piece in [text] if reference or self._preformatted else _HTML_SPACE.split(text):
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
        self._behind_tag = True
        if place is None:
            self._closers += 1
            self._top = [InlineElement("element", "", 0, here, token.raw, self._top, from_start=True)]
            return
        for _, element in self._open[place:]:
            element.end = here
        self._open[place][1].closing = token.raw
        del self._open[place:]

    def add(self, part: Part, raw: str, *, parting: bool = False) -> InlineElement:
        self.raw.append(raw)
        here = self._here()
        self._behind_tag = True
        element = InlineElement(part, raw, here, here)
        self._elements += 1
        self._siblings().append(element)
        self._parting = element if parting else self._parting
        return element

    def add_verbatim(self, raw: str, content: str) -> None:
        """Adds an element that is copied. content: its text, which the model reads if it is a few words; instead of a
        longer text, one that would be the end of the word before it, or words that the passage has already, the model
        reads a placeholder {1}."""
        shown = " ".join(content.split())
        if not shown:
            self.add("mark", raw)
            return
        joined = self._length and not self._space and self._pieces[-1][-1].isalnum()
        is_words = not joined and len(shown) <= 60 and _SHORT_WORDS.fullmatch(shown)
        if not is_words or any(shown in piece for piece in self._pieces):
            shown = self._stand_in()
        element = self.add("verbatim", raw)
        self._write(shown)
        element.end = self._length

    def _stand_in(self) -> str:
        return f"{{{next(self._numbers)}}}"

    def built(self) -> Passage | None:
        """None if there is nothing to translate."""
        text, before, behind = map("".join, (self._pieces, self._before, self._space))
        if not self._has_text:
            return None
        for _, element in self._open:
            element.end, element.to_end = self._length, True
        if self._has_escaped_tags:  # which must not become tags
            self._bare_less_than = re.sub(r"[^\W\d_]", "", self._bare_less_than)
        signs = self._bare_greater_than, self._bare_less_than, self._no_break_reference
        return Passage(text, self._top, before, behind, *signs)

    def _here(self) -> int:
        """Position of a tag: after the whitespace before it."""
        if self._space and not self._length and not self._top:
            self._before += self._space
        elif self._space and self._in_space:
            self._keep_with_tag("".join(self._space))
        elif self._space:
            self._pieces.append(" ")
            self._length += 1
        self._space = []
        return self._length

    @property
    def _in_space(self) -> bool:
        return not self._length or self._pieces[-1][-1] in HTML_SPACES

    def _keep_with_tag(self, space: str) -> None:
        """Whitespace that only a tag separates from other whitespace stays with that tag."""
        siblings = self._siblings()
        if siblings and siblings[-1].part == "element":
            siblings[-1].closing += space
        else:
            (siblings[-1] if siblings else self._open[-1][1]).opening += space

    def _write(self, text: str) -> None:
        self._here()
        if text:
            self._part_words(text)
            self._pieces.append(text)
            self._length += len(text)
            self._behind_tag = False

    def _part_words(self, text: str) -> None:
        """Keeps a word from joining the one before it, if an image or a copied element stands between them."""
        if not (self._pieces and self._pieces[-1][-1].isalnum() and text[0].isalnum()):
            return
        siblings = self._siblings()
        last = siblings[-1] if siblings else None
        if self._parting and self._parting.start == self._length:
            self._parting.parting = True
            self._pieces.append(" ")
            self._length += 1
        elif last and last.part == "verbatim" and last.end == self._length:
            shown = self._stand_in()
            self._pieces[-1:] = [shown]
            self._length = last.end = last.start + len(shown)

    def _siblings(self) -> list[InlineElement]:
        return self._open[-1][1].within if self._open else self._top
