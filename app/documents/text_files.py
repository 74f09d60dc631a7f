"""Text files: plain text and Markdown, web pages. A file is written in the encoding that it was read in."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from app.errors import InvalidRequest
from app.text.html_page import page_sections
from app.text.text_blocks import text_sections

if TYPE_CHECKING:
    from app.translation import TextFormat

_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",  # before the mark of UTF-16, with which it begins
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
_ROOT = re.compile(r"<(?:html\b|meta\b[^<>]{0,500}?content-language)[^<>]{0,2000}>", re.IGNORECASE)
_LANGUAGE = re.compile(
    r"""(\s(?:(?:xml:)?lang|content)\s*=\s*["']?)[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{1,8}){0,3}(?=["'\s/>])""",
    re.IGNORECASE,
)
_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s{0,9}=\s{0,9}[\"']?\s{0,9}([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_CHARSET_SEARCH_BYTES = 1024  # in which a page has to declare its encoding
SECTION_CHARACTERS = 20_000  # of a text that is translated at once
_REFUSED_CODECS = ("idna", "punycode", "undefined", "unicode-escape", "raw-unicode-escape")


def decode_text(content: bytes) -> tuple[bytes, str, str]:
    """Returns the byte order mark, the name of the encoding, and the text."""
    mark = next((mark for mark in _BYTE_ORDER_MARKS if content.startswith(mark)), b"")
    encoding = _BYTE_ORDER_MARKS.get(mark, "utf-8")
    try:
        text = content[len(mark) :].decode(encoding)
    except UnicodeDecodeError as failure:
        sentence = "The file is neither in UTF-8 nor in UTF-16 with a byte order mark; save it as UTF-8."
        raise InvalidRequest(sentence, field="file") from failure
    if "\0" in text:  # ASCII in UTF-16 without a mark is also UTF-8, of other characters
        raise InvalidRequest("The file holds NUL characters, as no text in UTF-8 does; save it as UTF-8.", field="file")
    return mark, encoding, text


def decode_page(content: bytes) -> tuple[bytes, str, str]:
    """Like `decode_text`, but uses the encoding that the page declares."""
    encoding = None if content.startswith(tuple(_BYTE_ORDER_MARKS)) else _declared_encoding(content)
    if encoding is None:
        return decode_text(content)
    try:
        return b"", encoding, content.decode(encoding)
    except UnicodeError as failure:
        raise InvalidRequest(f"The page says that it is in {encoding} and is not; save it as UTF-8.") from failure


def _declared_encoding(content: bytes) -> str | None:
    """The encoding that the page declares, as browsers interpret it: ISO 8859-1 and ASCII mean Windows-1252, and UTF-16
    means UTF-8, because the declaration itself was readable as ASCII."""
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
    """Plain text or Markdown in UTF-8, or in UTF-16 with a byte order mark."""

    format: TextFormat = "text"
    _unencodable = "replace"
    _decode = staticmethod(decode_text)
    _sections: Callable[[str, int], Iterator[str]] = staticmethod(text_sections)

    def __init__(self, content: bytes) -> None:
        self._mark, self._encoding, text = self._decode(content)
        self.texts = list(self._sections(text, SECTION_CHARACTERS)) if text.strip() else []

    def written(self, translations: Sequence[str], language: str = "") -> bytes:
        return self._mark + "".join(translations).encode(self._encoding, self._unencodable)


class WebPage(PlainText):
    """An HTML page in the encoding that it declares; characters outside of it are written as references."""

    format: TextFormat = "html"
    _unencodable = "xmlcharrefreplace"
    _decode = staticmethod(decode_page)
    _sections = staticmethod(page_sections)

    def written(self, translations: Sequence[str], language: str = "") -> bytes:
        """The translated page. `language` replaces a language that the page declares, and is not added to others."""
        return super().written([with_language("".join(translations), language)])


def with_language(page: str, language: str) -> str:
    """Replaces the language in the attributes of <html> and of <meta http-equiv="content-language">."""
    if not language:
        return page
    return _ROOT.sub(lambda tag: _LANGUAGE.sub(lambda attribute: attribute[1] + language, tag[0]), page)
