"""An output file that a killed command goes on with: FILE.partial grows, FILE.partial.json says what is in it, and
FILE appears when it is whole."""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import hashlib
import io
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Self, TextIO, cast

from training.errors import TrainingError

SAVE_S = 2.0  # between two records of the progress


class ResumableOutput:
    """Appends results of numbered input. Use it in `with`. identity: what decides the results, such as model and
    options; a resumed command must have the same. The progress counts input, such as lines; its digest is of all input
    so far, so that a resumed command notices another input. notes: numbers that are kept along.

    TrainingError if `out` exists, if a partial file is there without `resume` or the other way around, if its identity
    differs, or if another command is writing it. compressed: the partial file; None: if `out` ends in .gz."""

    def __init__(
        self,
        out: Path,
        identity: Mapping[str, object],
        *,
        resume: bool,
        unit: str = "line",
        compressed: bool | None = None,
    ) -> None:
        self.out, self.unit = out, unit
        self._compressed = out.suffix == ".gz" if compressed is None else compressed
        self.identity: Mapping[str, object] = json.loads(json.dumps(identity))
        self.partial = out.with_name(f"{out.name}.partial")
        self._record = out.with_name(f"{out.name}.partial.json")
        self._new_record = out.with_name(f"{out.name}.partial.json.new")
        check_output_file(out, resume=resume)
        self.done, self.notes, self._digest, size = 0, dict[str, list[int]](), hashlib.sha256(), 0
        self._expected_digest = self._digest.hexdigest()
        if resume:
            record = read_record(out)
            begun = record["identity"]
            for name in {**self.identity, **begun}:  # a name that one of them lacks is an option that it was not given
                before, now = (given.get(name, "not given") for given in (begun, self.identity))
                if before != now:
                    raise TrainingError(
                        f"{self.partial} was begun with another {name} ({before}, now {now}): go on with what it was"
                        " begun with, or delete it."
                    )
            self.done, size = record["done"], record["bytes"]
            self.notes, self._expected_digest = record["notes"], record["sha256"]
        out.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.partial.open("r+b" if resume else "xb")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise TrainingError(f"Another command is writing {self.partial}; wait for it.") from None
        self._file.truncate(size)
        self._file.seek(size)
        self._saved_at = time.monotonic()
        if not resume:
            try:
                self._save()
            except OSError:  # a full disk: without its record, a partial file could not be gone on with
                self._file.close()
                self._remove()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Records the progress, so that `resume` loses nothing."""
        if not self._file.closed:
            with contextlib.suppress(OSError):  # a full disk: the last record holds
                self._save()
            self._file.close()
            if not self.done:
                self._remove()

    def skipped(self, lines: Iterator[str]) -> Iterator[str]:
        """The lines that are not yet done. TrainingError if the ones before are not those of the partial file."""
        for _ in range(self.done):
            line = next(lines, None)
            if line is None:
                break
            self._count_input(line)
        if self._digest.hexdigest() != self._expected_digest:
            raise TrainingError(
                f"{self.partial} was begun with another input: its first {self.done:,} {self.unit}s differ from those"
                " given now; go on with the input that it was begun with, or delete it."
            )
        return lines

    def write(self, data: bytes, inputs: list[str]) -> None:
        """Appends the results of these inputs."""
        self._file.write(gzip.compress(data, 6, mtime=0) if self._compressed else data)
        for line in inputs:
            self._count_input(line)
        self.done += len(inputs)
        if time.monotonic() - self._saved_at >= SAVE_S:
            self._save()

    def _count_input(self, line: str) -> None:
        self._digest.update(line.encode())
        self._digest.update(b"\n")

    def _save(self) -> None:
        """The data reach the disk before the record that counts them."""
        self._file.flush()
        os.fsync(self._file.fileno())
        record = {
            "identity": self.identity,
            "done": self.done,
            "bytes": self._file.tell(),
            "sha256": self._digest.hexdigest(),
            "notes": self.notes,
        }
        aside = self._new_record
        aside.write_text(json.dumps(record, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        aside.replace(self._record)
        self._saved_at = time.monotonic()

    def finish(self) -> None:
        """Gives the file its name."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self.partial.replace(self.out)
        self._record.unlink(missing_ok=True)
        self._new_record.unlink(missing_ok=True)

    def written_lines(self) -> Iterator[str]:
        """The lines of an uncompressed partial file."""
        self._file.flush()
        with self.partial.open(encoding="utf-8", newline="\n") as file:
            yield from file

    def finish_with(self, write: Callable[[TextIO], None]) -> None:
        """Replaces the partial file by what `write` writes."""
        aside = self.partial.with_name(f"{self.partial.name}.new")
        with aside.open("wb") as raw:
            packed = gzip.GzipFile("", "wb", 6, raw, mtime=0) if self.out.suffix == ".gz" else raw
            with packed, io.TextIOWrapper(cast(BinaryIO, packed), encoding="utf-8", newline="\n") as file:
                write(file)
        aside.replace(self.out)
        self._file.close()
        self._remove()

    def _remove(self) -> None:
        for path in (self.partial, self._record, self._new_record):
            path.unlink(missing_ok=True)


def check_output_file(out: Path, *, resume: bool) -> None:
    """TrainingError unless a command may write to `out`."""
    partial = out.with_name(f"{out.name}.partial")
    if out.is_dir():
        raise TrainingError(f"{out} is a folder; --out names a file.")
    if out.exists() and resume and not partial.exists():
        raise TrainingError(f"{out} is finished: there is nothing to go on with.")
    if out.exists():
        raise TrainingError(f"{out} exists; choose another --out.")
    if resume and not partial.exists():
        raise TrainingError(f"There is no {partial} to go on with; leave --resume out.")
    if not resume and partial.exists():
        raise TrainingError(f"{partial} holds an unfinished output; go on with --resume, or delete it to begin anew.")


def read_record(out: Path) -> dict[str, Any]:
    """The record beside the partial file of `out`. TrainingError if the record is missing or damaged."""
    path = out.with_name(f"{out.name}.partial.json")
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        assert {"identity", "done", "bytes", "sha256", "notes"} <= record.keys()
    except (OSError, ValueError, AssertionError, AttributeError):
        partial = out.with_name(f"{out.name}.partial")
        raise TrainingError(f"{path} is missing or damaged, so {partial} cannot be gone on with; delete it.") from None
    return dict(record)
