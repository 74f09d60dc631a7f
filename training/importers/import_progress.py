"""Progress of an import: a bar on the console."""

from __future__ import annotations

import sys
import threading
from typing import IO, Literal

from training.data.progress_bar import ProgressBar

Stage = Literal["look_up", "download", "verify", "convert", "done"]
SENTENCES: dict[Stage, str] = {
    "look_up": "Asking the hub for {name}",
    "download": "Fetching {name}",
    "verify": "Checking the files of {name}",
    "convert": "Converting {name}",
    "done": "{name} is ready",
}


class ImportProgress:
    """A bar with bytes, speed and the time left for each stage that has bytes, and a line for each model; on stderr.
    Methods may be called from several threads."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._bar: ProgressBar | None = None
        self._lock = threading.Lock()

    def stage(self, stage: Stage, name: str, total: int = 0) -> None:
        """A stage begins. total: bytes of the whole stage, 0 if it is not counted in bytes."""
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
        """So many bytes of the stage are done; negative where a download begins anew."""
        with self._lock:
            if self._bar is not None:
                self._bar.update(size)

    def note(self, sentence: str) -> None:
        """A sentence for the user."""
        with self._lock:
            if self._bar is None:
                print(sentence, file=self._stream, flush=True)
            else:
                self._bar.note(sentence)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
