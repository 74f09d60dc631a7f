"""Glossaries that callers keep on this server, each in a JSON file of its own:

FOLDER/glossaries/<hash of the owner's name>/<id>.json

They survive a restart, and every process that has the folder sees the same. No file name holds anything that a caller
sent.
"""

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from app.engine.errors import EngineUnavailable, InvalidRequest, UnknownGlossary
from app.text.language_codes import closest_codes

logger = logging.getLogger(__name__)


@contextmanager
def unavailable_if_unwritable(folder: Path) -> Iterator[None]:
    """A folder that cannot be written, or a disk that is full, is nothing that the request did: `EngineUnavailable`."""
    try:
        yield
    except OSError as error:
        logger.error("%s cannot be written: %s", folder, error)
        raise EngineUnavailable(
            "This server cannot keep glossaries: it cannot write to its folder PARLANCE_DATA."
        ) from error


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Alone among all that lock this folder, which is made where it is missing. The lock is the kernel's: it ends with
    its process, so nobody has to clean up after one that died."""
    with unavailable_if_unwritable(folder):
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        with unavailable_if_unwritable(folder):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def write_atomically(path: Path, content: bytes) -> None:
    """`content` as the file `path`: written aside and renamed, so that readers, and a crash, see the old or the new."""
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


EntriesFormat = Literal["tsv", "csv"]


def parse_entries(lines: str, form: EntriesFormat, field: str = "entries") -> dict[str, str]:
    """Entries by their source term. Empty lines are skipped; of a csv line with four cells, as DeepL's site writes
    them, the last two (its languages) are too. `InvalidRequest` names the line that cannot be read."""
    rows = _tab_rows(lines) if form == "tsv" else csv.reader(io.StringIO(lines), skipinitialspace=True, strict=True)
    entries: dict[str, str] = {}
    try:
        for number, row in enumerate(rows, 1):
            cells = [cell.strip() for cell in row]
            if not any(cells):
                continue
            if len(cells) != 2 and not (form == "csv" and len(cells) == 4):
                between = "a tab" if form == "tsv" else "a comma"
                raise InvalidRequest(
                    f'Line {number} of "{field}" has {len(cells)} cells; write a source term, {between}, and its'
                    " target term.",
                    field=field,
                )
            if cells[0] in entries:
                raise InvalidRequest(
                    f'Line {number} of "{field}" has a source term that an earlier line has; leave one out.',
                    field=field,
                )
            entries[cells[0]] = cells[1]
    except csv.Error as error:
        raise InvalidRequest(f'"{field}" is not csv ({error}); quote cells as RFC 4180 says.', field=field) from None
    return entries


def entries_as_tsv(entries: Mapping[str, str]) -> str:
    return "\n".join(f"{source}\t{target}" for source, target in entries.items())


def _tab_rows(lines: str) -> list[list[str]]:
    return [line.split("\t") for line in lines.replace("\r\n", "\n").split("\n")]


T = TypeVar("T")

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class Dictionary(msgspec.Struct, frozen=True):
    """Of one pair: each source term and what it becomes. Language codes are as the caller spelt them, in small
    letters, or as the loaded pair has them."""

    source: str
    target: str
    entries: dict[str, str]


class Glossary(msgspec.Struct, frozen=True):
    """At most one dictionary for each pair."""

    id: str
    name: str
    created: datetime
    dictionaries: tuple[Dictionary, ...] = ()
    format_version: int = 1

    def dictionary(self, source: str, target: str) -> Dictionary | None:
        """The one for this pair, or for the pair that is closest to it."""
        for from_code in closest_codes(source, [each.source for each in self.dictionaries]):
            of_source = {each.target: each for each in self.dictionaries if each.source == from_code}
            for to_code in closest_codes(target, of_source):
                return of_source[to_code]
        return None

    def with_dictionary(self, changed: Dictionary) -> Glossary:
        """In the place of the one that has the same pair, or else as the last."""
        pairs = [(each.source, each.target) for each in self.dictionaries]
        pair = (changed.source, changed.target)
        if pair not in pairs:
            return msgspec.structs.replace(self, dictionaries=(*self.dictionaries, changed))
        at = pairs.index(pair)
        others = self.dictionaries
        return msgspec.structs.replace(self, dictionaries=(*others[:at], changed, *others[at + 1 :]))


@dataclass(frozen=True, slots=True)
class GlossaryLimits:
    """Those of DeepL, but for the entries, which it counts in bytes alone, and for all of an owner's together."""

    glossaries_per_owner: int = 1000
    dictionaries: int = 100
    entries: int = 20_000  # of one dictionary
    term_bytes: int = 1024
    name_characters: int = 1024
    file_bytes: int = 10_000_000
    bytes_per_owner: int = 50_000_000


