"""A contender that computes nothing. Its processes import this file, and so no torch."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any

from benchmarks.processes import Work


@dataclass(frozen=True, slots=True)
class Echo:
    """Returns its sources as translations; `answer` handles the other questions of a benchmark."""

    processes: int = 1
    forgets: bool = False

    def open(self) -> Echo:
        return self

    def translate(self, work: Work) -> Any:
        if work.beam == 13:
            raise ValueError("thirteen\nand more")
        sources = [list(source) for source in work.sources]
        return sources[1:] if self.forgets else sources

    def tokens(self, answer: Any) -> list[list[int]]:
        return list(answer)

    def answer(self, question: str) -> int:
        if question == "sleep":
            time.sleep(60)
        return os._exit(3) if question == "die" else os.getpid()
