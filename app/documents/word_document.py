"""Word documents (.docx): all paragraphs of the text, headers, footers and notes are translated. Comments, fields and
text deleted by tracked changes are kept."""

from __future__ import annotations

import copy
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Literal, TypeAlias

from app.documents.document_reader import FormattedDocument, TextPiece, refuse_entities
from app.text.language_codes import base_language

if TYPE_CHECKING:
    from docx.opc.part import Part
    from docx.oxml.xmlchemy import BaseOxmlElement as Element

    WordPart: TypeAlias = "Element | RunPart"

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
_GROUPS = frozenset(
    f"{_W}{tag}" for tag in ("hyperlink", "ins", "smartTag", "moveTo", "sdt", "sdtContent", "customXml", "dir", "bdo")
)
_BREAKS = frozenset(f"{_W}{tag}" for tag in ("tab", "br", "cr", "ptab", "fldChar", "instrText", "sym"))
_PROPERTIES = frozenset(f"{_W}{tag}" for tag in ("pPr", "rPr", "sdtPr", "sdtEndPr", "smartTagPr", "customXmlPr"))
_MAX_TITLE = 255  # characters, as Word takes
_SPELLING = f"{_W}proofErr"  # a spelling mistake of the source


class WordDocument(FormattedDocument["WordPart"]):
    kind = "a Word document (.docx)"

    def _opened(self, file: io.BytesIO) -> Iterator[tuple[Element, list[TextPiece[WordPart]]]]:
        # Imported here: few servers translate files.
        from docx import Document
        from docx.oxml.parser import parse_xml

        self._document = Document(file)
        self._raw_parts: list[tuple[Part, Element]] = []  # which the library keeps as bytes
        self._formattings: dict[tuple[object, ...], int] = {}
        for part in self._document.part.package.iter_parts():
            if not part.content_type.endswith(_PARTS):
                continue
            root = getattr(part, "element", None)
            if root is None:
                root = parse_xml(part.blob)
                self._raw_parts.append((part, root))
            refuse_entities(root)
            for paragraph in list(root.iter(f"{_W}p")):
                yield paragraph, list(self._pieces(paragraph))

    def _title(self) -> str:
        return self._document.core_properties.title or ""

    def _set_title(self, title: str) -> None:
        self._document.core_properties.title = title[:_MAX_TITLE]

    def _set_language(self, language: str) -> None:
        """Declares `language` where the document declares its main language, the one of most <w:lang> elements."""
        attribute = _W + _LANGUAGES.get(base_language(language), "val")
        roots = [part.element for part in self._document.part.package.iter_parts() if hasattr(part, "element")]
        elements = [
            element for root in (*roots, *(root for _, root in self._raw_parts)) for element in root.iter(_LANGUAGE)
        ]
        codes = Counter(base_language(code) for element in elements if (code := element.get(f"{_W}val")))
        main = codes.most_common(1)[0][0] if codes else ""
        for element in elements:
            code = element.get(f"{_W}val")
            if code is not None and base_language(code) == main:
                element.set(attribute, language)
        if self._document.core_properties.language:
            self._document.core_properties.language = language

    def _fill(self, container: WordPart, pieces: Sequence[TextPiece[WordPart]]) -> None:
        """Writes `pieces` into `container`. Text outside of a run is added to the run before it; without one, to the
        run after it; without either, it gets a new run. Neighbouring parts of runs with equal properties become one
        run."""
        from docx.oxml.parser import OxmlElement

        assert not isinstance(container, RunPart)
        for child in list(container):
            if child.tag not in _PROPERTIES:
                container.remove(child)
        texts: list[str] = []  # not written yet
        run: Element | None = None  # the last child, where it is a new run
        formatting = -1  # of `run`

        def write() -> None:
            text = "".join(texts)
            texts.clear()
            if text:
                if run is None:
                    container.append(OxmlElement("w:r"))
                (container[-1] if run is None else run).append(_text_element(text))

        for piece in pieces:
            part = piece.element
            if part is None:
                texts.append(piece.text)
            elif isinstance(part, RunPart):
                if run is None or part.formatting != formatting:
                    if run is not None:
                        write()
                    run, formatting = part.empty_run(), part.formatting
                    container.append(run)
                texts += [text.text for text in piece.within]
                if part.other is not None:
                    write()
                    run.append(part.other)
            else:
                write()
                run = None
                if piece.kind == "group":
                    self._fill(part, piece.within)
                container.append(part)
        write()

    def _save(self, file: io.BytesIO) -> None:
        from docx.opc.oxml import serialize_part_xml

        for part, root in self._raw_parts:
            part._blob = serialize_part_xml(root)  # the library has no setter for these parts
        self._document.save(file)

    def _pieces(self, container: Element) -> Iterator[TextPiece[WordPart]]:
        """Neighbouring texts with the same formatting are one: programs cut runs anywhere, also within words."""
        for _, alike in groupby(self._cut_pieces(container), key=_formatting_of_text):
            first, *others = alike
            if others:
                first.within = [TextPiece("text", "".join(piece.within[0].text for piece in (first, *others)))]
            yield first

    def _cut_pieces(self, container: Element) -> Iterator[TextPiece[WordPart]]:
        for child in container:
            if child.tag == _RUN:
                yield from self._run_pieces(child)
            elif child.tag in _GROUPS:
                yield TextPiece("group", element=child, within=list(self._pieces(child)))
            elif child.tag not in _PROPERTIES and child.tag != _SPELLING:
                yield TextPiece("mark", element=child)

    def _run_pieces(self, run: Element) -> Iterator[TextPiece[WordPart]]:
        """Its texts, and what is between them; a run without text is one piece."""
        parts = [part for part in run if part.tag not in _PROPERTIES]
        if not any(part.tag in _TEXTS for part in parts):
            yield TextPiece("break" if any(part.tag in _BREAKS for part in parts) else "mark", element=run)
            return
        formatting = self._formatting(run)
        for is_text, alike in groupby(parts, key=lambda part: part.tag in _TEXTS):
            if is_text:
                text = "".join(_HYPHENS.get(part.tag, part.text or "") for part in alike)
                yield TextPiece("group", element=RunPart(run, formatting), within=[TextPiece("text", text)])
            else:
                for part in alike:
                    kind: Literal["break", "mark"] = "break" if part.tag in _BREAKS else "mark"
                    yield TextPiece(kind, element=RunPart(run, formatting, part))

    def _formatting(self, run: Element) -> int:
        """The same number for runs with equal properties."""
        properties = run.find(_RUN_PROPERTIES)
        elements = () if properties is None else properties.iter()
        described = tuple((element.tag, len(element), *sorted(element.attrib.items())) for element in elements)
        return self._formattings.setdefault(described, len(self._formattings))


@dataclass(frozen=True, slots=True, eq=False)
class RunPart:
    """A text of a run, or `other`, a tab, a note's number and the like. formatting: equal for equal properties."""

    run: Element
    formatting: int
    other: Element | None = None

    def empty_run(self) -> Element:
        """A run with the properties of this one. Runs are made when they are written, since a run has them once and may
        have any number of parts."""
        from docx.oxml.parser import OxmlElement

        new = OxmlElement("w:r", attrs=dict(self.run.attrib))
        properties = self.run.find(_RUN_PROPERTIES)
        if properties is not None:
            new.append(copy.deepcopy(properties))
        return new


def _formatting_of_text(piece: TextPiece[WordPart]) -> tuple[str, int]:
    part = piece.element
    if isinstance(part, RunPart) and part.other is None:
        return "text", part.formatting
    return "other", id(piece)


def _text_element(text: str) -> Element:
    from docx.oxml.parser import OxmlElement

    element = OxmlElement("w:t")
    element.text = text
    element.set(_SPACE, "preserve")
    return element
