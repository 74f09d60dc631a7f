"""Word alignment from cross-attention maps: links, alignment error rate, and the choice of heads that align best.
Links connect units. Units give for each token the number of its word (or token); None for special, unlinked tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, get_args

import torch
from torch import Tensor

from models.inspection.results import Convention

CONVENTIONS: tuple[Convention, ...] = get_args(Convention)
Units = Sequence[int | None]
LinkPairs = frozenset[tuple[int, int]]
HeadPlace = tuple[int, int]  # layer and head of cross-attention
MAX_HEADS, GROWN_SETS = 8, 4  # the largest set of heads, and how many single heads are grown into sets


class Link(NamedTuple):
    """Source unit i, target unit j, and the weight of i in j's row."""

    source: int
    target: int
    weight: float


class UnitMap(NamedTuple):
    """weights [..., m, n] from target units to source units, with their numbers."""

    weights: Tensor
    targets: list[int]
    sources: list[int]


def aligning_rows(weights: Tensor, convention: Convention) -> Tensor:
    """The rows [..., n, S] of weights [..., T, S] that align output tokens 0..n-1. "predicting": row t, which
    predicts output token t. "input": row t+1, which reads it (SHIFT-ATT: Chen et al. 2020, arXiv 2004.14837); the last
    output token has no such row, and is the end token of a finished text."""
    return weights if convention == "predicting" else weights[..., 1:, :]


def map_over_units(weights: Tensor, source_units: Units, target_units: Units) -> UnitMap:
    """weights [..., t, S] of the first t target tokens -> by unit: the columns of a source unit are summed, the rows of
    a target unit averaged (Clark et al. 2019, arXiv 1906.04341)."""
    sources = sorted({unit for unit in source_units if unit is not None})
    targets = sorted({unit for unit in target_units[: weights.size(-2)] if unit is not None})
    columns, rows = membership(source_units, sources), membership(target_units[: weights.size(-2)], targets)
    rows = rows / rows.sum(dim=-1, keepdim=True)
    return UnitMap(rows @ weights.double() @ columns.T, targets, sources)


def membership(units: Units, numbers: Sequence[int]) -> Tensor:
    """[numbers, tokens], float64: 1 where the token belongs to the unit."""
    belongs = [[float(unit == number) for unit in units] for number in numbers]
    return torch.tensor(belongs, dtype=torch.float64).view(len(numbers), len(units))


def links(
    weights: Tensor, source_units: Units, target_units: Units, convention: Convention = "predicting"
) -> list[Link]:
    """weights [T, S], rows summing to 1; target_units [T]: of the output tokens. Links each target unit to the source
    unit with the largest positive weight."""
    if tuple(weights.shape) != (len(target_units), len(source_units)):
        shape = f"{len(target_units)} target and {len(source_units)} source tokens"
        raise ValueError(f"A map of shape {tuple(weights.shape)} does not fit {shape}.")
    return strongest_links(map_over_units(aligning_rows(weights, convention), source_units, target_units))


def strongest_links(found: UnitMap) -> list[Link]:
    """Links each target unit to the source unit with the largest positive weight in its row of [m, n]."""
    if not found.sources or not found.targets:
        return []
    values, places = found.weights.max(dim=-1)
    each = zip(places.tolist(), found.targets, values.tolist(), strict=True)
    return [Link(found.sources[place], target, value) for place, target, value in each if value > 0]


class GoldLinks(NamedTuple):
    """Gold links (Och & Ney 2003); `possible` includes the sure ones."""

    sure: LinkPairs
    possible: LinkPairs


def link_pairs(found: Iterable[Link]) -> LinkPairs:
    return frozenset((link.source, link.target) for link in found)


def pharaoh(found: Iterable[Link]) -> str:
    """The links in Pharaoh format, sorted, from 0: "0-0 1-2"."""
    return " ".join(f"{source}-{target}" for source, target in sorted(link_pairs(found)))


