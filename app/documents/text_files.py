"""Files that are text: plain text and Markdown, web pages, subtitles; each is written again in its own encoding."""

from __future__ import annotations

import codecs
import html
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
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
# A cue's name, if it has one, and its times.
_CUE_HEAD = re.compile(
    r"(?:(?!NOTE\b|STYLE\b|REGION\b)[^\n]*\n)?(?:\d{2,9}:)?\d\d:\d\d\.\d{3}[ \t]+-->[ \t]+(?:\d{2,9}:)?\d\d:\d\d\.\d{3}"
    r"[^\n]*\n"
)
_CUE_TIME = re.compile(r"<(?:\d{2,9}:)?\d\d:\d\d\.\d{3}>")
_VTT_LANGUAGE = re.compile(r"^(Language:[ \t]*)\S+", re.MULTILINE)
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


class Subtitles(ABC):
    """Numbers, times and positions stay as they are; the text of each subtitle is one text. Its lines are joined before
    translation, since sentences run over them, and broken into as many again. Lines that begin with a dash are
    different speakers' and texts of their own."""

    format: TextFormat = "html"  # <i>, <b>, <u>, <font>, <v Anna>

    def __init__(self, content: bytes) -> None:
        self._mark, self._encoding, text = decode_text(content)
        self._line_end = "\r\n" if "\r\n" in text else "\n"
        contents = self._parsed(text.replace("\r\n", "\n").replace("\r", "\n"))
        self._parts = [_speaker_parts(content) for content in contents]
        self.texts = [_outside_markup(self._escaped, " ".join(lines)) for parts in self._parts for lines in parts]

    def written(self, translations: Sequence[str], language: str = "") -> bytes:
        remaining = iter(translations)
        contents = []
        for parts in self._parts:
            pages = [(_outside_markup(self._unescaped, next(remaining)), len(part)) for part in parts]
            contents.append("\n".join(line for page, lines in pages for line in _broken_lines(page, lines)))
        text = self._composed(contents, language).replace("\n", self._line_end)
        return self._mark + text.encode(self._encoding, "replace")

    @abstractmethod
    def _parsed(self, text: str) -> list[str]:
        """The texts of the subtitles of a file, whose lines end with a line feed."""

    @abstractmethod
    def _composed(self, contents: Sequence[str], language: str) -> str:
        """The file with other texts."""

    @abstractmethod
    def _escaped(self, text: str) -> str:
        """Text between tags as HTML."""

    @abstractmethod
    def _unescaped(self, text: str) -> str: ...


class SubRip(Subtitles):
    def _parsed(self, text: str) -> list[str]:
        # Imported here: few servers translate files.
        import srt

        if _LONG_RUN.search(text):
            sentence = "The subtitles have 20 digits or 100 white spaces in a row; take them out."
            raise InvalidRequest(sentence, field="file")
        with refusing_unreadable_files("subtitles (.srt)"):
            self._subtitles: list[Subtitle] = list(srt.parse(text))
        return [subtitle.content for subtitle in self._subtitles]

    def _composed(self, contents: Sequence[str], language: str) -> str:
        import srt

        for subtitle, content in zip(self._subtitles, contents, strict=True):
            subtitle.content = content
        text: str = srt.compose(self._subtitles, reindex=False, strict=False)
        return text

    def _escaped(self, text: str) -> str:
        return html.escape(text, quote=False)

    def _unescaped(self, text: str) -> str:
        return html.unescape(text)


class WebVtt(Subtitles):
    """WebVTT (W3C): cues without their times within the text; comments, styles and regions stay as they are."""

    def _parsed(self, text: str) -> list[str]:
        if not re.match(r"WEBVTT(?:[ \t\n]|\Z)", text):
            raise InvalidRequest("The file cannot be read as subtitles (.vtt); it begins with WEBVTT.", field="file")
        self._blocks = re.split(r"(\n{2,})", text)  # and what is between them
        self._cues: list[tuple[int, str]] = []  # the number of its block, and the lines before its text
        contents = []
        for number, block in enumerate(self._blocks):
            head = _CUE_HEAD.match(block) if number else None
            if head is not None:
                self._cues.append((number, head[0]))
                contents.append(_CUE_TIME.sub("", block[head.end() :]))
        return contents

    def _composed(self, contents: Sequence[str], language: str) -> str:
        blocks = list(self._blocks)
        for (number, head), content in zip(self._cues, contents, strict=True):
            blocks[number] = head + content + "\n" * self._blocks[number][len(head) :].endswith("\n")
        if language:
            blocks[0] = _VTT_LANGUAGE.sub(rf"\g<1>{language}", blocks[0])
        return "".join(blocks)

    def _escaped(self, text: str) -> str:
        return text  # as it is in the file

    def _unescaped(self, text: str) -> str:
        return text


def _speaker_parts(content: str) -> list[list[str]]:
    parts: list[list[str]] = []
    for line in filter(str.strip, content.split("\n")):
        if not parts or _SPEAKER.match(line):
            parts.append([])
        parts[-1].append(line.strip())
    return parts


def _outside_markup(convert: Callable[[str], str], text: str) -> str:
    return "".join(piece if _MARKUP.fullmatch(piece) else convert(piece) for piece in _MARKUP.split(text))


def _broken_lines(page: str, lines: int) -> list[str]:
    """The text of `page` in so many lines or fewer, each about as long as the others; tags have no length."""
    words = _WORD.findall(page)
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
