"""Sampling of the next token. A row has its own temperature, top-k, top-p and uniform number; its draw depends neither
on the rest of the batch nor on the order of requests."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from models.backends.native import build
from models.backends.native.logit_kernels import SamplingParameters, native_sample, native_uniform
from models.backends.top_k import BLOCK, blocks, in_blocks
from models.backends.top_k import top_k as top

TOP_P_CANDIDATES = 256  # for a top-p cut these are searched before all tokens are sorted
MIN_TEMPERATURE = 1e-30  # greedy in effect, and distinguishable from 0 in float32


def uniform(seeds: npt.NDArray[np.uint64], positions: npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
    """Numbers in [0, 1) as a function of (seed, position) alone: two rounds of SplitMix64's finalizer (Steele, Lea and
    Flood 2014) over a counter, 53 bits of the result. Arithmetic is modulo 2**64."""
    library = build.fp32_library()
    if library is not None:
        return native_uniform(library, seeds, positions)
    state = seeds * np.uint64(0x9E3779B97F4A7C15) + positions * np.uint64(0xD1342543DE82EF95)
    state += np.uint64(0x632BE59BD9B4E019)
    for _ in range(2):
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state ^= state >> np.uint64(31)
    return (state >> np.uint64(11)).astype(np.float64) * 2.0**-53


def sample(logits: Tensor, draws: SamplingParameters) -> Tensor:
    """logits [B, V] -> token ids [B]. The distribution at temperature t is cut to the k likeliest tokens, then to the
    fewest likeliest tokens with mass p (Holtzman et al. 2020), then inverted at the row's uniform number: in descending
    order of probability if cut, else in vocabulary order. Sums are float64: rounding moves no draw."""
    library = build.fp32_library() if logits.device.type == "cpu" and logits.dtype == torch.float32 else None
    if library is not None:
        return native_sample(library, logits, draws)
    cut = (draws.top_k > 0) | (draws.top_p < 1)
    if not cut.any():
        return _from_all(logits, draws)
    if cut.all():
        return _from_likeliest(logits, draws)
    tokens = torch.empty(len(logits), dtype=torch.long, device=logits.device)
    for rows, choose in ((cut.nonzero()[0], _from_likeliest), ((~cut).nonzero()[0], _from_all)):
        index = torch.from_numpy(rows).to(logits.device)
        tokens[index] = choose(logits[index], draws.of(rows))
    return tokens


def _weights(logits: Tensor, draws: SamplingParameters) -> Tensor:
    """exp((logits - max) / temperature), so that the largest weight is 1 even at a temperature next to 0. One dtype for
    the whole batch: a row must not depend on its neighbours' options."""
    weights = logits.to(torch.promote_types(logits.dtype, torch.float32))
    coldness = _column(1 / draws.temperature.clip(min=MIN_TEMPERATURE), logits).to(weights.dtype)
    return (weights - weights.amax(dim=-1, keepdim=True)).mul_(coldness).exp_()


def _from_all(logits: Tensor, draws: SamplingParameters) -> Tensor:
    """Without a cut nothing is sorted. In a large vocabulary, only the block is searched in which the cumulative
    weights pass the row's share of their sum."""
    weights = _weights(logits, draws)
    if not in_blocks(weights, 1):
        return _invert(weights.cumsum(dim=-1, dtype=torch.float64), draws)
    parts = blocks(weights)
    cumulative = parts.sum(dim=-1).cumsum(dim=-1, dtype=torch.float64)
    block = _invert(cumulative, draws)[:, None]
    before = cumulative.gather(1, (block - 1).clamp(min=0)).masked_fill(block == 0, 0.0)
    inside = parts.gather(1, block[:, :, None].expand(-1, -1, BLOCK))[:, 0].cumsum(dim=-1, dtype=torch.float64)
    share = _column(draws.uniform, weights) * cumulative[:, -1:] - before
    return block[:, 0] * BLOCK + _first_above(inside, share)


def _invert(cumulative: Tensor, draws: SamplingParameters) -> Tensor:
    """The index in each row where the cumulative weights pass the row's share of their sum."""
    return _first_above(cumulative, _column(draws.uniform, cumulative) * cumulative[:, -1:])


def _first_above(cumulative: Tensor, threshold: Tensor) -> Tensor:
    """The first index above the threshold, clamped to [0, sum) so that rounding never picks a weight of 0. A row of NaN
    gives 0: its last index may be block padding rather than a token."""
    total = cumulative[:, -1:]
    threshold = torch.minimum(threshold.clamp(min=0), total.nextafter(torch.zeros_like(total)))
    found = torch.searchsorted(cumulative, threshold, right=True).clamp(max=cumulative.size(1) - 1)
    return found.masked_fill_(total.isnan(), 0)[:, 0]


def _from_likeliest(logits: Tensor, draws: SamplingParameters) -> Tensor:
    """Draws among the top tokens if the cuts lie within them, else from a full sort."""
    size = logits.size(1)
    without_k = draws.top_k == 0
    needed = int(draws.top_k.max())
    if without_k.any():
        needed = max(needed, TOP_P_CANDIDATES)
    # a GPU sorts everything fast, without a synchronisation to check the candidates
    if needed + 1 < size and logits.device.type == "cpu":
        values, places = _ordered(*top(logits, needed + 1))
        last, next_to_last = values[:, -1], values[:, -2]
        tied = (last == next_to_last) & last.isfinite()  # then which of the equal tokens are candidates is arbitrary
        total = _weights(logits, draws).sum(dim=-1, dtype=torch.float64) if without_k.any() else None
        chosen, reached = _draw_among(values, draws, total)
        if reached and not tied.any():
            return places.gather(1, chosen[:, None])[:, 0]
    values, places = logits.sort(dim=-1, descending=True, stable=True)
    chosen, _ = _draw_among(values, draws, None)
    return places.gather(1, chosen[:, None])[:, 0]


def _ordered(values: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
    """Descending, ties by index, as a stable sort of the whole row orders them."""
    places, order = places.sort(dim=-1)
    values, order = values.gather(1, order).sort(dim=-1, descending=True, stable=True)
    return values, places.gather(1, order)


def _draw_among(values: Tensor, draws: SamplingParameters, total: Tensor | None) -> tuple[Tensor, bool]:
    """values [B, K] descending -> the rank drawn in each row, and whether K - 1 candidates cover every row's top-p. The
    last candidate may be one of several equal ones, arbitrarily picked, and must not be drawn. total: each row's weight
    over the whole vocabulary, if the candidates are fewer."""
    rank = torch.arange(values.size(1), device=values.device)
    weights = _weights(values, draws).double()
    limit = _column(np.where(draws.top_k > 0, draws.top_k, np.iinfo(np.int64).max), values)
    kept = weights.masked_fill(rank >= limit, 0.0)
    cumulative = kept.cumsum(dim=-1)
    before, mass = cumulative - kept, cumulative[:, -1:]
    if total is not None:
        mass = torch.where(_column(draws.top_k, values) > 0, mass, total[:, None])
    needed = _column(draws.top_p, values) * mass
    reached = total is None or bool(((before[:, -1:] >= needed) | (_column(draws.top_k, values) > 0)).all())
    kept = kept.masked_fill((before >= needed) & (rank > 0), 0.0)
    return _invert(kept.cumsum(dim=-1), draws), reached


def _column(values: npt.NDArray[np.generic], like: Tensor) -> Tensor:
    return torch.from_numpy(values).to(like.device)[:, None]
