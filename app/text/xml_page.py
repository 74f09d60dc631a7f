"""Splits XML into passages to translate. The names of its elements say nothing about sentences, but their places do: an
element beside text stands within a sentence, and an element among other elements alone is a part of the document's
structure, whose tags end passages. Everything outside of the passages comes back as it was: the XML declaration, the
document type, line ends, indentation, processing instructions and CDATA sections."""

from __future__ import annotations

import re
import xml.parsers.expat
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html.entities import html5
from itertools import accumulate

from app.errors import InvalidRequest
from app.text.html_passages import BLOCKS, HIDDEN, INLINE, VERBATIM, VOID, HtmlToken, TokenKind, text_tokens
from app.text.islands_in_markup import masked_notes
from app.text.line_breaks import breaks
from app.text.page_parser import NO_RULES, HtmlPage, PageParser, TagRules

# Possessive, since each comment could end at the end of any later one: 2^n ways of n comments without a DOCTYPE.
_DOCUMENT = re.compile(r"\s*(?:<\?xml\s|(?:(?:<!--.*?-->|<\?.*?\?>)\s*)*+<!DOCTYPE\s)", re.DOTALL)
_QUOTED = r"\"[^\"]*+\"|'[^']*+'"
_SUBSET = rf"<!--.*?-->|<\?.*?\?>|{_QUOTED}|[^]<\"']++|<"
_TOKEN = re.compile(
    rf"<!--.*?-->|<!\[CDATA\[.*?]]>|<\?.*?\?>|<!DOCTYPE(?:[^[<>\"']++|{_QUOTED})*+(?:\[(?:{_SUBSET})*+]\s*+)?>"
    rf"|<(?:[^<>\"']++|{_QUOTED})*+>|&[^;<&]*+;|[^<&]++|.",
    re.DOTALL,
)
_START_TAG = re.compile(r"<([^\s/<>!?&]+)")
_HTML_TYPE = re.compile(r"html\b", re.IGNORECASE)
_TAG_NAME = re.compile(r"</?([^\s/>!?][^\s/>]*)")
_UNTRANSLATABLE = re.compile(
    r"\stranslate\s*=\s*([\"'])no\1|\sclass\s*=\s*([\"'])(?:[^\"'<]*\s)?notranslate(?:\s[^\"'<]*)?\2"
)
# Blocks of XHTML also beside text; a <link> or a <meta> beside text is another vocabulary's.
_BLOCKS = BLOCKS - {"base", "link", "meta", "param"}
_HTML_NAMES = BLOCKS | HIDDEN | INLINE | VERBATIM | VOID
_DIGITS = "0123456789"  # <g1>, <x2/>: clients number the tags that they send
_LINE_END = re.compile(r"\r?\n")
_LINE_ENDS = ("\n", "\r", "\t")
_ENTITY = re.compile(r"<!ENTITY\s+([^\s%]+)\s")


def check_well_formed(text: str, field: str) -> None:
    """`InvalidRequest` unless `text` is a well-formed XML document or, without an XML declaration and a document type,
    well-formed content."""
    parser = xml.parsers.expat.ParserCreate()
    parser.DefaultHandler = lambda data: None  # with it, the entities of the document are not expanded
    whole = _DOCUMENT.match(text) is not None
    try:
        parser.Parse(text.lstrip() if whole else f"<_>{text}</_>", True)
    except xml.parsers.expat.ExpatError as error:
        reason = xml.parsers.expat.ErrorString(error.code)
        line = error.lineno + (text[: len(text) - len(text.lstrip())].count("\n") if whole else 0)
        raise InvalidRequest(
            f'"{field}" has a text that is not well-formed XML ({reason}, line {line}); close its tags and'
            ' write & as &amp;, or send "tag_handling": "html".',
            field=field,
        ) from None


def is_xml(source: str) -> bool:
    """Whether a page is XML by what it is: it says so, or it is well-formed and most of its tags are not HTML's."""
    declared = _DOCUMENT.match(source)
    names = [name.rstrip(_DIGITS) for name in _START_TAG.findall(source, declared.end() if declared else 0)]
    if not declared or not names or names[0] == "html" or _HTML_TYPE.match(source, declared.end()):
        unknown = sum(name not in _HTML_NAMES and "-" not in name for name in names)
        if 2 * unknown <= len(names) or {"svg", "math"} & set(names):
            return False
    try:
        check_well_formed(source, "")
    except InvalidRequest:
        return False
    return True


def parse_xml(source: str, rules: TagRules = NO_RULES) -> HtmlPage:
    """The passages of well-formed XML, and what stands between them."""
    return HtmlPage(tuple(_XmlParser(source, rules).parts()))


