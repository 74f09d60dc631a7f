"""Names, bounds and formulas of the gates of each recurrent cell.

No torch here: the front end counts and refuses by these names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Bounds = tuple[float, float]
SIGMOID: Bounds = (0.0, 1.0)
TANH: Bounds = (-1.0, 1.0)
SATURATED = 0.1  # a gate counts as saturated when it is nearer than this to an end of its bounds


@dataclass(frozen=True, slots=True)
class GateConvention:
    """gates: the bounds of each, None where it has none, in the order in which they are computed; h comes last."""

    gates: Mapping[str, Bounds | None]
    formula: str


GATE_CONVENTIONS: Mapping[str, GateConvention] = {
    "rnn": GateConvention(
        {"n": TANH, "h": TANH}, "h' = n = tanh(W x + b + U h + d), Elman's cell: n is the new state."
    ),
    "gru": GateConvention(
        {"r": SIGMOID, "z": SIGMOID, "n": TANH, "h": TANH},
        "h' = (1 - z) n + z h with n = tanh(W x + b + r (U h + d)), PyTorch's: z = 1 keeps, r = 0 forgets within n.",
    ),
    "lstm": GateConvention(
        {"i": SIGMOID, "f": SIGMOID, "g": TANH, "o": SIGMOID, "c": None, "h": TANH},
        "c' = f c + i g and h' = o tanh(c'), PyTorch's: f = 1 keeps, i = 1 writes, o = 1 shows.",
    ),
}
GATE_NAMES = tuple(dict.fromkeys(name for convention in GATE_CONVENTIONS.values() for name in convention.gates))


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
    names = tuple(GATE_CONVENTIONS[cell].gates)
    for name in wanted or ():
        if name not in names:
            raise ValueError(f"There is no gate {name} in this model: the gates of its {cell} are {', '.join(names)}.")
    return names if wanted is None else tuple(name for name in names if name in wanted)
