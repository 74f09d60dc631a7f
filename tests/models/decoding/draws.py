"""Single draws: from logits or probabilities, by a uniform number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from models.decoding.row_state import SEED_MASK
from models.decoding.sampling import SamplingParameters, sample, uniform

ALMOST_1 = 1 - 2.0**-53
Draw = tuple[float, int, float, float]  # temperature, top_k, top_p, uniform number


def columns(draws: Sequence[Draw]) -> SamplingParameters:
    t, k, p, number = (np.array(column) for column in zip(*draws, strict=True))
    return SamplingParameters(t.astype(float), k.astype(np.int64), p.astype(float), number.astype(float))


def sampled(logits: Tensor, draws: Sequence[Draw]) -> list[int]:
    return sample(logits, columns(draws)).tolist()


def number_of(seed: int, position: int) -> float:
    """One uniform number; of a seed of any size the last 64 bits count."""
    return float(uniform(np.array([seed & SEED_MASK], np.uint64), np.array([position], np.uint64))[0])


def log(probabilities: list[float]) -> Tensor:
    return torch.tensor([probabilities], dtype=torch.float64).log()


def drawn(probabilities: list[float], number: float, *, t: float = 1.0, k: int = 0, p: float = 1.0) -> int:
    return sampled(log(probabilities), [(t, k, p, number)])[0]


def reachable(probabilities: list[float], *, t: float = 1.0, k: int = 0, p: float = 1.0) -> dict[int, float]:
    """Token -> its share of 4,000 evenly spaced uniform numbers."""
    count = 4000
    draws = [(t, k, p, (i + 0.5) / count) for i in range(count)]
    tokens = sampled(log(probabilities).expand(count, -1), draws)
    return {token: tokens.count(token) / count for token in sorted(set(tokens))}


def near(expected: dict[int, float]) -> object:
    return pytest.approx(expected, abs=5e-4)


def chosen_by_definition(logits: Tensor, t: float, k: int, p: float) -> list[int]:
    """The tokens that the cuts leave, in the order in which they are counted, for one row [V]."""
    order = sorted(range(len(logits)), key=lambda token: -logits[token].item())
    if k == 0 and p == 1:
        return list(range(len(logits)))
    order = order[: k or None]
    weights = ((logits[order] - logits.max()).double() / t).exp()
    before = weights.cumsum(0) - weights
    return [token for token, mass in zip(order, before.tolist(), strict=True) if mass < p * weights.sum().item()]
