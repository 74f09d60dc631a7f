"""How many characters somebody had translated."""

from __future__ import annotations

from app.access.caller import Caller
from app.access.gate import Gate

UNLIMITED = 1_000_000_000_000  # as DeepL says it: its clients compare with it, and take null for 0


class CountedHere:
    """What DeepL's clients without a key had translated since the server started; the gate counts by keys alone."""

    def __init__(self) -> None:
        self._characters = 0

    def count(self, caller: Caller, characters: int) -> None:
        if not caller.key_id:
            self._characters += characters

    async def of(self, caller: Caller, gate: Gate) -> tuple[int, int]:
        """So far, in this month where there is a key, and the limit."""
        found = await gate.usage(caller)
        used = found.characters if caller.key_id else self._characters
        return used, UNLIMITED if found.limit is None else found.limit
