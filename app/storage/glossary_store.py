"""Glossaries of callers, one JSON file each: FOLDER/glossaries/<hash of the owner's name>/<id>.json. All processes that
share the folder share the glossaries. No file name contains text that a caller sent. Their entries come as people send
them: lines of a TSV or CSV, or pairs; one reader serves DeepL's glossaries and our own fields and files."""

from __future__ import annotations

import csv
import fcntl
import hashlib
import io
import logging
import os
import re
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from app.errors import EngineUnavailable, InvalidRequest, UnknownGlossary
from app.text.language_codes import closest_codes

EntriesFormat = Literal["tsv", "csv"]

CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_LINE_END = re.compile(r"\r\n?")
_WIDTHS: Mapping[EntriesFormat, tuple[int, ...]] = {"tsv": (2,), "csv": (2, 4)}  # cells of a row
_LOOKED_AT = 100  # rows that show the delimiter
_ADVICE = {"tsv": "a tab", "csv": "a comma or semicolon"}


def add_entry(entries: dict[str, str], source: str, target: str, field: str, line: int = 0) -> None:
    """Adds a term without white space at its edges. `InvalidRequest` for one that is empty, of several lines or there
    already, with the number of its line, if it has one."""
    where = f'Line {line} of "{field}" has' if line else f'"{field}" has'
    if CONTROL_CHARACTER.search(source + target):
        raise InvalidRequest(f"{where} a term with a control character; terms are text of one line.", field=field)
    source, target = source.strip(), target.strip()
    if not source or not target:
        message = f"{where} an empty term; each takes at least one character that is not white space."
    elif source in entries:
        again = "a source term that an earlier line has" if line else "a source term twice"
        message = f"{where} {again}; leave one out."
    else:
        entries[source] = target
        return
    raise InvalidRequest(message, field=field)


def parse_entries(lines: str, form: EntriesFormat | None, field: str = "entries") -> dict[str, str]:
    """Target terms by source term. form: None for that of the first line, which has a tab in a TSV. Skips empty lines
    and byte order marks; lines end in LF, CRLF or CR. A CSV has commas, or semicolons as spreadsheets write it where
    the comma is the decimal sign, and its rows may have two more cells, the languages that DeepL's site writes, which
    are ignored. `InvalidRequest` names the malformed line."""
    lines = _LINE_END.sub("\n", lines.replace("\ufeff", ""))  # also of files that were joined
    if nul := lines.find("\0") + 1:  # which the csv module does not read
        add_entry({}, "\0", "", field, lines.count("\n", 0, nul) + 1)
    form = form or ("tsv" if "\t" in lines.lstrip("\n").partition("\n")[0] else "csv")
    rows: Iterable[list[str]]
    if form == "tsv":
        rows = (line.split("\t") for line in lines.split("\n"))
    else:
        rows = csv.reader(io.StringIO(lines), delimiter=_delimiter(lines), skipinitialspace=True, strict=True)
    entries: dict[str, str] = {}
    try:
        for number, row in enumerate(rows, 1):
            if not any(cell.strip() for cell in row):
                continue
            if len(row) not in _WIDTHS[form]:
                count = "1 cell" if len(row) == 1 else f"{len(row)} cells"
                message = f"write a source term, {_ADVICE[form]}, and its target term."
                raise InvalidRequest(f'Line {number} of "{field}" has {count}; {message}', field=field)
            add_entry(entries, row[0], row[1], field, number)
    except csv.Error as error:
        raise InvalidRequest(f'"{field}" is not csv ({error}); quote cells as RFC 4180 says.', field=field) from None
    return entries


def _delimiter(lines: str) -> str:
    """Of a CSV: the semicolon if more of the first rows have as many cells as they should with it than with a comma."""

    def fitting(delimiter: str) -> int:
        rows, count = csv.reader(io.StringIO(lines), delimiter=delimiter, skipinitialspace=True), 0
        with suppress(csv.Error):  # which the parser reports
            count = sum(len(row) in _WIDTHS["csv"] for row in islice(rows, _LOOKED_AT))
        return count

    return max(",;", key=fitting)


def entries_as_tsv(entries: Mapping[str, str]) -> str:
    return "\n".join(f"{source}\t{target}" for source, target in entries.items())


logger = logging.getLogger(__name__)

T = TypeVar("T")

MOST_DICTIONARIES = 100  # of one glossary
_UNKNOWN = "You have no glossary with this id; GET /v3/glossaries lists yours."
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Dictionary(msgspec.Struct, frozen=True):
    """Source term -> target term of one pair; its codes are the caller's in lower case, or a loaded pair's."""

    source: str
    target: str
    entries: dict[str, str]

    @property
    def pair(self) -> tuple[str, str]:
        return self.source, self.target


