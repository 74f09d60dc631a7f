"""How many characters somebody had translated."""

from __future__ import annotations

from collections import Counter
from typing import Protocol

UNLIMITED = 1_000_000_000_000  # as DeepL says it: its clients compare with it, and take null for 0


class Usage(Protocol):
    """count: so many more; of: (so far, the limit or None)."""

    def count(self, owner: str, characters: int) -> None: ...

    async def of(self, owner: str) -> tuple[int, int | None]: ...


class CountedHere:
    """What this family translated since the server started, where nobody keeps a quota."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def count(self, owner: str, characters: int) -> None:
        self._counts[owner] += characters

    async def of(self, owner: str) -> tuple[int, int | None]:
        return self._counts[owner], None
