"""Which heads and which convention align best, by the error on sentences with known links and never by belief."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
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
from models.inspection.alignment_error import Gold, Pairs, alignment_error_rate, pairs

Place = tuple[int, int]
"""The layer and number of a head of cross-attention."""
MOST_HEADS, STARTS = 8, 4  # in a set, and how many sets are grown


class Example(NamedTuple):
    """One sentence: cross-attention maps, one [H, T, S] a layer; units of source and output tokens; its known links."""

    maps: Sequence[Tensor]
    source_units: Units
    target_units: Units
    gold: Gold


@dataclass(frozen=True, slots=True)
class Candidate:
    """The mean of these heads, read by one convention, and its alignment error rate."""

    heads: tuple[Place, ...]
    convention: Convention
    error: float

    def links(self, maps: Sequence[Tensor], source_units: Units, target_units: Units) -> list[Link]:
        """Of a sentence's maps, one [H, T, S] a layer."""
        return links(mean_of(maps, self.heads), source_units, target_units, self.convention)


@dataclass(frozen=True, slots=True)
class Choice:
    """The best candidate, and all of them, best first."""

    best: Candidate
    candidates: tuple[Candidate, ...]


def mean_of(maps: Sequence[Tensor], heads: Sequence[Place]) -> Tensor:
    """maps: one [H, T, S] a layer -> [T, S], float64."""
    return torch.stack([maps[layer][head] for layer, head in heads]).double().mean(dim=0)


def choose(examples: Sequence[Example]) -> Choice:
    """Among single heads, the mean of each layer, and sets of any layers' heads that grow from the best single ones,
    each by the head that lowers the error most, as long as one does; by both conventions. Of equal errors the one of
    fewer heads, then the convention "predicting", then the lower layers and heads."""
    if not examples:
        raise ValueError("Choosing needs at least one sentence with known links.")
    found = [candidate for convention in CONVENTIONS for candidate in _candidates(examples, convention)]
    found.sort(key=_merit)
    return Choice(found[0], tuple(found))


def _merit(candidate: Candidate) -> tuple[float, int, int, tuple[Place, ...]]:
    return candidate.error, len(candidate.heads), CONVENTIONS.index(candidate.convention), candidate.heads


def _candidates(examples: Sequence[Example], convention: Convention) -> Iterator[Candidate]:
    sentences = [_Sentence.of(example, convention) for example in examples]
    layers = [[(layer, head) for head in range(len(maps))] for layer, maps in enumerate(examples[0].maps)]

    def candidate(heads: Sequence[Place]) -> Candidate:
        drawn = ((sentence.pairs(heads), sentence.gold) for sentence in sentences)
        return Candidate(tuple(sorted(heads)), convention, alignment_error_rate(drawn))

    singles = [candidate([place]) for layer in layers for place in layer]
    yield from singles
    means = [candidate(layer) for layer in layers if len(layer) > 1]
    yield from means
    seen = {mean.heads for mean in means}
    for best in sorted(singles, key=_merit)[:STARTS]:
        while len(best.heads) < MOST_HEADS:
            grown = [candidate([*best.heads, c.heads[0]]) for c in singles if c.heads[0] not in best.heads]
            if not grown or (better := min(grown, key=_merit)).error >= best.error or better.heads in seen:
                break
            seen.add(better.heads)
            yield (best := better)


class _Sentence(NamedTuple):
    """A sentence's maps by units, and its known links."""

    layers: list[UnitMap]
    gold: Gold

    @classmethod
    def of(cls, example: Example, convention: Convention) -> _Sentence:
        layers = [
            over_units(rows_of(maps.cpu(), convention), example.source_units, example.target_units)
            for maps in example.maps
        ]
        return cls(layers, example.gold)

    def pairs(self, heads: Sequence[Place]) -> Pairs:
        weights = mean_of([each.weights for each in self.layers], heads)
        return pairs(strongest(self.layers[0]._replace(weights=weights)))
