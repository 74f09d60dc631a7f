"""OpenDocument texts: paragraphs and headings of the body, of tables, lists, notes and text boxes, of headers and
footers. Comments and what a tracked change has deleted stay as they are."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from app.documents import inline, packed
from app.documents.document import readable
from app.documents.inline import Piece
from app.engine.errors import InvalidRequest
from app.translation.job import TextFormat

if TYPE_CHECKING:
    from odfdo import Element

_KIND = "an OpenDocument text (.odt)"
_PARAGRAPHS = (
    "//*[self::text:p or self::text:h][not(ancestor::text:tracked-changes) and not(ancestor::office:annotation)]"
)
_GROUPS = frozenset({"text:span", "text:a", "text:meta", "text:ruby", "text:ruby-base"})
_BREAKS = frozenset({"text:tab", "text:line-break"})
_SPACES = re.compile(r"[ \t\r\n]+")
_MOST_SPACES = 1000  # in a row


class OpenDocument:
    format: TextFormat = "html"

    def __init__(self, content: bytes) -> None:
        # Here and not at the top: it is needed once somebody translates a file.
        from odfdo import Document

        with readable(_KIND):
            packed.check(content)
            self._document = Document(io.BytesIO(content))
            if self._document.get_type() not in ("text", "text-template"):
                raise InvalidRequest("The file is an OpenDocument, and not of text; .odt files can be translated.")
            roots = [self._document.content.root, self._document.styles.root]
            found = [(each, list(_pieces(each))) for root in roots for each in root.get_elements(_PARAGRAPHS)]
            self._paragraphs = [(each, pieces) for each, pieces in found if inline.says(pieces)]
        self.texts = [inline.page(pieces) for _, pieces in self._paragraphs]

    def written(self, translations: Sequence[str]) -> bytes:
        for (paragraph, pieces), translation in zip(self._paragraphs, translations, strict=True):
            _fill(paragraph, inline.rebuilt(pieces, translation))
        out = io.BytesIO()
        with readable(_KIND):
            self._document.save(out, pretty=False)
        return out.getvalue()


def read(content: bytes) -> OpenDocument:
    return OpenDocument(content)


def _pieces(element: Element) -> Iterator[Piece]:
    yield from _text(element.text)
    for child in element.children:
        if child.tag == "text:s":
            yield Piece("text", " " * min(child.get_attribute_integer("text:c") or 1, _MOST_SPACES))
        elif child.tag in _GROUPS:
            yield Piece("group", handle=child, within=list(_pieces(child)))
        else:
            yield Piece("break" if child.tag in _BREAKS else "mark", handle=child)
        yield from _text(child.tail)


def _text(text: str | None) -> Iterator[Piece]:
    if text:
        yield Piece("text", _SPACES.sub(" ", text))


def _fill(element: Element, pieces: Iterable[Piece], *, first: bool = True) -> None:
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
                _fill(piece.handle, piece.within, first=first)
        first = False


def _append_text(element: Element, last: Element | None, text: str, *, first: bool) -> Element | None:
    """Spaces in a row are one space to OpenDocument, the others are written as elements. Gives the last child."""
    from odfdo import Element

    for part in re.split(r"( {2,})", text):
        if (first and part.startswith(" ")) or part.startswith("  "):
            spaces = len(part) - len(part.lstrip(" "))
            shown = 0 if first else 1
            _append(element, last, " " * shown)
            made = Element.from_tag("text:s")
            made.set_attribute("text:c", str(spaces - shown))
            element.append(made)
            last = made
            part = part[spaces:]
        _append(element, last, part)
        first = first and not part
    return last


def _append(element: Element, last: Element | None, text: str) -> None:
    if not text:
        return
    if last is not None:
        last.tail = (last.tail or "") + text
    else:
        element.text = (element.text or "") + text
