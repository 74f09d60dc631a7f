"""Word documents: paragraphs of the body, of tables, text boxes, headers, footers, footnotes and endnotes. Comments,
fields and what a tracked change has deleted stay as they are."""

from __future__ import annotations

import copy
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from app.documents import document_reader
from app.documents.document_reader import TextPiece, blaming_the_file
from app.translation.text_request import TextFormat

_KIND = "a Word document (.docx)"
_PARTS = tuple(
    f"wordprocessingml.{each}+xml" for each in ("document.main", "header", "footer", "footnotes", "endnotes")
)
_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
_HYPHENS = {f"{_WORD}noBreakHyphen": "\u2011", f"{_WORD}softHyphen": "\u00ad"}
_TEXTS = frozenset({f"{_WORD}t", *_HYPHENS})
_GROUPS = frozenset(f"{_WORD}{each}" for each in ("hyperlink", "ins", "smartTag", "moveTo", "sdt", "sdtContent"))
_BREAKS = frozenset(f"{_WORD}{each}" for each in ("tab", "br", "cr", "ptab", "fldChar", "instrText", "sym"))
_PROPERTIES = frozenset(f"{_WORD}{each}" for each in ("pPr", "rPr", "sdtPr", "sdtEndPr", "smartTagPr"))
_SPELLING = f"{_WORD}proofErr"  # where the old text was misspelt


class WordDocument:
    format: TextFormat = "html"

    def __init__(self, content: bytes) -> None:
        # Here and not at the top: it is needed once somebody translates a file.
        from docx import Document
        from docx.oxml.parser import parse_xml

        with blaming_the_file(_KIND):
            document_reader.check_package(content)
            self._document = Document(io.BytesIO(content))
            self._notes: list[tuple[Any, Any]] = []  # parts that the library keeps as bytes
            roots = []
            for part in self._document.part.package.iter_parts():
                if not part.content_type.endswith(_PARTS):
                    continue
                root = getattr(part, "element", None)
                if root is None:
                    root = parse_xml(part.blob)
                    self._notes.append((part, root))
                roots.append(root)
            found = [(each, list(_paragraph_pieces(each))) for root in roots for each in list(root.iter(f"{_WORD}p"))]
            self._paragraphs = [(each, pieces) for each, pieces in found if document_reader.has_text(pieces)]
        self.texts = [document_reader.paragraph_html(pieces) for _, pieces in self._paragraphs]

    def written(self, translations: Sequence[str]) -> bytes:
        from docx.opc.oxml import serialize_part_xml

        for (paragraph, pieces), translation in zip(self._paragraphs, translations, strict=True):
            _fill_container(paragraph, document_reader.paragraph_pieces(pieces, translation))
        out = io.BytesIO()
        with blaming_the_file(_KIND):
            for part, root in self._notes:
                part._blob = serialize_part_xml(root)  # the library has no setter for parts that it does not know
            self._document.save(out)
        return out.getvalue()


def read_word_document(content: bytes) -> WordDocument:
    return WordDocument(content)


def _paragraph_pieces(container: Any) -> Iterator[TextPiece]:
    for each in container.findall(_SPELLING):
        container.remove(each)
    for run in container.findall(f"{_WORD}r"):
        _split_run(run)
    _merge_equal_runs(container)
    for child in container:
        if child.tag == f"{_WORD}r":
            yield _run_piece(child)
        elif child.tag in _GROUPS:
            yield TextPiece("group", handle=child, within=list(_paragraph_pieces(child)))
        elif child.tag not in _PROPERTIES:
            yield TextPiece("mark", handle=child)


def _split_run(run: Any) -> None:
    """Into runs of nothing but text or of one other thing each, formatted as it was."""
    properties = run.find(f"{_WORD}rPr")
    kinds = [child.tag in _TEXTS for child in run if child is not properties]
    if len(kinds) < 2 or all(kinds):
        return
    current, was_text = run, None
    for child in [child for child in run if child is not properties]:
        is_text = child.tag in _TEXTS
        if was_text is not None and not (was_text and is_text):
            new = run.makeelement(run.tag, dict(run.attrib), nsmap=run.nsmap)
            if properties is not None:
                new.append(copy.deepcopy(properties))
            current.addnext(new)
            current = new
        if current is not run:
            current.append(child)
        was_text = is_text


def _merge_equal_runs(container: Any) -> None:
    """Runs beside each other that look alike become one: programs cut them anywhere, also within words."""
    last = None
    for child in list(container):
        if child.tag != f"{_WORD}r" or not _is_text_run(child):
            last = None
        elif last is not None and _formatting(last) == _formatting(child):
            for each in child.findall("*"):
                if each.tag in _TEXTS:
                    last.append(each)
            container.remove(child)
        else:
            last = child


def _is_text_run(run: Any) -> bool:
    return any(child.tag in _TEXTS for child in run) and all(
        child.tag in _TEXTS or child.tag in _PROPERTIES for child in run
    )


def _formatting(run: Any) -> bytes:
    from docx.opc.oxml import serialize_part_xml

    properties = run.find(f"{_WORD}rPr")
    return b"" if properties is None else serialize_part_xml(properties)


def _run_piece(run: Any) -> TextPiece:
    if _is_text_run(run):
        text = "".join(_HYPHENS.get(child.tag, child.text or "") for child in run if child.tag in _TEXTS)
        return TextPiece("group", handle=run, within=[TextPiece("text", text)])
    return TextPiece("break" if any(child.tag in _BREAKS for child in run) else "mark", handle=run)


def _fill_container(container: Any, pieces: Sequence[TextPiece]) -> None:
    for child in list(container):
        if child.tag not in _PROPERTIES:
            container.remove(child)
    for piece in _texts_in_runs(pieces):
        if piece.kind == "group" and piece.handle.tag == f"{_WORD}r":
            _set_run_text(piece.handle, "".join(each.text for each in piece.within))
        elif piece.kind == "group":
            _fill_container(piece.handle, piece.within)
        container.append(piece.handle)


def _texts_in_runs(pieces: Sequence[TextPiece]) -> Iterable[TextPiece]:
    """Text between two runs goes to the run before it, or else to the one behind; without any, to a new one."""
    from docx.oxml.parser import OxmlElement

    done: list[TextPiece] = []
    waiting = ""
    for each in pieces:
        if each.kind == "text":
            if done and _is_run_piece(done[-1]):
                done[-1] = TextPiece("group", handle=done[-1].handle, within=[*done[-1].within, each])
            else:
                waiting += each.text
        elif waiting and _is_run_piece(each):
            done.append(TextPiece("group", handle=each.handle, within=[TextPiece("text", waiting), *each.within]))
            waiting = ""
        else:
            if waiting:
                done.append(TextPiece("group", handle=OxmlElement("w:r"), within=[TextPiece("text", waiting)]))
                waiting = ""
            done.append(each)
    if waiting:
        done.append(TextPiece("group", handle=OxmlElement("w:r"), within=[TextPiece("text", waiting)]))
    return done


def _is_run_piece(piece: TextPiece) -> bool:
    return piece.kind == "group" and piece.handle.tag == f"{_WORD}r"


def _set_run_text(run: Any, text: str) -> None:
    for child in list(run):
        if child.tag in _TEXTS:
            run.remove(child)
    made = run.makeelement(f"{_WORD}t")
    made.text = text
    made.set(_SPACE, "preserve")
    run.append(made)