class Glossary(msgspec.Struct, frozen=True):
    """A named set of dictionaries, at most one per language pair."""

    id: str
    name: str
    created: datetime
    dictionaries: tuple[Dictionary, ...] = ()
    format_version: int = 1

    def dictionary(self, source: str, target: str) -> Dictionary | None:
        """The dictionary of this pair, or of the closest pair; None if no pair is close."""
        for from_code in closest_codes(source, [dictionary.source for dictionary in self.dictionaries]):
            by_target = {d.target: d for d in self.dictionaries if d.source == from_code}
            for to_code in closest_codes(target, by_target):
                return by_target[to_code]
        return None

    def with_dictionary(self, changed: Dictionary) -> Glossary:
        """Replaces the dictionary of the same pair, or appends."""
        by_pair = {dictionary.pair: dictionary for dictionary in self.dictionaries} | {changed.pair: changed}
        return msgspec.structs.replace(self, dictionaries=tuple(by_pair.values()))


@dataclass(frozen=True, slots=True)
class GlossaryLimits:
    """DeepL's limits; `entries` and `bytes_per_owner` are our own."""

    glossaries_per_owner: int = 1000
    dictionaries: int = MOST_DICTIONARIES
    entries: int = 20_000  # per dictionary
    term_bytes: int = 1024
    name_characters: int = 1024
    file_bytes: int = 10_000_000
    bytes_per_owner: int = 50_000_000


