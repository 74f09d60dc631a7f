"""What every kind of file is read as; and what word processors' formats share: how far a package may unpack, and
paragraphs of formatted text as HTML, so that their formatting follows the word alignment."""

from __future__ import annotations

import html
import io
import re
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Generic, Literal, Protocol, TypeVar

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


class Document(Protocol):
    """A file that has been read. texts: what is to be translated, in order; format: of these."""

    @property
    def texts(self) -> Sequence[str]: ...

    @property
    def format(self) -> TextFormat: ...

    def written(self, translations: Sequence[str]) -> bytes:
        """The file with `translations` in the places of `texts`; called once."""
        ...


@contextmanager
def refusing_unreadable_files(kind: str) -> Iterator[None]:
    """Any exception of a library that reads a file becomes an InvalidRequest: broken files raise all kinds of them."""
    try:
        yield
    except InvalidRequest:
        raise
    except Exception as failure:
        raise InvalidRequest(
            f"The file cannot be read as {kind}; open it in its program and save it again."
        ) from failure


def check_package(content: bytes) -> None:
    """Raises InvalidRequest for a zipped package that unpacks too far, or whose XML declares entities. The sizes are
    those that the package declares, which no reader goes beyond."""
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


@dataclass(frozen=True, slots=True)
class TextPiece(Generic[Element]):
    """A part of a paragraph. element: the file's element for it, None for a text.

    - "text": as it is read.
    - "group": formatting around other pieces.
    - "mark": an image, a note's number, within a sentence.
    - "break": a tab, a new line: the text before and the text behind it are translated apart.
    """

    kind: Literal["text", "group", "mark", "break"]
    text: str = ""
    element: Element | None = None
    within: Sequence[TextPiece[Element]] = ()


class FormattedDocument(ABC, Generic[Element]):
    """A document of formatted paragraphs, each a text in HTML. Paragraphs without a word stay as they are."""

    format: TextFormat = "html"

    def __init__(self, paragraphs: Iterable[tuple[Element, list[TextPiece[Element]]]]) -> None:
        self._paragraphs = [(paragraph, pieces) for paragraph, pieces in paragraphs if _has_words(pieces)]
        self.texts = [paragraph_html(pieces) for _, pieces in self._paragraphs]

    def written(self, translations: Sequence[str]) -> bytes:
        for (paragraph, pieces), translation in zip(self._paragraphs, translations, strict=True):
            self._fill(paragraph, translated_pieces(pieces, translation))
        return self._saved()

    @abstractmethod
    def _fill(self, paragraph: Element, pieces: Sequence[TextPiece[Element]]) -> None:
        """Replaces the content of a paragraph."""

    @abstractmethod
    def _saved(self) -> bytes: ...


def _has_words(pieces: Iterable[TextPiece[Element]]) -> bool:
    return any(piece.text.strip() or _has_words(piece.within) for piece in pieces)


def paragraph_html(pieces: Sequence[TextPiece[Element]]) -> str:
    """In a <pre>, since every space counts."""
    return f"<pre>{''.join(_tagged_html(pieces, iter(range(10**9))))}</pre>"


def _tagged_html(pieces: Sequence[TextPiece[Element]], numbers: Iterator[int]) -> Iterator[str]:
    for piece in pieces:
        if piece.kind == "text":
            yield html.escape(piece.text, quote=False)
            continue
        yield f"<{_PIECE_TAGS[piece.kind]} id={next(numbers)}>"
        yield from _tagged_html(piece.within, numbers)
        if piece.kind == "group":
            yield "</span>"


def translated_pieces(pieces: Sequence[TextPiece[Element]], translation: str) -> list[TextPiece[Element]]:
    """The same pieces, around the texts and in the order of the translation of their `paragraph_html`."""
    numbered = list(_numbered_pieces(pieces))
    levels: list[list[TextPiece[Element]]] = [[]]
    open_groups: list[TextPiece[Element]] = []
    for token in tokenize_page(translation):
        if token.kind in ("text", "reference"):
            levels[-1].append(TextPiece("text", _NO_XML.sub("", token.text)))
        elif token.tag in _PIECE_TAGS.values() and token.kind == "start":
            piece = numbered[int("".join(filter(str.isdigit, token.raw)))]
            if piece.kind == "group":
                open_groups.append(piece)
                levels.append([])
            else:
                levels[-1].append(piece)
        elif token.tag == "span":
            within = levels.pop()
            levels[-1].append(replace(open_groups.pop(), within=_merged_texts(within)))
    return _merged_texts(levels[0])


def _numbered_pieces(pieces: Iterable[TextPiece[Element]]) -> Iterator[TextPiece[Element]]:
    for piece in pieces:
        if piece.kind != "text":
            yield piece
            yield from _numbered_pieces(piece.within)


def _merged_texts(pieces: Iterable[TextPiece[Element]]) -> list[TextPiece[Element]]:
    merged: list[TextPiece[Element]] = []
    for piece in pieces:
        if piece.kind == "text" and merged and merged[-1].kind == "text":
            merged[-1] = TextPiece("text", merged[-1].text + piece.text)
        elif piece.kind != "text" or piece.text:
            merged.append(piece)
    return merged
