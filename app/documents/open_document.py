"""OpenDocument texts: paragraphs and headings of the body, of tables, lists, notes and text boxes, of headers and
footers. Comments and what a tracked change has deleted stay as they are."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from app.documents import document_reader
from app.documents.document_reader import TextPiece, blaming_the_file
from app.engine.errors import InvalidRequest
from app.translation.text_request import TextFormat

if TYPE_CHECKING:
    from odfdo import Element

_KIND = "an OpenDocument text (.odt)"
_PARAGRAPHS = (
    "//*[self::text:p or self::text:h][not(ancestor::text:tracked-changes) and not(ancestor::office:annotation)]"
)
_GROUPS = frozenset({"text:span", "text:a", "text:meta", "text:ruby", "text:ruby-base"})
_BREAKS = frozenset({"text:tab", "text:line-break"})
_SPACES = re.compile(r"[ \t\r\n]+")
_MAX_SPACES = 1000  # in a row


class OpenDocument:
    format: TextFormat = "html"

    def __init__(self, content: bytes) -> None:
        # Here and not at the top: it is needed once somebody translates a file.
        from odfdo import Document

        with blaming_the_file(_KIND):
            document_reader.check_package(content)
            self._document = Document(io.BytesIO(content))
            if self._document.get_type() not in ("text", "text-template"):
                raise InvalidRequest("The file is an OpenDocument, and not of text; .odt files can be translated.")
            roots = [self._document.content.root, self._document.styles.root]
            found = [(each, list(_element_pieces(each))) for root in roots for each in root.get_elements(_PARAGRAPHS)]
            self._paragraphs = [(each, pieces) for each, pieces in found if document_reader.has_text(pieces)]
        self.texts = [document_reader.paragraph_html(pieces) for _, pieces in self._paragraphs]

    def written(self, translations: Sequence[str]) -> bytes:
        for (paragraph, pieces), translation in zip(self._paragraphs, translations, strict=True):
            _fill_element(paragraph, document_reader.paragraph_pieces(pieces, translation))
        out = io.BytesIO()
        with blaming_the_file(_KIND):
            self._document.save(out, pretty=False)
        return out.getvalue()


def read_open_document(content: bytes) -> OpenDocument:
    return OpenDocument(content)


def _element_pieces(element: Element) -> Iterator[TextPiece]:
    yield from _collapsed_text(element.text)
    for child in element.children:
        if child.tag == "text:s":
            yield TextPiece("text", " " * min(child.get_attribute_integer("text:c") or 1, _MAX_SPACES))
        elif child.tag in _GROUPS:
            yield TextPiece("group", handle=child, within=list(_element_pieces(child)))
        else:
            yield TextPiece("break" if child.tag in _BREAKS else "mark", handle=child)
        yield from _collapsed_text(child.tail)


def _collapsed_text(text: str | None) -> Iterator[TextPiece]:
    if text:
        yield TextPiece("text", _SPACES.sub(" ", text))


def _fill_element(element: Element, pieces: Iterable[TextPiece], *, first: bool = True) -> None:
    """first: at the beginning of a paragraph, where a space is none to OpenDocument."""
    for child in element.children:
        element.delete(child, keep_tail=False)
    element.text = None
    last: Element | None = None  # `element.children` makes all of them anew at every look
    for piece in pieces:
        if piece.kind == "text":
            last = _append_text(element, last, piece.text, first=first)
        else:
            piece.handle.tail = None
            element.append(piece.handle)
            last = piece.handle
            if piece.kind == "group":
                _fill_element(piece.handle, piece.within, first=first)
        first = False


def _append_text(element: Element, last: Element | None, text: str, *, first: bool) -> Element | None:
    """Spaces in a row are one space to OpenDocument, the others are written as elements. Gives the last child."""
    from odfdo import Element

    for part in re.split(r"( {2,})", text):
        if (first and part.startswith(" ")) or part.startswith("  "):
            spaces = len(part) - len(part.lstrip(" "))
            shown = 0 if first else 1
            _append_plain(element, last, " " * shown)
            made = Element.from_tag("text:s")
            made.set_attribute("text:c", str(spaces - shown))
            element.append(made)
            last = made
            part = part[spaces:]
        _append_plain(element, last, part)
        first = first and not part
    return last


def _append_plain(element: Element, last: Element | None, text: str) -> None:
    if not text:
        return
    if last is not None:
        last.tail = (last.tail or "") + text
    else:
        element.text = (element.text or "") + text
