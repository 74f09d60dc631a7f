"""Documents that are zip packages of XML: limits on unpacking, and each formatted paragraph as a text in HTML, so that
formatting is placed in the translation by the word alignment."""

from __future__ import annotations

import html
import io
import re
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, ClassVar, Generic, Literal, TypeVar

from app.errors import InvalidRequest
from app.text.html_passages import HtmlToken, tokenize_page

if TYPE_CHECKING:
    from lxml.etree import _Element

    from app.translation import TextFormat

Element = TypeVar("Element")

MAX_UNPACKED_BYTES = 100_000_000
_MAX_PACKAGE_FILES = 5000
_MAX_RATIO = 100  # of unpacked to packed bytes, for packages that unpack to more than:
_SMALL_BYTES = 10_000_000
MAX_MARKUP = 3_000_000  # tags and attributes of all parts, which take about 300 bytes each when they are parsed
MAX_CHARACTERS = 20_000_000  # of a document's texts: one element may stand for a thousand spaces
_XML_BEGINNING_BYTES = 1000
_XML_ENCODING = re.compile(rb"""encoding\s{0,9}=\s{0,9}["']([^"']{0,40})""")
_XML_ENCODINGS = frozenset({b"utf-8", b"utf8", b"utf-16", b"us-ascii", b"ascii", b"iso-8859-1", b"windows-1252"})
_ENTITIES = "The file declares XML entities, which no document of its kind needs."
_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_PIECE_TAGS = {"group": "span", "mark": "img", "break": "br"}


@contextmanager
def refusing_unreadable_files(kind: str) -> Iterator[None]:
    """Turns any exception of a library into an InvalidRequest: broken files make the libraries raise all kinds."""
    try:
        yield
    except (InvalidRequest, MemoryError):
        raise
    except Exception as failure:
        sentence = f"The file cannot be read as {kind}; open it in its program and save it again."
        raise InvalidRequest(sentence) from failure


def check_package(content: bytes) -> None:
    """Raises InvalidRequest if the declared sizes of a package exceed the limits, or if its XML declares entities."""
    with zipfile.ZipFile(io.BytesIO(content)) as package:
        entries = package.infolist()
        size = sum(entry.file_size for entry in entries)
        if size > MAX_UNPACKED_BYTES or (size > _SMALL_BYTES and size > _MAX_RATIO * len(content)):
            raise InvalidRequest(
                f"The file unpacks to {size:,} bytes; it may be {MAX_UNPACKED_BYTES:,}, and {_MAX_RATIO} times its own"
                " size."
            )
        if len(entries) > _MAX_PACKAGE_FILES:
            raise InvalidRequest(f"The file is a package of {len(entries):,} files; it may be {_MAX_PACKAGE_FILES:,}.")
        markup = 0
        for entry in entries:
            named_xml = entry.filename.lower().endswith((".xml", ".rels"))
            with package.open(entry) as part:
                beginning = part.read(_XML_BEGINNING_BYTES)
                # In UTF-16 every second byte of a tag is zero. The name of a part says nothing: its content type, or
                # another part, may call it XML. A drawing in SVG may have a document type, which nothing here reads.
                xml = beginning.replace(b"\0", b"").lstrip(b"\xef\xbb\xbf\xfe\xff \t\r\n")
                if not xml.startswith(b"<") or (entry.filename.lower().endswith(".svg") and b"<svg" in xml):
                    if named_xml and beginning:
                        raise InvalidRequest("The file has a part in an encoding that no document of its kind uses.")
                    continue
                xml = (beginning + part.read()).replace(b"\0", b"")
            declared = _XML_ENCODING.search(xml[:_XML_BEGINNING_BYTES])
            if declared and declared[1].lower() not in _XML_ENCODINGS:
                raise InvalidRequest("The file has a part in an encoding that no document of its kind uses.")
            if b"<!DOCTYPE" in xml:
                raise InvalidRequest(_ENTITIES)
            markup += xml.count(b"<") + xml.count(b'="') + xml.count(b"='")
        if markup > MAX_MARKUP:
            raise InvalidRequest(
                f"The file has {markup:,} tags and attributes; it may have {MAX_MARKUP:,}. Send it in parts."
            )


def refuse_entities(root: _Element) -> None:
    """InvalidRequest for a parsed part with a document type, in whatever encoding it was declared."""
    if root.getroottree().docinfo.internalDTD is not None:
        raise InvalidRequest(_ENTITIES)