def alignment_error_rate(sentences: Iterable[tuple[LinkPairs, GoldLinks]]) -> float:
    """AER = 1 - (|A∩S| + |A∩P|) / (|A| + |S|) over all sentences (Och & Ney 2003): 0 if all sure links and only
    possible ones are predicted, or without any links at all."""
    agreed = total = 0
    for found, gold in sentences:
        agreed += len(found & gold.sure) + len(found & (gold.possible | gold.sure))
        total += len(found) + len(gold.sure)
    return 1 - agreed / total if total else 0.0


class AlignmentExample(NamedTuple):
    """One sentence: cross-attention maps [H, T, S] per layer, units of source and output tokens, gold links."""

    maps: Sequence[Tensor]
    source_units: Units
    target_units: Units
    gold: GoldLinks


@dataclass(frozen=True, slots=True)
class AlignmentCandidate:
    """The mean of these heads, read by one convention, and its alignment error rate."""

    heads: tuple[HeadPlace, ...]
    convention: Convention
    error: float

    def links(self, maps: Sequence[Tensor], source_units: Units, target_units: Units) -> list[Link]:
        """The links of one sentence from its maps, [H, T, S] per layer."""
        return links(mean_of_heads(maps, self.heads), source_units, target_units, self.convention)

    def error_on(self, examples: Iterable[AlignmentExample]) -> float:
        """The alignment error rate on other sentences."""
        drawn = ((link_pairs(self.links(e.maps, e.source_units, e.target_units)), e.gold) for e in examples)
        return alignment_error_rate(drawn)


def mean_of_heads(maps: Sequence[Tensor], heads: Sequence[HeadPlace]) -> Tensor:
    """maps [H, T, S] per layer -> [T, S], float64."""
    return torch.stack([maps[layer][head] for layer, head in heads]).double().mean(dim=0)


def choose_alignment(examples: Sequence[AlignmentExample]) -> list[AlignmentCandidate]:
    """All candidates, best first, in both conventions: single heads, the mean of each layer, and sets of heads from any
    layers, grown greedily from the best single heads while the error falls. Ties go to fewer heads, then to
    "predicting", then to lower layers and heads."""
    if not examples:
        raise ValueError("Choosing needs at least one sentence with known links.")
    return sorted((c for convention in CONVENTIONS for c in _candidates(examples, convention)), key=_rank_key)


def _rank_key(candidate: AlignmentCandidate) -> tuple[float, int, int, tuple[HeadPlace, ...]]:
    return candidate.error, len(candidate.heads), CONVENTIONS.index(candidate.convention), candidate.heads


def _candidates(examples: Sequence[AlignmentExample], convention: Convention) -> Iterator[AlignmentCandidate]:
    sentences = [(_unit_maps(example, convention), example.gold) for example in examples]
    layers = [[(layer, head) for head in range(len(maps))] for layer, maps in enumerate(examples[0].maps)]

    def candidate(heads: Sequence[HeadPlace]) -> AlignmentCandidate:
        drawn = ((link_pairs(strongest_links(_mean_map(maps, heads))), gold) for maps, gold in sentences)
        return AlignmentCandidate(tuple(sorted(heads)), convention, alignment_error_rate(drawn))

    singles = [candidate([place]) for layer in layers for place in layer]
    yield from singles
    means = [candidate(layer) for layer in layers if len(layer) > 1]
    yield from means
    seen = {mean.heads for mean in means}
    for best in sorted(singles, key=_rank_key)[:GROWN_SETS]:
        while len(best.heads) < MAX_HEADS:
            grown = [candidate([*best.heads, c.heads[0]]) for c in singles if c.heads[0] not in best.heads]
            if not grown or (better := min(grown, key=_rank_key)).error >= best.error or better.heads in seen:
                break
            seen.add(better.heads)
            yield (best := better)


def _unit_maps(example: AlignmentExample, convention: Convention) -> list[UnitMap]:
    rows = [aligning_rows(maps.cpu(), convention) for maps in example.maps]
    return [map_over_units(weights, example.source_units, example.target_units) for weights in rows]


def _mean_map(layers: Sequence[UnitMap], heads: Sequence[HeadPlace]) -> UnitMap:
    return layers[0]._replace(weights=mean_of_heads([layer.weights for layer in layers], heads))
