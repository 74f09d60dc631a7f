"""Single draws: from logits or probabilities, by a uniform number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from models.backends.torch.token_choice import OPTIONS, draw, is_cut, uniform
from models.decoding.options import ROW_PARAMETERS, SEED_MASK
from models.decoding.row_state import COLUMNS

ALMOST_1 = 1 - 2.0**-53
Options = Mapping[str, float]
Draw = tuple[Options, float]  # those of a row that are not neutral, but for the temperature, which is 1; its number
CUTS: list[Options] = [
    *({}, {"top_k": 1}, {"top_k": 5}, {"top_k": 40}, {"top_p": 0.9}, {"top_p": 1e-9}, {"top_p": 0.999999}),
    *({"top_k": 40, "top_p": 0.8}, {"top_k": 10**6}, {"top_k": 7, "top_p": 0.5}),
    *({"min_p": 0.1}, {"min_p": 0.7}, {"top_k": 9, "top_p": 0.9, "min_p": 0.02}),
]


def columns(options: Sequence[Options]) -> dict[str, Any]:
    """Arrays by name, of all that a draw reads."""
    rows = [{name: ROW_PARAMETERS[name].neutral for name in OPTIONS} | {"temperature": 1.0, **row} for row in options]
    return {name: np.array([row[name] for row in rows], dtype=COLUMNS[name]) for name in OPTIONS}


def tensors(options: Sequence[Options]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(column) for name, column in columns(options).items()}


def sampled(logits: Tensor, draws: Sequence[Draw]) -> list[int]:
    options = tensors([row for row, _ in draws])
    numbers = torch.tensor([number for _, number in draws], dtype=torch.float64)
    tokens: list[int] = draw(logits, options, numbers, cut=bool(is_cut(options).any())).tolist()
    return tokens


def number_of(seed: int, position: int) -> float:
    """One uniform number; of a seed of any size the last 64 bits count."""
    return float(uniform(np.array([seed & SEED_MASK], np.uint64), np.array([position], np.uint64))[0])


def log(probabilities: list[float]) -> Tensor:
    return torch.tensor([probabilities], dtype=torch.float64).log()


def drawn(probabilities: list[float], number: float, **options: float) -> int:
    return sampled(log(probabilities), [(options, number)])[0]


def reachable(probabilities: list[float], **options: float) -> dict[int, float]:
    """Token -> its share of 4,000 evenly spaced uniform numbers."""
    count = 4000
    draws = [(options, (i + 0.5) / count) for i in range(count)]
    tokens = sampled(log(probabilities).expand(count, -1), draws)
    return {token: tokens.count(token) / count for token in sorted(set(tokens))}


def near(expected: dict[int, float]) -> object:
    return pytest.approx(expected, abs=5e-4)


def chosen_by_definition(logits: Tensor, options: Options) -> list[int]:
    """The tokens that the cuts leave, in the order in which they are counted, for one row [V]."""
    if not options.keys() - {"temperature"}:
        return list(range(len(logits)))
    t, k, p = options.get("temperature", 1.0), options.get("top_k", 0), options.get("top_p", 1.0)
    order = sorted(range(len(logits)), key=lambda token: -logits[token].item())[: int(k) or None]
    least = options.get("min_p", 0.0)
    order = [token for token in order if ((logits[token] - logits.max()).double() / t).exp().item() >= least]
    if p == 1:
        return order
    weights = ((logits[order] - logits.max()).double() / t).exp()
    before = weights.cumsum(0) - weights
    return [token for token, mass in zip(order, before.tolist(), strict=True) if mass < p * weights.sum().item()]