class GlossaryStore:
    """Blocking: call methods in a thread. Raises `UnknownGlossary` for an id, `InvalidRequest` beyond a limit."""

    def __init__(self, folder: Path, limits: GlossaryLimits | None = None) -> None:
        self._folder = folder / "glossaries"
        self._limits = limits or GlossaryLimits()

    def add(self, owner: str, name: str, dictionaries: Sequence[Dictionary]) -> Glossary:
        glossary = Glossary(str(uuid.uuid4()), name, datetime.now(UTC), tuple(dictionaries))
        with folder_lock(self._folder_of(owner)):
            if len(list(self._folder_of(owner).glob("*.json"))) >= self._limits.glossaries_per_owner:
                raise InvalidRequest(
                    f"You have {self._limits.glossaries_per_owner:,} glossaries, the most that this server keeps for"
                    " one; delete some."
                )
            return self._save(owner, glossary)

    def all(self, owner: str, shown: Callable[[Glossary], T]) -> list[T]:
        """`shown` of each glossary, oldest first, with one in memory at a time; logs and skips unreadable files."""
        rows: list[tuple[datetime, str, T]] = []
        for path in self._folder_of(owner).glob("*.json"):
            with suppress(UnknownGlossary):
                glossary = self._read(path)
                rows.append((glossary.created, glossary.id, shown(glossary)))
        return [shown_glossary for *_, shown_glossary in sorted(rows, key=lambda row: row[:2])]

    def get(self, owner: str, glossary_id: str) -> Glossary:
        return self._read(self._path(owner, glossary_id))

    def find(self, owner: str, glossary_id: str, source: str, target: str) -> Mapping[str, str]:
        """The entries for this pair; `InvalidRequest` if the glossary has none."""
        glossary = self.get(owner, glossary_id)
        if (dictionary := glossary.dictionary(source, target)) is not None:
            return dictionary.entries
        pairs = ", ".join(" → ".join(dictionary.pair) for dictionary in glossary.dictionaries[:20]) or "none"
        message = f"This glossary has no dictionary for {source} → {target}; its pairs: {pairs}."
        raise InvalidRequest(message, field="glossary_id")

    def rename(self, owner: str, glossary_id: str, name: str) -> Glossary:
        with self._changing(owner, glossary_id) as glossary:
            return self._save(owner, msgspec.structs.replace(glossary, name=name))

    def merge(self, owner: str, glossary_id: str, dictionaries: Sequence[Dictionary]) -> Glossary:
        """Adds entries; existing terms get the new translation."""
        with self._changing(owner, glossary_id) as glossary:
            for dictionary in dictionaries:
                existing = next((d.entries for d in glossary.dictionaries if d.pair == dictionary.pair), {})
                merged = msgspec.structs.replace(dictionary, entries=existing | dictionary.entries)
                glossary = glossary.with_dictionary(merged)
            return self._save(owner, glossary)

    def put(self, owner: str, glossary_id: str, dictionary: Dictionary) -> Glossary:
        with self._changing(owner, glossary_id) as glossary:
            return self._save(owner, glossary.with_dictionary(dictionary))

    def drop(self, owner: str, glossary_id: str, source: str, target: str) -> Glossary:
        """Removes the dictionary of this pair; `UnknownGlossary` if the glossary has none."""
        with self._changing(owner, glossary_id) as glossary:
            dropped = glossary.dictionary(source, target)
            if dropped is None:
                raise UnknownGlossary(f"This glossary has no dictionary for {source} → {target}.")
            remaining = tuple(dictionary for dictionary in glossary.dictionaries if dictionary is not dropped)
            return self._save(owner, msgspec.structs.replace(glossary, dictionaries=remaining))

    def delete(self, owner: str, glossary_id: str) -> None:
        with self._changing(owner, glossary_id), unavailable_if_unwritable(self._folder_of(owner)):
            self._path(owner, glossary_id).unlink(missing_ok=True)

    @contextmanager
    def _changing(self, owner: str, glossary_id: str) -> Iterator[Glossary]:
        """Locks the owner's folder and yields the glossary. An unknown id creates no folder."""
        with unavailable_if_unwritable(self._folder_of(owner)):
            exists = self._path(owner, glossary_id).is_file()
        if not exists:
            raise UnknownGlossary(_UNKNOWN)
        with folder_lock(self._folder_of(owner)):
            yield self.get(owner, glossary_id)

    def _path(self, owner: str, glossary_id: str) -> Path:
        if not _ID.fullmatch(glossary_id):
            raise UnknownGlossary(_UNKNOWN)
        return self._folder_of(owner) / f"{glossary_id}.json"

    def _folder_of(self, owner: str) -> Path:
        return self._folder / hashlib.sha256(owner.encode()).hexdigest()[:32]

    def _read(self, path: Path) -> Glossary:
        try:
            return msgspec.json.decode(path.read_bytes(), type=Glossary)
        except (FileNotFoundError, NotADirectoryError):
            raise UnknownGlossary(_UNKNOWN) from None
        except OSError as error:
            logger.error("%s cannot be read: %s", path, error)
            raise EngineUnavailable("This server cannot read glossaries in its folder PARLANCE_DATA.") from error
        except (msgspec.DecodeError, UnicodeDecodeError):
            logger.error("%s is not a glossary of this server and is left out", path)
            raise UnknownGlossary(_UNKNOWN) from None

    def _save(self, owner: str, glossary: Glossary) -> Glossary:
        for message, field in self._problems(glossary):
            raise InvalidRequest(message, field=field)
        content, limits = msgspec.json.encode(glossary), self._limits
        if len(content) > limits.file_bytes:
            size, most = f"{len(content):,}", f"{limits.file_bytes:,}"
            raise InvalidRequest(f"This glossary would have {size} bytes; one may have {most}. Make several of it.")
        path = self._path(owner, glossary.id)
        sizes = {other: other.stat().st_size for other in path.parent.glob("*.json")}
        before = sizes.pop(path, 0)
        if sum(sizes.values()) + len(content) > limits.bytes_per_owner and len(content) > before:
            most = f"{limits.bytes_per_owner:,} bytes"
            raise InvalidRequest(f"Your glossaries take all the room that one caller has ({most}); delete some.")
        write_atomically(path, content)
        return glossary

    def _problems(self, glossary: Glossary) -> Iterator[tuple[str, str | None]]:
        """A message and the field at fault for each limit that the glossary exceeds."""
        limits, length, count = self._limits, len(glossary.name), len(glossary.dictionaries)
        if not 1 <= length <= limits.name_characters or not glossary.name.strip():
            most = f"{limits.name_characters:,}, of which one is not white space."
            yield f'"name" has {length:,} characters; names of glossaries have 1 to {most}', "name"
        if count > limits.dictionaries:
            yield f"This glossary would have {count:,} dictionaries; one may have {limits.dictionaries:,}.", None
        if len({dictionary.pair for dictionary in glossary.dictionaries}) < count:
            yield "Two dictionaries have the same pair; make one of them.", "dictionaries"
        for entries in (dictionary.entries for dictionary in glossary.dictionaries):
            if not 1 <= len(entries) <= limits.entries:
                yield f'"entries" has {len(entries):,} terms; one dictionary has 1 to {limits.entries:,}.', "entries"
            for term in chain.from_iterable(entries.items()):
                size = len(term.encode())
                if not term.strip() or size > limits.term_bytes:
                    most = f"{limits.term_bytes:,}, and is more than white space."
                    yield f'"entries" has a term of {size:,} bytes; a term has 1 to {most}', "entries"
                if CONTROL_CHARACTER.search(term):
                    yield '"entries" has a term with a control character; terms are text of one line.', "entries"


@contextmanager
def unavailable_if_unwritable(folder: Path) -> Iterator[None]:
    """Turns an `OSError` (the folder is not writable or the disk is full) into `EngineUnavailable`."""
    try:
        yield
    except OSError as error:
        logger.error("%s cannot be written: %s", folder, error)
        message = "This server cannot keep glossaries: it cannot write to its folder PARLANCE_DATA."
        raise EngineUnavailable(message) from error


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """A lock across threads and processes, released by the kernel if the process dies. Creates the folder."""
    with ExitStack() as stack:
        with unavailable_if_unwritable(folder):
            folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            stack.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


def write_atomically(path: Path, content: bytes) -> None:
    """Writes a temporary file and renames it, so that a reader or a crash sees either the old or the new content."""
    with unavailable_if_unwritable(path.parent):
        descriptor, aside = tempfile.mkstemp(dir=path.parent, prefix=".aside-")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            Path(aside).replace(path)
        except BaseException:
            Path(aside).unlink(missing_ok=True)
            raise
