"""The file formats that are translated. A new format is a row of `READERS` and a module with its reader; the routes,
the settings that front ends read, the processes that read large files and the tests take it from here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from app.documents.gettext_catalogue import GettextCatalogue
from app.documents.open_document import OpenDocument
from app.documents.subtitles import SubRip, WebVtt
from app.documents.text_files import PlainText, WebPage
from app.documents.word_document import WordDocument

if TYPE_CHECKING:
    from app.translation import TextFormat


class Document(Protocol):
    """A file that was read. texts: what is translated, in the order of the file. format: of these texts."""

    texts: list[str]
    format: TextFormat

    def written(self, translations: Sequence[str], language: str = "") -> bytes:
        """The file with its translations, once. language: the code that the file declares; "" keeps the declared."""


@dataclass(frozen=True, slots=True)
class Reader:
    """translates: what of a file is translated and what is kept, as the documentation says it. packaged: whether the
    file is a zip package, which unpacks to more than its size."""

    media_type: str
    read: Callable[[bytes], Document]
    translates: str
    packaged: bool = False


_OPEN_DOCUMENT = "application/vnd.oasis.opendocument"
_CATALOGUE = Reader(
    "text/x-gettext-translation",
    GettextCatalogue,
    "messages without a translation, plural forms too; they are flagged as `fuzzy`, and all else is kept",
)
_PAGE = Reader("text/html", WebPage, "the page's texts; tags, scripts, `<code>` and `translate=no` are kept")

READERS = {
    ".txt": Reader("text/plain", PlainText, "all; lines, indentation and spaces are kept"),
    ".md": Reader("text/markdown", PlainText, "all but code, front matter and addresses"),
    ".srt": Reader("application/x-subrip", SubRip, "the texts of the cues; numbers, times and `<i>` are kept"),
    ".vtt": Reader("text/vtt", WebVtt, "the texts of the cues; times, settings, notes and styles are kept"),
    ".html": _PAGE,
    ".htm": _PAGE,
    ".docx": Reader(
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        WordDocument,
        "text, tables, headers, footers, notes and the title, with their formatting; comments and fields are kept",
        packaged=True,
    ),
    ".odt": Reader(
        f"{_OPEN_DOCUMENT}.text",
        OpenDocument,
        "text, tables, headers, notes and the title, with their formatting; comments are kept",
        packaged=True,
    ),
    ".ods": Reader(
        f"{_OPEN_DOCUMENT}.spreadsheet",
        OpenDocument,
        "cells of text; numbers, dates and formulas are kept",
        packaged=True,
    ),
    ".odp": Reader(f"{_OPEN_DOCUMENT}.presentation", OpenDocument, "the texts of the slides and notes", packaged=True),
    ".po": _CATALOGUE,
    ".pot": _CATALOGUE,
}
