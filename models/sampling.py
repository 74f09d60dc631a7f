"""The next token of independent rows. Every row has its own temperature, top-k, top-p and seed, and its draw
depends on nothing else: not on the rows beside it, not on the order of requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

MASK = (1 << 64) - 1


def uniform(seed: int, position: int) -> float:
    """A number in [0, 1) that is a function of (seed, position) alone: two rounds of SplitMix64's finalizer
    (Steele, Lea and Flood 2014) over a counter, 53 bits of the result."""
    state = (seed * 0x9E3779B97F4A7C15 + position * 0xD1342543DE82EF95 + 0x632BE59BD9B4E019) & MASK
    for _ in range(2):
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & MASK
        state ^= state >> 31
    return (state >> 11) * 2.0**-53


@dataclass(frozen=True, slots=True)
class Draw:
    """How one row draws: temperature > 0; top_k 0 and top_p 1 switch these filters off."""

    temperature: float
    top_k: int
    top_p: float
    uniform: float


def sample(log_probabilities: Tensor, draws: Sequence[Draw]) -> Tensor:
    """log_probabilities [B, V] -> token ids [B].

    The distribution at temperature t is cut to the k likeliest tokens, then to the smallest set of likeliest
    tokens whose mass reaches p (Holtzman et al. 2020), then inverted at the row's uniform number. float64, so
    that rounding does not move a draw.
    """
    device = log_probabilities.device

    def column(values: list[float]) -> Tensor:
        return torch.tensor(values, dtype=torch.float64, device=device)[:, None]

    likeliest = log_probabilities.double().amax(dim=-1, keepdim=True)
    # from the likeliest down, so that a temperature next to 0 leaves it at 0 and not at -inf like the others
    scaled = (log_probabilities.double() - likeliest) / column([d.temperature for d in draws])
    probabilities, order = scaled.softmax(dim=-1).sort(dim=-1, descending=True, stable=True)
    rank = torch.arange(probabilities.size(1), device=device)
    size = probabilities.size(1)
    kept = probabilities.masked_fill(rank >= column([d.top_k or size for d in draws]), 0.0)
    before = kept.cumsum(dim=-1) - kept
    mass = kept.sum(dim=-1, keepdim=True)
    kept = kept.masked_fill((before >= column([d.top_p for d in draws]) * mass) & (rank > 0), 0.0)
    cumulative = kept.cumsum(dim=-1)
    threshold = column([d.uniform for d in draws]) * cumulative[:, -1:]
    choice = torch.searchsorted(cumulative, threshold, right=True).clamp(max=size - 1)
    # u close to 1 may round up to the total and fall behind the last kept token
    last = ((kept > 0).sum(dim=-1, keepdim=True) - 1).clamp(min=0)  # 0 in a row of NaN: its neighbours go on
    choice = torch.minimum(choice, last)
    return order.gather(1, choice)[:, 0]
