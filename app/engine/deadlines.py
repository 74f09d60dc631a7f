"""Whose time is over: looked up at every step, so it must not cost more for those who still have time."""

from __future__ import annotations

import heapq
from collections.abc import Callable

SPARE = 1024


class Deadlines:
    """`there` says whether a request is still there to be late. Those who left are dropped when their time comes, or
    when there are many of them. It is passed, and not kept: its owner must be freed as soon as nobody holds it."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int]] = []
        self._most = SPARE

    def add(self, when: float, request: int, there: Callable[[int], bool]) -> None:
        """when: CLOCK_MONOTONIC seconds."""
        heapq.heappush(self._heap, (when, request))
        if len(self._heap) > self._most:
            self._heap = [each for each in self._heap if there(each[1])]
            heapq.heapify(self._heap)
            self._most = SPARE + 2 * len(self._heap)

    def passed(self, now: float, there: Callable[[int], bool]) -> list[int]:
        """Who is there and had until before now; each is named once."""
        found = []
        while self._heap and self._heap[0][0] < now:
            request = heapq.heappop(self._heap)[1]
            if there(request):
                found.append(request)
        return found

    def __len__(self) -> int:
        return len(self._heap)
