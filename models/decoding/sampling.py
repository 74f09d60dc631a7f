"""Sampling of the next token in PyTorch, where `models.backends.native.logit_kernels.Chooser` does not do it. A row has
its own temperature, top-k, top-p and uniform number; neither other rows nor the order of requests change its draw."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

MIN_TEMPERATURE = 1e-30  # greedy in effect, and distinguishable from 0 in float32


class SamplingParameters(NamedTuple):
    """Per row, arrays [B]. temperature > 0; top_k 0 and top_p 1 disable these filters; uniform in [0, 1)."""

    temperature: npt.NDArray[np.float64]
    top_k: npt.NDArray[np.int64]
    top_p: npt.NDArray[np.float64]
    uniform: npt.NDArray[np.float64]


class DrawnRows(NamedTuple):
    """`SamplingParameters` as tensors [B] on the device of the logits."""

    temperature: Tensor
    top_k: Tensor
    top_p: Tensor
    uniform: Tensor


def uniform(seeds: npt.NDArray[np.uint64], positions: npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
    """Numbers in [0, 1) as a function of (seed, position) alone: two rounds of SplitMix64's finalizer (Steele, Lea and
    Flood 2014) over a counter, 53 bits of the result. Arithmetic is modulo 2**64."""
    state = seeds * np.uint64(0x9E3779B97F4A7C15) + positions * np.uint64(0xD1342543DE82EF95)
    state += np.uint64(0x632BE59BD9B4E019)
    for _ in range(2):
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state ^= state >> np.uint64(31)
    return (state >> np.uint64(11)).astype(np.float64) * 2.0**-53


def sample(logits: Tensor, draws: SamplingParameters) -> Tensor:
    """logits [B, V] -> token ids [B]: `draw` with parameters that are on the host."""
    rows = DrawnRows(*(torch.from_numpy(column).to(logits.device) for column in draws))
    return draw(logits, rows, cut=bool(((draws.top_k > 0) | (draws.top_p < 1)).any()))


def draw(logits: Tensor, rows: DrawnRows, *, cut: bool) -> Tensor:
    """logits [B, V] -> token ids [B]. The distribution at temperature t is cut to the k likeliest tokens, then to the
    fewest likeliest tokens with mass p (Holtzman et al. 2020), then inverted at the row's uniform number: in descending
    order of probability if cut, else in vocabulary order. Sums are float64: rounding moves no draw. cut: whether a row
    has top-k or top-p; False saves sorting. Waits for no device, so that a CUDA graph can capture it."""
    weights = logits.to(torch.promote_types(logits.dtype, torch.float32))  # one dtype, whatever the neighbours' options
    coldness = (1 / rows.temperature.clamp(min=MIN_TEMPERATURE)).to(weights.dtype)[:, None]
    weights = (
        (weights - weights.amax(dim=-1, keepdim=True)).mul_(coldness).exp_()
    )  # the largest is 1 at any temperature
    if not cut:
        return _inverted(weights.cumsum(dim=-1, dtype=torch.float64), rows.uniform)
    top_k, top_p = rows.top_k[:, None], rows.top_p[:, None]
    rank = torch.arange(logits.size(1), device=logits.device)
    order = logits.argsort(dim=-1, descending=True, stable=True).where((top_k > 0) | (top_p < 1), rank)
    kept = weights.gather(1, order).double().masked_fill_((rank >= top_k) & (top_k > 0), 0.0)
    cumulative = kept.cumsum(dim=-1)
    enough = top_p * cumulative[:, -1:]
    kept.masked_fill_((cumulative - kept >= enough) & (rank > 0) & (top_p < 1), 0.0)
    return order.gather(1, _inverted(kept.cumsum(dim=-1), rows.uniform)[:, None])[:, 0]


def _inverted(cumulative: Tensor, uniform: Tensor) -> Tensor:
    """The first index of each row where the cumulative weights pass the row's share of their sum, which is clamped so
    that rounding never picks a weight of 0. A row of NaN gives 0."""
    total = cumulative[:, -1:]
    share = torch.minimum(uniform[:, None] * total, total.nextafter(torch.zeros_like(total)))
    found = torch.searchsorted(cumulative, share, right=True).clamp(max=cumulative.size(1) - 1)
    return found.masked_fill_(total.isnan(), 0)[:, 0]
