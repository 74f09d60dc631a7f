"""Which layer, heads and convention align best, by the error on sentences with known links and never by belief."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from models.inspection.alignment import (
    CONVENTIONS,
    Convention,
    Link,
    UnitMap,
    Units,
    links,
    over_units,
    rows_of,
    strongest,
)
from models.inspection.alignment_error import Gold, alignment_error_rate, pairs


class Example(NamedTuple):
    """One sentence: cross-attention maps, one [H, T, S] a layer; units of source and output tokens; its known links."""

    maps: Sequence[Tensor]
    source_units: Units
    target_units: Units
    gold: Gold


@dataclass(frozen=True, slots=True)
class Candidate:
    """The mean of these heads of one layer, read by one convention, and its alignment error rate."""

    layer: int
    heads: tuple[int, ...]
    convention: Convention
    error: float

    def links(self, maps: Sequence[Tensor], source_units: Units, target_units: Units) -> list[Link]:
        """Of a sentence's maps, one [H, T, S] a layer."""
        mean = maps[self.layer][list(self.heads)].double().mean(dim=0)
        return links(mean, source_units, target_units, self.convention)


@dataclass(frozen=True, slots=True)
class Choice:
    """The best candidate, and all of them, best first."""

    best: Candidate
    candidates: tuple[Candidate, ...]


def choose(examples: Sequence[Example]) -> Choice:
    """Among single heads, the mean of the k best of a layer's heads for each k, and the mean of all; both conventions.
    Of equal errors the one of fewer heads, then the convention "predicting", then the lower layer and heads."""
    if not examples:
        raise ValueError("Choosing needs at least one sentence with known links.")
    found = list[Candidate]()
    for convention in CONVENTIONS:
        for layer in range(len(examples[0].maps)):
            found += _of_layer(examples, layer, convention)
    found.sort(key=lambda c: (c.error, len(c.heads), CONVENTIONS.index(c.convention), c.layer, c.heads))
    return Choice(found[0], tuple(found))


def _of_layer(examples: Sequence[Example], layer: int, convention: Convention) -> list[Candidate]:
    maps = [over_units(rows_of(e.maps[layer].cpu(), convention), e.source_units, e.target_units) for e in examples]
    golds = [e.gold for e in examples]

    def candidate(heads: tuple[int, ...]) -> Candidate:
        return Candidate(layer, heads, convention, _error(maps, golds, heads))

    alone = [candidate((head,)) for head in range(len(examples[0].maps[layer]))]
    order = [c.heads[0] for c in sorted(alone, key=lambda c: (c.error, c.heads))]
    return alone + [candidate(tuple(sorted(order[:count]))) for count in range(2, len(order) + 1)]


def _error(maps: Sequence[UnitMap], golds: Sequence[Gold], heads: tuple[int, ...]) -> float:
    means = (found._replace(weights=found.weights[list(heads)].mean(dim=0)) for found in maps)
    return alignment_error_rate((pairs(strongest(mean)), gold) for mean, gold in zip(means, golds, strict=True))
