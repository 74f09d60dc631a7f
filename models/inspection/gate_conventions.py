"""How many gate values an answer may hold, and which gates a cell has. No torch: the front end counts and refuses."""

from __future__ import annotations

import msgspec

from models.networks.cells import CELLS

SATURATED = 0.1  # a gate counts as saturated when it is nearer than this to an end of its bounds


class GateSelection(msgspec.Struct, frozen=True):
    """gates, layers: None for all; layers and units may count from the end. units: numbers, or how many of those whose
    state h varies most over the text, chosen in each layer for itself."""

    gates: tuple[str, ...] | None = None
    layers: tuple[int, ...] | None = None
    units: tuple[int, ...] | int = 16


def fitting_units(gates: int, layers: int, steps: int, most: int) -> int:
    """How many units fit into an answer of at most `most` values."""
    return most // (gates * layers * steps)


def too_many_values(gates: int, layers: int, units: int, steps: int, most: int) -> str | None:
    """A sentence for an answer of more than `most` values; None for one that fits."""
    one_unit = gates * layers * steps
    if one_unit * units <= most:
        return None
    fits = fitting_units(gates, layers, steps, most)
    way_out = f'"units": {fits} would fit, or fewer layers or gates' if fits else "send a shorter text"
    return f"This answer would hold {one_unit * units:,} gate values and the limit is {most:,}: {way_out}."


def selected_gates(cell: str, wanted: list[str] | tuple[str, ...] | None) -> tuple[str, ...]:
    """The gates that are meant, in the cell's own order; None: all. ValueError for one that the cell does not have."""
    names = tuple(CELLS[cell].shown)
    for name in wanted or ():
        if name not in names:
            raise ValueError(f"There is no gate {name} in this model: the gates of its {cell} are {', '.join(names)}.")
    return names if wanted is None else tuple(name for name in names if name in wanted)
