"""Which attention kinds, layers, heads and rows are meant. Numbers may count from the end, as Python's do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from models.networks.transformer import TransformerConfig

KINDS = ("encoder", "decoder", "cross")


class Head(NamedTuple):
    kind: str
    layer: int
    head: int


class Row(NamedTuple):
    """One query of one head."""

    kind: str
    layer: int
    head: int
    row: int


class SelectionError(ValueError):
    """A choice that the network does not have; `field` says of what: "kinds", "layers", "heads", "masked", "row",
    "side" or "position"."""

    def __init__(self, message: str, field: str) -> None:
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


def known_kinds(kinds: Iterable[str], field: str = "kinds") -> tuple[str, ...]:
    """Each once. SelectionError names those that there are."""
    chosen = tuple(dict.fromkeys(kinds))
    for kind in chosen:
        if kind not in KINDS:
            raise SelectionError(f"There is no attention kind {kind!r}; the kinds are {', '.join(KINDS)}.", field)
    return chosen


def resolve_head(head: Head | Row, config: TransformerConfig, field: str) -> Head:
    """Counted from 0. SelectionError names what there is."""
    (kind,) = known_kinds([head.kind], field)
    layers = config.encoder_layers if kind == "encoder" else config.decoder_layers
    return Head(
        kind, within(head.layer, layers, f"{kind} layer", field), within(head.head, config.heads, "head", field)
    )


def by_layer(masked: Iterable[Head], config: TransformerConfig) -> dict[str, Mapping[int, tuple[int, ...]]]:
    """kind -> layer -> heads, each once, all kinds present."""
    found: dict[str, Mapping[int, tuple[int, ...]]] = {kind: {} for kind in KINDS}
    for kind, layer, head in dict.fromkeys(resolve_head(each, config, "masked") for each in masked):
        found[kind] = {**found[kind], layer: (*found[kind].get(layer, ()), head)}
    return found
