"""Progress of an import: a bar on the console, or lines for another process."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import IO, Literal, Protocol

from training.data.progress_bar import ProgressBar

Stage = Literal["look_up", "download", "verify", "convert", "done"]
SENTENCES: dict[Stage, str] = {
    "look_up": "Asking the hub for {name}",
    "download": "Fetching {name}",
    "verify": "Checking the files of {name}",
    "convert": "Converting {name}",
    "done": "{name} is ready",
}
REPORT_EVERY_S = 0.2


class ImportProgress(Protocol):
    """Receives the progress of an import. Methods may be called from several threads."""

    def stage(self, stage: Stage, name: str, total: int = 0) -> None:
        """A stage begins. total: bytes of the whole stage, 0 if it is not counted in bytes."""

    def advance(self, size: int) -> None:
        """So many bytes of the stage are done; negative where a download begins anew."""

    def note(self, sentence: str) -> None:
        """A sentence for the user."""

    def close(self) -> None: ...


class ConsoleProgress:
    """A bar with bytes, speed and the time left for each stage that has bytes, and a line for each model; on stderr."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._bar: ProgressBar | None = None
        self._lock = threading.Lock()

    def stage(self, stage: Stage, name: str, total: int = 0) -> None:
        self.close()
        title = SENTENCES[stage].format(name=name)
        if not total:
            if stage == "done":
                print(f"{title}.", file=self._stream, flush=True)
            return
        self._bar = ProgressBar(
            total=total,
            desc=title,
            unit="B",
            unit_scale=True,
            miniters=0,
            leave=stage == "download",
            file=self._stream,
        )

    def advance(self, size: int) -> None:
        with self._lock:
            if self._bar is not None:
                self._bar.update(size)

    def note(self, sentence: str) -> None:
        with self._lock:
            if self._bar is None:
                print(sentence, file=self._stream, flush=True)
            else:
                self._bar.note(sentence)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


class LineProgress:
    """A line for each stage, note and, at most every REPORT_EVERY_S, advance, for another program:
    {"stage", "model", "bytes", "total", "seconds"} with the seconds of this stage, or {"note"}. write: of a line."""

    def __init__(self, write: Callable[[dict[str, object]], None]) -> None:
        self._write = write
        self._stage: Stage = "look_up"
        self._name, self._bytes, self._total, self._reported = "", 0, 0, 0.0
        self._began = time.monotonic()
        self._lock = threading.Lock()

    def stage(self, stage: Stage, name: str, total: int = 0) -> None:
        with self._lock:
            self._stage, self._name, self._bytes, self._total = stage, name, 0, total
            self._began = time.monotonic()
            self._report()

    def advance(self, size: int) -> None:
        with self._lock:
            self._bytes += size
            if self._bytes >= self._total or time.monotonic() - self._reported >= REPORT_EVERY_S:
                self._report()

    def note(self, sentence: str) -> None:
        self._write({"note": sentence})

    def close(self) -> None:
        pass

    def _report(self) -> None:
        self._reported = time.monotonic()
        seconds = round(self._reported - self._began, 2)
        counted = {"bytes": self._bytes, "total": self._total, "seconds": seconds}
        self._write({"stage": self._stage, "model": self._name, **counted})
