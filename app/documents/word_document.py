"""Word documents: all paragraphs; comments, fields and deletions by tracked changes stay as they are."""

from __future__ import annotations

import copy
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from app.documents.document_reader import FormattedDocument, TextPiece

if TYPE_CHECKING:
    from docx.opc.part import Part
    from docx.oxml.xmlchemy import BaseOxmlElement as Element

_PARTS = tuple(
    f"wordprocessingml.{part}+xml" for part in ("document.main", "header", "footer", "footnotes", "endnotes")
)
_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_RUN = f"{_W}r"
_RUN_PROPERTIES = f"{_W}rPr"
_LANGUAGE = f"{_W}lang"
_LANGUAGES = {
    "zh": "eastAsia",
    "ja": "eastAsia",
    "ko": "eastAsia",
    "ar": "bidi",
    "he": "bidi",
    "fa": "bidi",
    "ur": "bidi",
}
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
_HYPHENS = {f"{_W}noBreakHyphen": "\u2011", f"{_W}softHyphen": "\u00ad"}
_TEXTS = frozenset({f"{_W}t", *_HYPHENS})
_GROUPS = frozenset(f"{_W}{tag}" for tag in ("hyperlink", "ins", "smartTag", "moveTo", "sdt", "sdtContent"))
_BREAKS = frozenset(f"{_W}{tag}" for tag in ("tab", "br", "cr", "ptab", "fldChar", "instrText", "sym"))
_PROPERTIES = frozenset(f"{_W}{tag}" for tag in ("pPr", "rPr", "sdtPr", "sdtEndPr", "smartTagPr"))
_MAX_TITLE = 255  # characters, as Word takes
_SPELLING = f"{_W}proofErr"  # a spelling mistake of the source


class WordDocument(FormattedDocument["Element"]):
    kind = "a Word document (.docx)"

    def _opened(self, file: io.BytesIO) -> Iterator[tuple[Element, list[TextPiece[Element]]]]:
        # Imported here: few servers translate files.
        from docx import Document
        from docx.oxml.parser import parse_xml

        self._document = Document(file)
        self._raw_parts: list[tuple[Part, Element]] = []  # which the library keeps as bytes
        for part in self._document.part.package.iter_parts():
            if not part.content_type.endswith(_PARTS):
                continue
            root = getattr(part, "element", None)
            if root is None:
                root = parse_xml(part.blob)
                self._raw_parts.append((part, root))
            for paragraph in list(root.iter(f"{_W}p")):
                yield paragraph, list(_paragraph_pieces(paragraph))

    def _title(self) -> str:
        return self._document.core_properties.title or ""

    def _set_title(self, title: str) -> None:
        self._document.core_properties.title = title[:_MAX_TITLE]

    def _set_language(self, language: str) -> None:
        """For text in the language of most <w:lang> elements; passages marked as in another one keep theirs."""
        attribute = _W + _LANGUAGES.get(language.partition("-")[0].lower(), "val")
        roots = [part.element for part in self._document.part.package.iter_parts() if hasattr(part, "element")]
        elements = [
            element for root in (*roots, *(root for _, root in self._raw_parts)) for element in root.iter(_LANGUAGE)
        ]
        codes = Counter(code.partition("-")[0].lower() for element in elements if (code := element.get(f"{_W}val")))
        main = codes.most_common(1)[0][0] if codes else ""
        for element in elements:
            code = element.get(f"{_W}val")
            if code is not None and code.partition("-")[0].lower() == main:
                element.set(attribute, language)
        if self._document.core_properties.language:
            self._document.core_properties.language = language

    def _fill(self, container: Element, pieces: Sequence[TextPiece[Element]]) -> None:
        """Text between two runs goes to the run before it, or else to the one behind it, or else to a new one."""
        from docx.oxml.parser import OxmlElement

        for child in list(container):
            if child.tag not in _PROPERTIES:
                container.remove(child)
        run: Element | None = None  # the last child, where it is a run
        waiting = ""  # text that has no run yet
        for piece in pieces:
            element = piece.element
            if element is None and run is not None:
                run[-1].text += piece.text
            elif element is None:
                waiting += piece.text
            elif piece.kind == "group" and element.tag == _RUN:
                run, waiting = _with_text(element, waiting + "".join(text.text for text in piece.within)), ""
                container.append(run)
            else:
                if waiting:
                    container.append(_with_text(OxmlElement("w:r"), waiting))
                run, waiting = None, ""
                if piece.kind == "group":
                    self._fill(element, piece.within)
                container.append(element)
        if waiting:
            container.append(_with_text(OxmlElement("w:r"), waiting))

    def _save(self, file: io.BytesIO) -> None:
        from docx.opc.oxml import serialize_part_xml

        for part, root in self._raw_parts:
            part._blob = serialize_part_xml(root)  # the library has no setter for these parts
        self._document.save(file)


def _paragraph_pieces(container: Element) -> Iterator[TextPiece[Element]]:
    for mistake in container.findall(_SPELLING):
        container.remove(mistake)
    for run in container.findall(_RUN):
        _split_run(run)
    _merge_equal_runs(container)
    for child in container:
        if _is_text_run(child):
            text = "".join(_HYPHENS.get(part.tag, part.text or "") for part in child if part.tag in _TEXTS)
            yield TextPiece("group", element=child, within=[TextPiece("text", text)])
        elif child.tag == _RUN:
            yield TextPiece("break" if any(part.tag in _BREAKS for part in child) else "mark", element=child)
        elif child.tag in _GROUPS:
            yield TextPiece("group", element=child, within=list(_paragraph_pieces(child)))
        elif child.tag not in _PROPERTIES:
            yield TextPiece("mark", element=child)


def _split_run(run: Element) -> None:
    """Into runs of either text alone or one other thing, all formatted as the run was."""
    properties, current = run.find(_RUN_PROPERTIES), run
    for before, child in pairwise([child for child in run if child is not properties]):
        if before.tag not in _TEXTS or child.tag not in _TEXTS:
            new = run.makeelement(run.tag, dict(run.attrib), nsmap=run.nsmap)
            if properties is not None:
                new.append(copy.deepcopy(properties))
            current.addnext(new)
            current = new
        if current is not run:
            current.append(child)


def _merge_equal_runs(container: Element) -> None:
    """Neighbouring runs with the same formatting become one: programs cut them anywhere, also within words."""
    for _, alike in groupby(list(container), key=lambda child: _formatting(child) if _is_text_run(child) else child):
        first, *others = alike
        for run in others:
            first.extend([part for part in run if part.tag in _TEXTS])
            container.remove(run)


def _is_text_run(element: Element) -> bool:
    tags = {child.tag for child in element} - _PROPERTIES
    return element.tag == _RUN and bool(tags) and tags <= _TEXTS


def _formatting(run: Element) -> bytes:
    from docx.opc.oxml import serialize_part_xml

    properties = run.find(_RUN_PROPERTIES)
    return b"" if properties is None else serialize_part_xml(properties)


def _with_text(run: Element, text: str) -> Element:
    """The run with `text` as its last child, in place of its own text."""
    for child in list(run):
        if child.tag in _TEXTS:
            run.remove(child)
    written = run.makeelement(f"{_W}t")
    written.text = text
    written.set(_SPACE, "preserve")
    run.append(written)
    return run