@dataclass(slots=True)
class TextPiece(Generic[Element]):
    """A part of a paragraph. element: the file's element for the part, None for a text.

    - "text": plain text.
    - "group": formatting around the pieces `within`.
    - "mark": an image or a note's number inside a sentence.
    - "break": a tab or a new line; the text before it and the text after it are translated separately."""

    kind: Literal["text", "group", "mark", "break"]
    text: str = ""
    element: Element | None = None
    within: list[TextPiece[Element]] = field(default_factory=list)

    def has_words(self) -> bool:
        return bool(self.text.strip()) or any(piece.has_words() for piece in self.within)

    def html(self, numbered: list[TextPiece[Element]]) -> str:
        """The piece as HTML. A piece with a tag is appended to `numbered`; its index there is the tag's id."""
        if self.kind == "text":
            return html.escape(self.text, quote=False)
        numbered.append(self)
        tag = f"<{_PIECE_TAGS[self.kind]} id={len(numbered) - 1}>"
        return tag + "".join([piece.html(numbered) for piece in self.within]) + "</span>" * (self.kind == "group")


class FormattedDocument(ABC, Generic[Element]):
    """A package of formatted paragraphs. Each paragraph is one text in HTML; paragraphs without a word are kept."""

    format: TextFormat = "html"
    kind: ClassVar[str]

    def __init__(self, content: bytes) -> None:
        self.texts: list[str] = []
        self._paragraphs: list[tuple[Element, list[TextPiece[Element]]]] = []  # each with its numbered pieces
        characters = 0
        with refusing_unreadable_files(self.kind):
            check_package(content)
            for paragraph, pieces in self._opened(io.BytesIO(content)):
                if any(piece.has_words() for piece in pieces):
                    numbered: list[TextPiece[Element]] = []
                    inside = "".join([piece.html(numbered) for piece in pieces])
                    characters += len(inside)
                    if characters > MAX_CHARACTERS:
                        raise InvalidRequest(f"The file has more than {MAX_CHARACTERS:,} characters; send it in parts.")
                    self.texts.append(f"<pre>{inside}</pre>")  # since every space counts
                    self._paragraphs.append((paragraph, numbered))
            title = self._title()
            self._has_title = bool(title.strip())
            if self._has_title:
                self.texts.append(f"<pre>{html.escape(title, quote=False)}</pre>")

    def written(self, translations: Sequence[str], language: str = "") -> bytes:
        paragraphs = translations[:-1] if self._has_title else translations
        for (paragraph, numbered), translation in zip(self._paragraphs, paragraphs, strict=True):
            self._fill(paragraph, _translated_pieces(numbered, translation))
        with refusing_unreadable_files(self.kind):
            if self._has_title:
                tokens = tokenize_page(translations[-1])
                self._set_title(_NO_XML.sub("", "".join(token.text for token in tokens)).strip())
            if language:
                self._set_language(language)
        out = io.BytesIO()
        with refusing_unreadable_files(self.kind):
            self._save(out)
        return out.getvalue()

    @abstractmethod
    def _opened(self, file: io.BytesIO) -> Iterable[tuple[Element, list[TextPiece[Element]]]]:
        """Opens the package and yields each paragraph with its pieces."""

    @abstractmethod
    def _fill(self, paragraph: Element, pieces: Sequence[TextPiece[Element]]) -> None:
        """Replaces the content of a paragraph by `pieces`."""

    @abstractmethod
    def _title(self) -> str:
        """The title in the document's properties, "" without one."""

    @abstractmethod
    def _set_title(self, title: str) -> None: ...

    @abstractmethod
    def _set_language(self, language: str) -> None:
        """Declares `language` (a code) wherever the document declares its main language."""

    @abstractmethod
    def _save(self, file: io.BytesIO) -> None: ...


def _translated_pieces(numbered: Sequence[TextPiece[Element]], translation: str) -> list[TextPiece[Element]]:
    """The pieces of a translated paragraph: `translation` parsed as HTML, each tag's id an index into `numbered`."""
    levels: list[list[TextPiece[Element]]] = [[]]
    for is_text, tokens in groupby(tokenize_page(translation), key=lambda token: token.kind in ("text", "reference")):
        if is_text:
            if text := _NO_XML.sub("", "".join(token.text for token in tokens)):
                levels[-1].append(TextPiece("text", text))
            continue
        for token in tokens:
            _add_element(token, numbered, levels)
    return levels[0]


def _add_element(
    token: HtmlToken, numbered: Sequence[TextPiece[Element]], levels: list[list[TextPiece[Element]]]
) -> None:
    """levels: the pieces within each open group, the innermost last."""
    within = levels[-1]
    if token.tag in _PIECE_TAGS.values() and token.kind == "start":
        source = numbered[int("".join(filter(str.isdigit, token.raw)))]
        within.append(TextPiece(source.kind, element=source.element))
        if source.kind == "group":
            levels.append(within[-1].within)
    elif token.tag == "span":
        levels.pop()
