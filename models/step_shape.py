"""The sizes of a step, exact or rounded to few: a CUDA graph is recorded for each."""

from __future__ import annotations

from typing import NamedTuple


class StepShape(NamedTuple):
    """The numbers that a step's tensors are cut to. rows: live ones; group: so many in turn read one source; length,
    width: target positions (the new one included) and source positions that are in use; ragged: whether some rows
    use fewer."""

    rows: int
    group: int
    length: int
    width: int
    ragged: bool = True
    source_ragged: bool = True

    def rounded(self, slots: int, length: int, width: int) -> StepShape:
        """The next larger one of few, within slots of so many source and target positions: powers of two of rows (of
        beams where these stand in groups), of positions from 32 on."""
        beams = min(round_up(-(-self.rows // self.group)), slots // self.group)
        return StepShape(
            beams * self.group,
            self.group,
            min(max(32, round_up(self.length)), length),
            min(max(32, round_up(self.width)), width),
        )


def round_up(number: int) -> int:
    """To a power of two."""
    return 1 << max(0, number - 1).bit_length()