class GlossaryStore:
    """All methods read or write files: call them in a thread. Those that take an id raise `UnknownGlossary`, those
    that write `InvalidRequest` beyond a limit."""

    def __init__(self, folder: Path, limits: GlossaryLimits | None = None) -> None:
        self._folder = folder / "glossaries"
        self._limits = limits or GlossaryLimits()

    def add(self, owner: str, name: str, dictionaries: Sequence[Dictionary]) -> Glossary:
        glossary = Glossary(str(uuid.uuid4()), name, datetime.now(UTC), tuple(dictionaries))
        with folder_lock(self._of(owner)):
            if len(list(self._of(owner).glob("*.json"))) >= self._limits.glossaries_per_owner:
                raise InvalidRequest(
                    f"You have {self._limits.glossaries_per_owner:,} glossaries, the most that this server keeps for"
                    " one; delete some."
                )
            return self._save(owner, glossary)

    def all(self, owner: str, shown: Callable[[Glossary], T]) -> list[T]:
        """What is shown of each, the oldest first; the entries of no more than one are in memory. A file that cannot
        be read is left out, and the log says so."""

        def row(path: Path) -> tuple[datetime, str, T] | None:
            try:
                glossary = self._read(path)
            except UnknownGlossary:
                return None
            return glossary.created, glossary.id, shown(glossary)

        rows = [found for path in self._of(owner).glob("*.json") if (found := row(path)) is not None]
        return [each for _, _, each in sorted(rows, key=lambda found: found[:2])]

    def get(self, owner: str, glossary_id: str) -> Glossary:
        return self._read(self._path(owner, glossary_id))

    def find(self, owner: str, glossary_id: str, source: str, target: str) -> Mapping[str, str]:
        """The entries for a translation of this pair; `InvalidRequest` where the glossary has none for it."""
        glossary = self.get(owner, glossary_id)
        if (found := glossary.dictionary(source, target)) is not None:
            return found.entries
        there = ", ".join(f"{each.source} → {each.target}" for each in glossary.dictionaries[:20]) or "none"
        raise InvalidRequest(
            f"This glossary has no dictionary for {source} → {target}; its pairs: {there}.", field="glossary_id"
        )

    def rename(self, owner: str, glossary_id: str, name: str) -> Glossary:
        with self._changing(owner, glossary_id) as glossary:
            return self._save(owner, msgspec.structs.replace(glossary, name=name))

    def merge(self, owner: str, glossary_id: str, dictionaries: Sequence[Dictionary]) -> Glossary:
        """Terms that are there get their new translation, the others are added."""
        with self._changing(owner, glossary_id) as glossary:
            for each in dictionaries:
                there = [d.entries for d in glossary.dictionaries if (d.source, d.target) == (each.source, each.target)]
                entries = (there[0] if there else {}) | each.entries
                glossary = glossary.with_dictionary(msgspec.structs.replace(each, entries=entries))
            return self._save(owner, glossary)

    def put(self, owner: str, glossary_id: str, dictionary: Dictionary) -> Glossary:
        """In the place of whatever this pair had."""
        with self._changing(owner, glossary_id) as glossary:
            return self._save(owner, glossary.with_dictionary(dictionary))

    def drop(self, owner: str, glossary_id: str, source: str, target: str) -> Glossary:
        """Without the dictionary of this pair, which has to be there."""
        with self._changing(owner, glossary_id) as glossary:
            dropped = glossary.dictionary(source, target)
            if dropped is None:
                raise UnknownGlossary(f"This glossary has no dictionary for {source} → {target}.")
            kept = tuple(each for each in glossary.dictionaries if each is not dropped)
            return self._save(owner, msgspec.structs.replace(glossary, dictionaries=kept))

    def delete(self, owner: str, glossary_id: str) -> None:
        with self._changing(owner, glossary_id), unavailable_if_unwritable(self._of(owner)):
            self._path(owner, glossary_id).unlink(missing_ok=True)

    @contextmanager
    def _changing(self, owner: str, glossary_id: str) -> Iterator[Glossary]:
        """Alone with one that is there: for an unknown id no folder is made."""
        with unavailable_if_unwritable(self._of(owner)):
            there = self._path(owner, glossary_id).is_file()
        if not there:
            raise _unknown_glossary()
        with folder_lock(self._of(owner)):
            yield self.get(owner, glossary_id)

    def _path(self, owner: str, glossary_id: str) -> Path:
        if not _ID.fullmatch(glossary_id):
            raise _unknown_glossary()
        return self._of(owner) / f"{glossary_id}.json"

    def _of(self, owner: str) -> Path:
        return self._folder / hashlib.sha256(owner.encode()).hexdigest()[:32]

    def _read(self, path: Path) -> Glossary:
        try:
            return msgspec.json.decode(path.read_bytes(), type=Glossary)
        except (FileNotFoundError, NotADirectoryError):
            raise _unknown_glossary() from None
        except OSError as error:
            logger.error("%s cannot be read: %s", path, error)
            raise EngineUnavailable("This server cannot read glossaries in its folder PARLANCE_DATA.") from error
        except (msgspec.DecodeError, UnicodeDecodeError):
            logger.error("%s is not a glossary of this server and is left out", path)
            raise _unknown_glossary() from None

    def _save(self, owner: str, glossary: Glossary) -> Glossary:
        self._check(glossary)
        content = msgspec.json.encode(glossary)
        if len(content) > self._limits.file_bytes:
            raise InvalidRequest(
                f"This glossary would have {len(content):,} bytes; one may have {self._limits.file_bytes:,}. Make"
                " several of it."
            )
        path = self._path(owner, glossary.id)
        sizes = {each: each.stat().st_size for each in path.parent.glob("*.json")}
        before = sizes.pop(path, 0)
        if sum(sizes.values()) + len(content) > self._limits.bytes_per_owner and len(content) > before:
            raise InvalidRequest(
                "Your glossaries take all the room that one caller has"
                f" ({self._limits.bytes_per_owner:,} bytes); delete some."
            )
        write_atomically(path, content)
        return glossary

    def _check(self, glossary: Glossary) -> None:
        limits = self._limits
        if not 1 <= len(glossary.name) <= limits.name_characters or not glossary.name.strip():
            raise InvalidRequest(
                f'"name" has {len(glossary.name):,} characters; names of glossaries have 1 to'
                f" {limits.name_characters:,}, of which one is not white space.",
                field="name",
            )
        if len(glossary.dictionaries) > limits.dictionaries:
            raise InvalidRequest(
                f"This glossary would have {len(glossary.dictionaries):,} dictionaries; one may have"
                f" {limits.dictionaries:,}."
            )
        pairs = [(each.source, each.target) for each in glossary.dictionaries]
        if len(set(pairs)) < len(pairs):
            raise InvalidRequest("Two dictionaries have the same pair; make one of them.", field="dictionaries")
        for dictionary in glossary.dictionaries:
            self._check_entries(dictionary.entries)

    def _check_entries(self, entries: Mapping[str, str]) -> None:
        if not 1 <= len(entries) <= self._limits.entries:
            raise InvalidRequest(
                f'"entries" has {len(entries):,} terms; one dictionary has 1 to {self._limits.entries:,}.',
                field="entries",
            )
        for term in (term for entry in entries.items() for term in entry):
            if not term.strip() or len(term.encode()) > self._limits.term_bytes:
                raise InvalidRequest(
                    f'"entries" has a term of {len(term.encode()):,} bytes; a term has 1 to'
                    f" {self._limits.term_bytes:,}, and is more than white space.",
                    field="entries",
                )
            if _CONTROL_CHARACTER.search(term):
                raise InvalidRequest(
                    '"entries" has a term with a control character; terms are text of one line.', field="entries"
                )


def _unknown_glossary() -> UnknownGlossary:
    return UnknownGlossary("You have no glossary with this id; GET /v3/glossaries lists yours.")
