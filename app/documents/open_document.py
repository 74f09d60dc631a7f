"""OpenDocument texts: paragraphs and headings of the body, of tables, lists, notes and text boxes, of headers and
footers. Comments and what a tracked change has deleted stay as they are."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from app.documents.document_reader import FormattedDocument, TextPiece, check_package, refusing_unreadable_files
from app.errors import InvalidRequest

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


class OpenDocument(FormattedDocument["Element"]):
    def __init__(self, content: bytes) -> None:
        # Imported here: few servers translate files.
        from odfdo import Document

        with refusing_unreadable_files(_KIND):
            check_package(content)
            self._document = Document(io.BytesIO(content))
            if self._document.get_type() not in ("text", "text-template"):
                raise InvalidRequest("The file is an OpenDocument, and not of text; .odt files can be translated.")
            roots = [self._document.content.root, self._document.styles.root]
            paragraphs = [paragraph for root in roots for paragraph in root.get_elements(_PARAGRAPHS)]
            super().__init__((paragraph, list(_element_pieces(paragraph))) for paragraph in paragraphs)

    def _fill(self, paragraph: Element, pieces: Sequence[TextPiece[Element]]) -> None:
        _fill_element(paragraph, pieces, at_start=True)

    def _saved(self) -> bytes:
        out = io.BytesIO()
        with refusing_unreadable_files(_KIND):
            self._document.save(out, pretty=False)
        return out.getvalue()


def _element_pieces(element: Element) -> Iterator[TextPiece[Element]]:
    yield from _collapsed_text(element.text)
    for child in element.children:
        if child.tag == "text:s":
            yield TextPiece("text", " " * min(child.get_attribute_integer("text:c") or 1, _MAX_SPACES))
        elif child.tag in _GROUPS:
            yield TextPiece("group", element=child, within=list(_element_pieces(child)))
        else:
            yield TextPiece("break" if child.tag in _BREAKS else "mark", element=child)
        yield from _collapsed_text(child.tail)


def _collapsed_text(text: str | None) -> Iterator[TextPiece[Element]]:
    if text:
        yield TextPiece("text", _SPACES.sub(" ", text))


def _fill_element(element: Element, pieces: Iterable[TextPiece[Element]], *, at_start: bool) -> None:
    """at_start: of a paragraph, where OpenDocument ignores a space."""
    for child in element.children:
        element.delete(child, keep_tail=False)
    element.text = None
    last: Element | None = None  # the last child; `element.children` builds a new list at every access
    for piece in pieces:
        if piece.element is None:
            last = _append_text(element, last, piece.text, at_start=at_start)
        else:
            piece.element.tail = None
            element.append(piece.element)
            last = piece.element
            if piece.kind == "group":
                _fill_element(piece.element, piece.within, at_start=at_start)
        at_start = False


def _append_text(element: Element, last: Element | None, text: str, *, at_start: bool) -> Element | None:
    """Of several spaces in a row OpenDocument shows one; the others are written as elements. Returns the last child."""
    from odfdo import Element

    for part in re.split(r"( {2,})", text):
        if (at_start and part.startswith(" ")) or part.startswith("  "):
            spaces = len(part) - len(part.lstrip(" "))
            plain = 0 if at_start else 1
            _append_plain(element, last, " " * plain)
            last = Element.from_tag("text:s")
            last.set_attribute("text:c", str(spaces - plain))
            element.append(last)
            part = part[spaces:]
        _append_plain(element, last, part)
        at_start = at_start and not part
    return last


def _append_plain(element: Element, last: Element | None, text: str) -> None:
    if text and last is not None:
        last.tail = (last.tail or "") + text
    elif text:
        element.text = (element.text or "") + text
