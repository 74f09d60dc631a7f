"""What a program asked of a simulated device: launches, copies, and the times that the host waited."""

from __future__ import annotations

import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

PROJECT = ("/models/", "/app/", "/training/", "/tests/")
SIMULATOR = re.compile(r".*/cuda_simulator/(?!test_)")


class Copy(NamedTuple):
    """A copy between host and device. pinned: the host's memory is page-locked. blocking: the host waits for it."""

    direction: Literal["H2D", "D2H"]
    pinned: bool
    blocking: bool


@dataclass(slots=True)
class Counts:
    """kernels: by operator, one for each operator that computes (on a GPU, sorting and the like launch several).
    synchronisations: by cause, without blocking copies. sites: lines of code that made the host wait."""

    kernels: Counter[str] = field(default_factory=Counter)
    copies: Counter[Copy] = field(default_factory=Counter)
    synchronisations: Counter[str] = field(default_factory=Counter)
    sites: Counter[str] = field(default_factory=Counter)
    graph_launches: int = 0
    recorded_graphs: int = 0
    event_waits: int = 0
    allocations: int = 0

    @property
    def launches(self) -> int:
        """Kernels that were launched one by one; a replayed graph is a single launch that is not among them."""
        return self.kernels.total()

    @property
    def blocking_copies(self) -> int:
        return sum(number for copy, number in self.copies.items() if copy.blocking)

    @property
    def waits(self) -> int:
        """How often the host waited for a device, events excepted."""
        return self.blocking_copies + self.synchronisations.total()

    def copied(self, copy: Copy) -> None:
        self.copies[copy] += 1
        if copy.blocking:
            self._note_site(f"{copy.direction} copy")

    def synchronised(self, cause: str) -> None:
        self.synchronisations[cause] += 1
        self._note_site(cause)

    def _note_site(self, what: str) -> None:
        frame = sys._getframe(2)
        while frame is not None:
            file = frame.f_code.co_filename
            if not SIMULATOR.match(file) and "/site-packages/" not in file and any(part in file for part in PROJECT):
                self.sites[f"{what} at {'/'.join(file.split('/')[-3:])}:{frame.f_lineno}"] += 1
                return
            frame = frame.f_back  # type: ignore[assignment]
