"""What every kind of file is read as, and what formats of word processors share: how far a package may unpack, and a
paragraph of formatted text as HTML, so that its formatting follows the word alignment.
"""

from __future__ import annotations

import html
import io
import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from app.engine.errors import InvalidRequest
from app.text.html_passages import tokenize_page
from app.translation.text_request import TextFormat


class Document(Protocol):
    """texts: what is to be translated, in order; format: what they are."""

    @property
    def texts(self) -> Sequence[str]: ...

    @property
    def format(self) -> TextFormat: ...

    def written(self, translations: Sequence[str]) -> bytes:
        """The file with these in their places; called once, with one for each of `texts`."""
        ...


@contextmanager
def blaming_the_file(kind: str) -> Iterator[None]:
    """What a library says to a broken file can be any exception: here all of them are the file's fault."""
    try:
        yield
    except InvalidRequest:
        raise
    except Exception as failure:
        raise InvalidRequest(
            f"The file cannot be read as {kind}; open it in its program and save it again."
        ) from failure


MAX_UNPACKED = 100_000_000  # unpacked
_MAX_PACKAGE_FILES = 5000
_MAX_RATIO = 100  # unpacked to packed, of more than
_SMALL_BYTES = 10_000_000  # bytes


def check_package(content: bytes) -> None:
    """Raises InvalidRequest for a package that unpacks too far, or whose XML declares entities. Its sizes are what it
    says itself: nothing reads on behind them."""
    with zipfile.ZipFile(io.BytesIO(content)) as package:
        entries = package.infolist()
        size = sum(each.file_size for each in entries)
        if size > MAX_UNPACKED or (size > _SMALL_BYTES and size > _MAX_RATIO * len(content)):
            raise InvalidRequest(
                f"The file unpacks to {size:,} bytes; it may be {MAX_UNPACKED:,}, and {_MAX_RATIO} times its own size."
            )
        if len(entries) > _MAX_PACKAGE_FILES:
            raise InvalidRequest(f"The file is a package of {len(entries):,} files; it may be {_MAX_PACKAGE_FILES:,}.")
        for each in entries:
            if each.filename.endswith((".xml", ".rels")) and _declares_doctype(package.read(each)):
                raise InvalidRequest("The file declares XML entities, which no document of its kind needs.")


def _declares_doctype(xml: bytes) -> bool:
    """In UTF-8 or in UTF-16, whose every second byte is zero here."""
    return b"<!DOCTYPE" in xml.replace(b"\0", b"")


_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_PIECE_TAGS = {"group": "span", "mark": "img", "break": "br"}


@dataclass(frozen=True, slots=True)
class TextPiece:
    """text: as it is read. group: formatting around others. mark: an image, a note's number, within a sentence. break:
    a tab, a new line: what stands before and behind it is translated apart. handle: whose it is in the file."""

    kind: Literal["text", "group", "mark", "break"]
    text: str = ""
    handle: Any = None
    within: Sequence[TextPiece] = field(default=())


def has_text(pieces: Iterable[TextPiece]) -> bool:
    return any(each.text.strip() or has_text(each.within) for each in pieces)


def paragraph_html(pieces: Sequence[TextPiece]) -> str:
    """In a <pre>, since every space counts."""
    return f"<pre>{''.join(_tagged_html(pieces, iter(range(10**9))))}</pre>"


def _tagged_html(pieces: Sequence[TextPiece], numbers: Iterator[int]) -> Iterator[str]:
    for each in pieces:
        if each.kind == "text":
            yield html.escape(each.text, quote=False)
            continue
        yield f"<{_PIECE_TAGS[each.kind]} id={next(numbers)}>"
        yield from _tagged_html(each.within, numbers)
        if each.kind == "group":
            yield "</span>"


def paragraph_pieces(pieces: Sequence[TextPiece], translation: str) -> list[TextPiece]:
    """The same pieces around the texts of the translation of their `page`, and in its order."""
    known = list(_numbered_pieces(pieces))
    levels: list[list[TextPiece]] = [[]]
    open_groups: list[TextPiece] = []
    for token in tokenize_page(translation):
        if token.kind in ("text", "reference"):
            levels[-1].append(TextPiece("text", _NO_XML.sub("", token.text)))
        elif token.tag in _PIECE_TAGS.values() and token.kind == "start":
            each = known[int("".join(filter(str.isdigit, token.raw)))]
            if each.kind == "group":
                open_groups.append(each)
                levels.append([])
            else:
                levels[-1].append(each)
        elif token.tag == "span":
            within = levels.pop()
            levels[-1].append(replace(open_groups.pop(), within=_merged_texts(within)))
    return _merged_texts(levels[0])


def _numbered_pieces(pieces: Iterable[TextPiece]) -> Iterator[TextPiece]:
    for each in pieces:
        if each.kind != "text":
            yield each
            yield from _numbered_pieces(each.within)


def _merged_texts(pieces: Iterable[TextPiece]) -> list[TextPiece]:
    joined: list[TextPiece] = []
    for each in pieces:
        if each.kind == "text" and joined and joined[-1].kind == "text":
            joined[-1] = TextPiece("text", joined[-1].text + each.text)
        elif each.kind != "text" or each.text:
            joined.append(each)
    return joined
