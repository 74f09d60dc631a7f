"""Files that are text: plain text, web pages, subtitles; each is written again in the encoding that it came in."""

from __future__ import annotations

import codecs
import html
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from app.documents.document_reader import refusing_unreadable_files
from app.errors import InvalidRequest
from app.translation import TextFormat

if TYPE_CHECKING:
    from srt import Subtitle

_BYTE_ORDER_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_ROOT = re.compile(r"<(?:html\b|meta\b[^<>]{0,500}?content-language)[^<>]{0,2000}>", re.IGNORECASE)
_LANGUAGE = re.compile(
    r"""(\s(?:(?:xml:)?lang|content)\s*=\s*["']?)[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{1,8}){0,3}(?=["'\s/>])""",
    re.IGNORECASE,
)
_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s{0,9}=\s{0,9}[\"']?\s{0,9}([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_CHARSET_SEARCH_BYTES = 1024  # in which a page has to declare its encoding
_REFUSED_CODECS = ("idna", "punycode", "undefined", "unicode-escape", "raw-unicode-escape")
_SPEAKER = re.compile(r"\s*(?:<[^>\n]*>)*[-–—‐]")
_MARKUP = re.compile(r"(</?(?:i|b|u|s|font|c|v)\b[^<>\n]*>)", re.IGNORECASE)
_WORD = re.compile(r"(?:<[^<>]*>|\S)+")
_TAG = re.compile(r"<[^<>]*>")
_escape = partial(html.escape, quote=False)
_LONG_RUN = re.compile(r"[0-9]{20}|\s{100}")  # the time of srt grows with the cube of the length of such runs


def decode_text(content: bytes) -> tuple[bytes, str, str]:
    """The byte order mark, the encoding, the text."""
    mark = next((mark for mark in _BYTE_ORDER_MARKS if content.startswith(mark)), b"")
    encoding = _BYTE_ORDER_MARKS.get(mark, "utf-8")
    try:
        return mark, encoding, content[len(mark) :].decode(encoding)
    except UnicodeDecodeError as failure:
        sentence = "The file is neither in UTF-8 nor in UTF-16 with a byte order mark; save it as UTF-8."
        raise InvalidRequest(sentence) from failure


def decode_page(content: bytes) -> tuple[bytes, str, str]:
    """As `decode_text`, by the encoding that the page declares."""
    encoding = None if content.startswith(tuple(_BYTE_ORDER_MARKS)) else _declared_encoding(content)
    if encoding is None:
        return decode_text(content)
    try:
        return b"", encoding, content.decode(encoding)
    except UnicodeError as failure:
        raise InvalidRequest(f"The page says that it is in {encoding} and is not; save it as UTF-8.") from failure


def _declared_encoding(content: bytes) -> str | None:
    """As browsers read it: ISO 8859-1 and ASCII are Windows-1252, and a tag in ASCII excludes UTF-16."""
    match = _CHARSET.search(content[:_CHARSET_SEARCH_BYTES])
    if match is None:
        return None
    label = match[1].decode("ascii").lower()
    if label in ("iso-8859-1", "iso8859-1", "latin1", "latin-1", "us-ascii", "ascii", "windows-1252"):
        return "cp1252"
    try:
        name = codecs.lookup(label).name
        if name in _REFUSED_CODECS:
            raise LookupError(name)
        b"x".decode(name)  # raises for codecs that are no text encodings
        "\u4f60".encode(name, "xmlcharrefreplace")
    except (LookupError, UnicodeError) as failure:
        raise InvalidRequest(f"The page's encoding {label!r} is not known here; save it as UTF-8.") from failure
    return "utf-8" if name.startswith(("utf-16", "utf-32", "utf-7")) else name


class PlainText:
    """UTF-8, or UTF-16 with a byte order mark."""

    format: TextFormat = "text"
    _unencodable = "replace"
    _decode = staticmethod(decode_text)

    def __init__(self, content: bytes) -> None:
        self._mark, self._encoding, text = self._decode(content)
        self.texts = [text] if text.strip() else []

    def written(self, translations: Sequence[str], language: str = "") -> bytes:
        return self._mark + translations[0].encode(self._encoding, self._unencodable)


class WebPage(PlainText):
    """In the encoding that the page declares; other characters are written as references."""

    format: TextFormat = "html"
    _unencodable = "xmlcharrefreplace"
    _decode = staticmethod(decode_page)

    def written(self, translations: Sequence[str], language: str = "") -> bytes:
        """The page declares `language` if it declares one."""
        return super().written([with_language(page, language) for page in translations])


def with_language(page: str, language: str) -> str:
    """The page with `language` as the one that its root element, and a <meta>, declare."""
    if not language:
        return page
    return _ROOT.sub(lambda tag: _LANGUAGE.sub(lambda attribute: attribute[1] + language, tag[0]), page)


class Subtitles:
    """SubRip: numbers, times and positions stay as they are; the text of each subtitle is one text. Its lines are
    joined before translation, since sentences run over them, and broken into as many again. Lines that begin with a
    dash are different speakers' and texts of their own."""

    format: TextFormat = "html"  # <i>, <b>, <u>, <font>

    def __init__(self, content: bytes) -> None:
        # Imported here: few servers translate files.
        import srt

        self._mark, self._encoding, text = decode_text(content)
        self._line_end = "\r\n" if "\r\n" in text else "\n"
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        if _LONG_RUN.search(text):
            sentence = "The subtitles have 20 digits or 100 white spaces in a row; take them out."
            raise InvalidRequest(sentence, field="file")
        with refusing_unreadable_files("subtitles (.srt)"):
            self._subtitles = list(srt.parse(text))
        self._parts = [_speaker_parts(subtitle) for subtitle in self._subtitles]
        self.texts = [_outside_markup(_escape, " ".join(lines)) for parts in self._parts for lines in parts]

    def written(self, translations: Sequence[str], language: str = "") -> bytes:
        import srt

        remaining = iter(translations)
        for subtitle, parts in zip(self._subtitles, self._parts, strict=True):
            lines = [line for part in parts for line in _broken_lines(next(remaining), len(part))]
            subtitle.content = "\n".join(lines)
        text: str = srt.compose(self._subtitles, reindex=False, strict=False, eol=self._line_end)
        return self._mark + text.encode(self._encoding, "replace")


def _speaker_parts(subtitle: Subtitle) -> list[list[str]]:
    parts: list[list[str]] = []
    for line in filter(str.strip, subtitle.content.split("\n")):
        if not parts or _SPEAKER.match(line):
            parts.append([])
        parts[-1].append(line.strip())
    return parts


def _outside_markup(convert: Callable[[str], str], text: str) -> str:
    return "".join(piece if _MARKUP.fullmatch(piece) else convert(piece) for piece in _MARKUP.split(text))


def _broken_lines(page: str, lines: int) -> list[str]:
    """The text of `page` in so many lines or fewer, each about as long as the others; tags have no length."""
    words = _WORD.findall(_outside_markup(html.unescape, page))
    lengths = [len(_TAG.sub("", word)) + 1 for word in words]
    broken: list[str] = []
    first, left = 0, sum(lengths)
    for remaining in range(lines, 0, -1):
        behind, taken = first, 0
        while behind < len(words) and (remaining == 1 or taken + lengths[behind] / 2 <= left / remaining):
            taken += lengths[behind]
            behind += 1
        if behind > first:
            broken.append(" ".join(words[first:behind]))
        first, left = behind, left - taken
    return broken
