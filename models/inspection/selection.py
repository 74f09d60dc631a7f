"""Selections of attention kinds, layers, heads and rows, and of gates and units. Negative numbers count from the end,
as in Python. No torch: the front end validates selections."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from models.networks.cells import CELLS

AttentionKind = Literal["encoder", "decoder", "cross"]
Side = Literal["encoder", "decoder"]
KINDS: tuple[AttentionKind, ...] = ("encoder", "decoder", "cross")


class Head(msgspec.Struct, frozen=True):
    kind: AttentionKind
    layer: int
    head: int


class Row(Head, frozen=True):
    """One query of one head."""

    row: int


class AttentionSelection(msgspec.Struct, frozen=True):
    """What to show of a forward pass: maps of these kinds, layers and heads (None: all), optionally reduced; further
    findings; the top_k tokens of each step; the effect of the `masked` heads; one worked row."""

    kinds: tuple[AttentionKind, ...] = KINDS
    layers: tuple[int, ...] | None = None
    heads: tuple[int, ...] | None = None
    reduce_heads: Literal["none", "mean", "max"] = "none"
    reduce_layers: Literal["none", "mean"] = "none"
    include: tuple[Literal["alignment", "rollout", "stats", "steps"], ...] = ()
    top_k: int = 0
    masked: tuple[Head, ...] = ()
    row: Row | None = None


class WalkthroughFocus(msgspec.Struct, frozen=True):
    """The layer, head and position to record. most: values per vector; most_keys: keys per matrix."""

    side: Side = "decoder"
    layer: int = 0
    head: int = 0
    position: int = 0
    most: int = 8
    most_keys: int = 64


class SelectionError(ValueError):
    """Nonexistent selection; `field`: "kinds", "layers", "heads", "masked", "row", "side" or "position"."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


def within(number: int, count: int, noun: str, field: str, owner: str = "this model") -> int:
    """`number` counted from 0. SelectionError names the valid range."""
    if not -count <= number < count:
        there = f"{count} ({noun}s 0 to {count - 1})" if count else "none"
        raise SelectionError(f"There is no {noun} {number}: {owner} has {there}.", field)
    return number % count


def resolve(chosen: Sequence[int] | None, count: int, noun: str) -> tuple[int, ...]:
    """The selected numbers in 0..count-1, distinct; None: all. SelectionError names the valid range."""
    if chosen is None:
        return tuple(range(count))
    if not chosen:
        raise SelectionError(f"Choose at least one {noun}, or leave the choice out for all {count}.", f"{noun}s")
    return tuple(dict.fromkeys(within(number, count, noun, f"{noun}s") for number in chosen))


def known_kinds(kinds: Iterable[str], field: str = "kinds") -> tuple[AttentionKind, ...]:
    """The distinct kinds. SelectionError names the valid ones."""
    known: dict[str, AttentionKind] = {kind: kind for kind in KINDS}
    for kind in (chosen := dict.fromkeys(kinds)):
        if kind not in known:
            raise SelectionError(f"There is no attention kind {kind!r}; the kinds are {', '.join(KINDS)}.", field)
    return tuple(known[kind] for kind in chosen)


class GateSelection(msgspec.Struct, frozen=True):
    """gates, layers: None for all. units: numbers, or how many units with the highest variance of h over the text,
    selected per layer. Layers and units may be negative, counting from the end."""

    gates: tuple[str, ...] | None = None
    layers: tuple[int, ...] | None = None
    units: tuple[int, ...] | int = 16


def fitting_units(gates: int, layers: int, steps: int, most: int) -> int:
    """How many units fit into `most` values."""
    return most // (gates * layers * steps)


def too_many_values(gates: int, layers: int, units: int, steps: int, most: int) -> str | None:
    """An error sentence if the values exceed `most`, else None."""
    one_unit = gates * layers * steps
    if one_unit * units <= most:
        return None
    fits = fitting_units(gates, layers, steps, most)
    way_out = f'"units": {fits} would fit, or fewer layers or gates' if fits else "send a shorter text"
    return f"This answer would hold {one_unit * units:,} gate values and the limit is {most:,}: {way_out}."


def selected_gates(cell: str, wanted: list[str] | tuple[str, ...] | None) -> tuple[str, ...]:
    """The selected gates in the cell's order; None: all. SelectionError for a gate that the cell does not have."""
    names = tuple(CELLS[cell].shown)
    for name in wanted or ():
        if name not in names:
            sentence = f"There is no gate {name} in this model: the gates of its {cell} are {', '.join(names)}."
            raise SelectionError(sentence, "gates")
    return names if wanted is None else tuple(name for name in names if name in wanted)
