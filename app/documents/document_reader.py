"""The limits of packages, and paragraphs of formatted text as HTML, so that formatting follows the word alignment."""

from __future__ import annotations

import html
import io
import re
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar, Generic, Literal, TypeVar

from app.errors import InvalidRequest
from app.text.html_passages import tokenize_page
from app.translation import TextFormat

Element = TypeVar("Element")

MAX_UNPACKED_BYTES = 100_000_000
_MAX_PACKAGE_FILES = 5000
_MAX_RATIO = 100  # of unpacked to packed bytes, for packages that unpack to more than:
_SMALL_BYTES = 10_000_000
_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_PIECE_TAGS = {"group": "span", "mark": "img", "break": "br"}


@contextmanager
def refusing_unreadable_files(kind: str) -> Iterator[None]:
    """Any exception of a library that reads a file becomes an InvalidRequest: broken files raise all kinds of them."""
    try:
        yield
    except InvalidRequest:
        raise
    except Exception as failure:
        sentence = f"The file cannot be read as {kind}; open it in its program and save it again."
        raise InvalidRequest(sentence) from failure


def check_package(content: bytes) -> None:
    """InvalidRequest for a package that unpacks too far by its declared sizes, or whose XML declares entities."""
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
        for entry in entries:
            if entry.filename.endswith((".xml", ".rels")):
                xml = package.read(entry).replace(b"\0", b"")  # in UTF-16 every second byte of a declaration is zero
                if b"<!DOCTYPE" in xml:
                    raise InvalidRequest("The file declares XML entities, which no document of its kind needs.")


@dataclass(slots=True)
class TextPiece(Generic[Element]):
    """A part of a paragraph. element: the file's element for it, None for a text.

    - "text": as it is read.
    - "group": formatting around other pieces.
    - "mark": an image, a note's number, within a sentence.
    - "break": a tab, a new line: the text before and the text behind it are translated apart."""

    kind: Literal["text", "group", "mark", "break"]
    text: str = ""
    element: Element | None = None
    within: list[TextPiece[Element]] = field(default_factory=list)

    def has_words(self) -> bool:
        return bool(self.text.strip()) or any(piece.has_words() for piece in self.within)

    def html(self, numbered: list[TextPiece[Element]]) -> str:
        """With its place in `numbered`, to which it is added, as the id of its tag."""
        if self.kind == "text":
            return html.escape(self.text, quote=False)
        numbered.append(self)
        tag = f"<{_PIECE_TAGS[self.kind]} id={len(numbered) - 1}>"
        return tag + "".join([piece.html(numbered) for piece in self.within]) + "</span>" * (self.kind == "group")


class FormattedDocument(ABC, Generic[Element]):
    """A package of formatted paragraphs, each a text in HTML. Paragraphs without a word stay as they are."""

    format: TextFormat = "html"
    kind: ClassVar[str]

    def __init__(self, content: bytes) -> None:
        self.texts: list[str] = []
        self._paragraphs: list[tuple[Element, list[TextPiece[Element]]]] = []  # each with its numbered pieces
        with refusing_unreadable_files(self.kind):
            check_package(content)
            for paragraph, pieces in self._opened(io.BytesIO(content)):
                if any(piece.has_words() for piece in pieces):
                    numbered: list[TextPiece[Element]] = []
                    inside = "".join([piece.html(numbered) for piece in pieces])
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
        """The paragraphs of a package."""

    @abstractmethod
    def _fill(self, paragraph: Element, pieces: Sequence[TextPiece[Element]]) -> None:
        """Replaces the content of a paragraph."""

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
    """The numbered pieces of a paragraph, around the texts and in the order of the translation of its HTML."""
    levels: list[list[TextPiece[Element]]] = [[]]
    for token in tokenize_page(translation):
        within = levels[-1]
        if token.kind in ("text", "reference"):
            text = _NO_XML.sub("", token.text)
            if within and within[-1].kind == "text":
                within[-1].text += text
            elif text:
                within.append(TextPiece("text", text))
        elif token.tag in _PIECE_TAGS.values() and token.kind == "start":
            source = numbered[int("".join(filter(str.isdigit, token.raw)))]
            within.append(TextPiece(source.kind, element=source.element))
            if source.kind == "group":
                levels.append(within[-1].within)
        elif token.tag == "span":
            levels.pop()
    return levels[0]
