"""From a cross-attention map to links between words.

What a link is between is said by units: for each token the number of the word (or token) that it belongs to, and None
for special tokens, which are never linked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

Convention = Literal["predicting", "input"]
CONVENTIONS: tuple[Convention, ...] = get_args(Convention)
Units = Sequence[int | None]


class Link(NamedTuple):
    """Source unit i, target unit j, and the weight of i in j's row."""

    source: int
    target: int
    weight: float


class UnitMap(NamedTuple):
    """weights [..., m, n] of target units and source units, with the numbers of these."""

    weights: Tensor
    targets: list[int]
    sources: list[int]


def token_units(special: Sequence[bool]) -> list[int | None]:
    """Each token that is not special a unit of its own, numbered from 0."""
    numbers = iter(range(len(special)))
    return [None if each else next(numbers) for each in special]


def rows_of(weights: Tensor, convention: Convention) -> Tensor:
    """The rows [..., n, S] that align output tokens 0..n-1, of weights [..., T, S].

    "predicting": row t, at which output token t is chosen. "input": row t+1, at which it is read (SHIFT-ATT: Chen et
    al. 2020, arXiv 2004.14837); the last output token is read by no row, and is the end token if the text is finished.
    """
    return weights if convention == "predicting" else weights[..., 1:, :]


def over_units(weights: Tensor, source_units: Units, target_units: Units) -> UnitMap:
    """weights [..., t, S] of the first t target tokens -> by units: the columns of a source unit are summed, the rows
    of a target unit averaged (Clark et al. 2019, arXiv 1906.04341)."""
    sources = sorted({unit for unit in source_units if unit is not None})
    targets = sorted({unit for unit in target_units[: weights.size(-2)] if unit is not None})
    columns, rows = members(source_units, sources), members(target_units[: weights.size(-2)], targets)
    rows = rows / rows.sum(dim=-1, keepdim=True)
    return UnitMap(rows @ weights.double() @ columns.T, targets, sources)


def members(units: Units, numbers: Sequence[int]) -> Tensor:
    """[numbers, tokens], float64: 1 where the token belongs to the unit."""
    belongs = [[float(unit == number) for unit in units] for number in numbers]
    return torch.tensor(belongs, dtype=torch.float64).view(len(numbers), len(units))


def links(
    weights: Tensor, source_units: Units, target_units: Units, convention: Convention = "predicting"
) -> list[Link]:
    """weights [T, S], rows of which sum to 1; target_units [T]: of the output tokens. Each target unit is linked with
    the source unit that has most of its row, if any has some."""
    if tuple(weights.shape) != (len(target_units), len(source_units)):
        shape = f"{len(target_units)} target and {len(source_units)} source tokens"
        raise ValueError(f"A map of shape {tuple(weights.shape)} does not fit {shape}.")
    return strongest(over_units(rows_of(weights, convention), source_units, target_units))


def strongest(found: UnitMap) -> list[Link]:
    """Each target unit's link with the source unit that has most of its row [m, n], if any has some."""
    if not found.sources or not found.targets:
        return []
    values, places = found.weights.max(dim=-1)
    each = zip(places.tolist(), found.targets, values.tolist(), strict=True)
    return [Link(found.sources[place], target, value) for place, target, value in each if value > 0]
