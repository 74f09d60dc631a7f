"""Which attention kinds, layers, heads and rows are meant, and which gates and units. Numbers may count from the end,
as Python's do. No torch: the front end counts and refuses."""

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
    """What is shown of a forward pass: maps of these kinds, layers and heads (None: all), reduced if wished; further
    findings; the top_k likeliest tokens of each step; the worth of the `masked` heads; one row, worked out."""

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
    """The position of a layer and a head whose forward pass is recorded. most: how many values of each vector;
    most_keys: how many keys of each matrix."""

    side: Side = "decoder"
    layer: int = 0
    head: int = 0
    position: int = 0
    most: int = 8
    most_keys: int = 64


class SelectionError(ValueError):
    """A choice that the network does not have; `field` says of what: "kinds", "layers", "heads", "masked", "row",
    "side" or "position"."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


def within(number: int, count: int, noun: str, field: str, owner: str = "this model") -> int:
    """`number`, counted from 0. SelectionError names the range."""
    if not -count <= number < count:
        there = f"{count} ({noun}s 0 to {count - 1})" if count else "none"
        raise SelectionError(f"There is no {noun} {number}: {owner} has {there}.", field)
    return number % count


def resolve(chosen: Sequence[int] | None, count: int, noun: str) -> tuple[int, ...]:
    """Numbers 0..count-1 from a choice that may count from the end; None: all. SelectionError names the range."""
    if chosen is None:
        return tuple(range(count))
    if not chosen:
        raise SelectionError(f"Choose at least one {noun}, or leave the choice out for all {count}.", f"{noun}s")
    return tuple(dict.fromkeys(within(number, count, noun, f"{noun}s") for number in chosen))


def known_kinds(kinds: Iterable[str], field: str = "kinds") -> tuple[AttentionKind, ...]:
    """Each once. SelectionError names the kinds."""
    known: dict[str, AttentionKind] = {kind: kind for kind in KINDS}
    for kind in (chosen := dict.fromkeys(kinds)):
        if kind not in known:
            raise SelectionError(f"There is no attention kind {kind!r}; the kinds are {', '.join(KINDS)}.", field)
    return tuple(known[kind] for kind in chosen)


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
    """In the cell's own order; None: all. SelectionError for one that the cell does not have."""
    names = tuple(CELLS[cell].shown)
    for name in wanted or ():
        if name not in names:
            sentence = f"There is no gate {name} in this model: the gates of its {cell} are {', '.join(names)}."
            raise SelectionError(sentence, "gates")
    return names if wanted is None else tuple(name for name in names if name in wanted)
