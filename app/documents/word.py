"""Word documents: paragraphs of the body, of tables, text boxes, headers, footers, footnotes and endnotes. Comments,
fields and what a tracked change has deleted stay as they are."""

from __future__ import annotations

import copy
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from app.documents import inline, packed
from app.documents.document import readable
from app.documents.inline import Piece
from app.translation.job import TextFormat

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

        with readable("a Word document (.docx)"):
            packed.check(content)
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
            found = [(each, list(_pieces(each))) for root in roots for each in list(root.iter(f"{_WORD}p"))]
            self._paragraphs = [(each, pieces) for each, pieces in found if inline.says(pieces)]
        self.texts = [inline.page(pieces) for _, pieces in self._paragraphs]

    def written(self, translations: Sequence[str]) -> bytes:
        from docx.opc.oxml import serialize_part_xml

        for (paragraph, pieces), translation in zip(self._paragraphs, translations, strict=True):
            _fill(paragraph, inline.rebuilt(pieces, translation))
        for part, root in self._notes:
            part._blob = serialize_part_xml(root)  # the library has no setter for parts that it does not know
        out = io.BytesIO()
        self._document.save(out)
        return out.getvalue()


def read(content: bytes) -> WordDocument:
    return WordDocument(content)


def _pieces(container: Any) -> Iterator[Piece]:
    for each in container.findall(_SPELLING):
        container.remove(each)
    for run in container.findall(f"{_WORD}r"):
        _split(run)
    _merge(container)
    for child in container:
        if child.tag == f"{_WORD}r":
            yield _run(child)
        elif child.tag in _GROUPS:
            yield Piece("group", handle=child, within=list(_pieces(child)))
        elif child.tag not in _PROPERTIES:
            yield Piece("mark", handle=child)


def _split(run: Any) -> None:
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


def _merge(container: Any) -> None:
    """Runs beside each other that look alike become one: programs cut them anywhere, also within words."""
    last = None
    for child in list(container):
        if child.tag != f"{_WORD}r" or not _is_text(child):
            last = None
        elif last is not None and _look(last) == _look(child):
            for each in child.findall("*"):
                if each.tag in _TEXTS:
                    last.append(each)
            container.remove(child)
        else:
            last = child


def _is_text(run: Any) -> bool:
    return any(child.tag in _TEXTS for child in run) and all(
        child.tag in _TEXTS or child.tag in _PROPERTIES for child in run
    )


def _look(run: Any) -> bytes:
    from docx.opc.oxml import serialize_part_xml

    properties = run.find(f"{_WORD}rPr")
    return b"" if properties is None else serialize_part_xml(properties)


def _run(run: Any) -> Piece:
    if _is_text(run):
        text = "".join(_HYPHENS.get(child.tag, child.text or "") for child in run if child.tag in _TEXTS)
        return Piece("group", handle=run, within=[Piece("text", text)])
    return Piece("break" if any(child.tag in _BREAKS for child in run) else "mark", handle=run)


def _fill(container: Any, pieces: Sequence[Piece]) -> None:
    for child in list(container):
        if child.tag not in _PROPERTIES:
            container.remove(child)
    for piece in _within_runs(pieces):
        if piece.kind == "group" and piece.handle.tag == f"{_WORD}r":
            _write(piece.handle, "".join(each.text for each in piece.within))
        elif piece.kind == "group":
            _fill(piece.handle, piece.within)
        container.append(piece.handle)


def _within_runs(pieces: Sequence[Piece]) -> Iterable[Piece]:
    """Text between two runs goes to the run before it, or else to the one behind; without any, to a new one."""
    from docx.oxml.parser import OxmlElement

    done: list[Piece] = []
    waiting = ""
    for each in pieces:
        if each.kind == "text":
            if done and _holds_text(done[-1]):
                done[-1] = Piece("group", handle=done[-1].handle, within=[*done[-1].within, each])
            else:
                waiting += each.text
        elif waiting and _holds_text(each):
            done.append(Piece("group", handle=each.handle, within=[Piece("text", waiting), *each.within]))
            waiting = ""
        else:
            if waiting:
                done.append(Piece("group", handle=OxmlElement("w:r"), within=[Piece("text", waiting)]))
                waiting = ""
            done.append(each)
    if waiting:
        done.append(Piece("group", handle=OxmlElement("w:r"), within=[Piece("text", waiting)]))
    return done


def _holds_text(piece: Piece) -> bool:
    return piece.kind == "group" and piece.handle.tag == f"{_WORD}r"


def _write(run: Any, text: str) -> None:
    for child in list(run):
        if child.tag in _TEXTS:
            run.remove(child)
    made = run.makeelement(f"{_WORD}t")
    made.text = text
    made.set(_SPACE, "preserve")
    run.append(made)
