"""OpenDocument texts (.odt), spreadsheets (.ods) and presentations (.odp).

All paragraphs and headings are translated, except comments, text deleted by tracked changes, and cells that show a
number, a date or the result of a formula."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from app.documents.document_reader import FormattedDocument, TextPiece, refuse_entities
from app.errors import InvalidRequest

if TYPE_CHECKING:
    from lxml.etree import _Element
    from odfdo import Element

_PARAGRAPHS = (
    "//*[self::text:p or self::text:h][not(ancestor::text:tracked-changes) and not(ancestor::office:annotation)"
    " and not(ancestor::table:table-cell[@table:formula or @office:value-type[. != 'string']])]"
)
_KINDS = ("text", "text-template", "spreadsheet", "presentation")
_GROUPS = frozenset({"text:span", "text:a", "text:meta", "text:ruby", "text:ruby-base"})
_BREAKS = frozenset({"text:tab", "text:line-break"})
_SPACES = re.compile(r"[ \t\r\n]+")
_MAX_SPACES = 1000  # in a row


class OpenDocument(FormattedDocument["Element"]):
    kind = "an OpenDocument (.odt, .ods, .odp)"

    def _opened(self, file: io.BytesIO) -> Iterator[tuple[Element, list[TextPiece[Element]]]]:
        # Imported here: few servers translate files.
        from odfdo import Document

        self._document = Document(file)
        if self._document.get_type() not in _KINDS:
            sentence = "The file is an OpenDocument of another kind; .odt, .ods and .odp files can be translated."
            raise InvalidRequest(sentence)
        for root in (self._document.content.root, self._document.styles.root):
            refuse_entities(root._xml_element)
            for paragraph in root.get_elements(_PARAGRAPHS):
                first, *rest = _element_pieces(paragraph)
                first.text = first.text.lstrip(" ")  # which no program shows: a file may be indented
                yield paragraph, [first, *rest]

    def _title(self) -> str:
        return self._document.meta.title or ""

    def _set_title(self, title: str) -> None:
        self._document.meta.title = title

    def _set_language(self, language: str) -> None:
        """Declares `language` in the properties and the default styles. A passage whose own style declares another
        language keeps it."""
        code, _, country = language.partition("-")
        if self._document.meta.language:
            self._document.meta.language = language
        for style in self._document.styles.root.get_elements("//style:default-style/style:text-properties"):
            if style.get_attribute("fo:language"):
                style.set_attribute("fo:language", code)
                style.set_attribute("fo:country", country.upper() or "none")

    def _fill(self, element: Element, pieces: Sequence[TextPiece[Element]], *, at_start: bool = True) -> None:
        """Writes `pieces` into `element`. OpenDocument collapses spaces in a row into one and drops spaces at the start
        of a paragraph; the lost spaces are written as <text:s> elements. By lxml: odfdo appends a <text:s> to a
        paragraph as a copy, after which nothing can be written."""
        from odfdo import Element

        xml = element._xml_element
        del xml[:]
        xml.text = None
        last: _Element | None = None  # the last child
        texts: list[str] = []  # after `last`, not written yet

        def write() -> None:
            text = "".join(texts)
            texts.clear()
            if text and last is not None:
                last.tail = text
            elif text:
                xml.text = text

        for piece in pieces:
            if piece.element is not None:
                write()
                last = piece.element._xml_element
                last.tail = None
                xml.append(last)
                if piece.kind == "group":
                    self._fill(piece.element, piece.within, at_start=at_start)
            for part in re.split("( +)", piece.text):
                spaces = part.count(" ")
                plain = part if not spaces else "" if at_start else " "
                texts.append(plain)
                if spaces > len(plain):
                    write()
                    spacer = Element.from_tag("text:s")
                    spacer.set_attribute("text:c", str(spaces - len(plain)))
                    last = spacer._xml_element
                    xml.append(last)
                at_start = at_start and not plain
            at_start = False
        write()

    def _save(self, file: io.BytesIO) -> None:
        # Programs show this value of a cell rather than its paragraphs.
        for cell in self._document.content.root.get_elements("//*[@office:string-value][not(@table:formula)][text:p]"):
            cell.set_attribute("office:string-value", "\n".join(p.text_recursive for p in cell.get_elements("text:p")))
        self._document.save(file, pretty=False)


def _element_pieces(element: Element) -> Iterator[TextPiece[Element]]:
    from odfdo import Element

    yield TextPiece("text", _SPACES.sub(" ", element._xml_element.text or ""))
    for xml in element._xml_element:
        if not isinstance(xml.tag, str):  # an XML comment or a processing instruction, which is not kept
            yield TextPiece("text", _SPACES.sub(" ", xml.tail or ""))
            continue
        child = Element.from_tag(xml)
        if child.tag == "text:s":
            yield TextPiece("text", " " * min(child.get_attribute_integer("text:c") or 1, _MAX_SPACES))
        elif child.tag in _GROUPS:
            yield TextPiece("group", element=child, within=list(_element_pieces(child)))
        else:
            yield TextPiece("break" if child.tag in _BREAKS else "mark", element=child)
        yield TextPiece("text", _SPACES.sub(" ", child.tail or ""))