def _tokens(source: str) -> Iterator[HtmlToken]:
    """Processing instructions are "comment"s, CDATA sections and references to entities that the document declares
    "verbatim", as all of them stay as they are; references to line ends and tabs are "rest"s, which end a passage."""
    declared = frozenset(_ENTITY.findall(source)) if "<!ENTITY" in source else frozenset[str]()
    for match in _TOKEN.finditer(masked_notes(source)):
        raw, name = source[match.start() : match.end()], _TAG_NAME.match(match[0])
        if raw.startswith("&") and len(raw) > 1:
            character = _referred(raw[1:-1], declared)
            kind: TokenKind = "rest" if character in _LINE_ENDS else "reference" if character else "verbatim"
            yield HtmlToken(kind, raw, character or raw)
        elif name and raw.startswith("</"):
            yield HtmlToken("end", raw, tag=name[1])
        elif name:
            yield HtmlToken("start", raw, "", name[1], _UNTRANSLATABLE.search(raw) is not None, raw.endswith("/>"))
        elif raw.startswith("<![CDATA["):
            yield HtmlToken("verbatim", raw, raw.removeprefix("<![CDATA[").removesuffix("]]>"))
        elif raw.startswith("<"):
            yield HtmlToken("comment", raw)
        else:
            yield from text_tokens(raw, match[0])


def _referred(name: str, declared: frozenset[str]) -> str:
    """The character that &name; stands for; "" for an entity of the document."""
    if name.startswith("#"):
        return chr(int(name[2:], 16) if name[1:2] == "x" else int(name[1:]))
    return "" if name in declared else html5.get(f"{name};", "")


class _XmlParser(PageParser):
    """White space stays as it is, in every passage."""

    def __init__(self, source: str, rules: TagRules) -> None:
        super().__init__(list(_tokens(source)), rules, preformatted=True)
        self._inline = _within_texts(self._tokens, rules)
        # Line ends of the texts, in which a paragraph's wrapped lines are known; each is one of a token's own.
        texts = [self._shown(index) for index in range(len(self._tokens))]
        starts = list(accumulate(map(len, texts), initial=0))
        text = "".join(texts)
        for match in breaks(text):
            for line_end in _LINE_END.finditer(text, *match.span()):
                number = bisect_right(starts, line_end.start()) - 1
                start, end = (at - starts[number] for at in line_end.span())
                self._line_ends.setdefault(number, []).append((start, end))

    def _shown(self, index: int) -> str:
        """What a token is in its paragraph."""
        token = self._tokens[index]
        if not self._within_text(index):
            return "\n\n"
        return token.text if token.kind == "text" else "x" * len(token.text)

    def _is_empty(self, token: HtmlToken) -> bool:
        return token.closed

    def _within_text(self, index: int) -> bool:
        return self._inline[index] and self._tokens[index].kind != "rest"

    def _element_end(self, index: int) -> int:
        depth, behind = 0, index
        while behind == index or depth:
            token = self._tokens[behind]
            depth += (token.kind == "start" and not token.closed) - (token.kind == "end")
            behind += 1
        return behind


@dataclass(slots=True)
class _Element:
    """An element, or the document. elements: how many stand in it. has_text: outside of these. inline: whether its tags
    stand within a text; takes_text: whether that is so of what it contains."""

    name: str = ""
    parent: _Element | None = None
    closed: bool = False
    elements: int = 0
    has_text: bool = False
    inline: bool = False
    takes_text: bool = False


def _within_texts(tokens: Sequence[HtmlToken], rules: TagRules) -> list[bool]:
    """Whether each token stands within a text. By outline, an element beside text does, and an element that is alone in
    such an element; elements among elements alone, as the cells of a table, do not."""
    element, elements, around = _Element(), list[_Element](), list[_Element]()
    elements.append(element)
    for token in tokens:
        around.append(element)
        if token.kind == "start":
            element.elements += 1
            around[-1] = _Element(token.tag, element, token.closed)
            elements.append(around[-1])
            element = element if token.closed else around[-1]
        elif token.kind == "end":
            element = element.parent or element
        elif token.kind != "comment" and not token.raw.startswith("<![CDATA["):
            element.has_text |= bool(token.text.strip()) or token.kind == "reference"
    for own in elements:
        own.takes_text = own.has_text
        if parent := own.parent:
            alone = own.closed or parent.elements == 1 or own.name.rstrip(_DIGITS) in INLINE
            by_outline = own.name not in _BLOCKS and (parent.has_text or (parent.inline and alone))
            own.inline = rules.within_text(own.name, by_outline)
            own.takes_text |= own.inline
            parent.takes_text |= own.inline
    return [
        own.inline if token.kind in ("start", "end") else own.takes_text
        for token, own in zip(tokens, around, strict=True)
    ]
