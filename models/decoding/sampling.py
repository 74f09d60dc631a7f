"""Draws the next token of independent rows.

Every row has its own temperature, top-k, top-p and uniform number, and its draw depends on nothing else: not on the
rows beside it, not on the order of requests."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from models.backends.native import build
from models.backends.native.logit_kernels import SamplingParameters, native_sample, native_uniform
from models.backends.top_k import BLOCK, blocks, in_blocks
from models.backends.top_k import top_k as top

TOP_P_CANDIDATES = 256  # likeliest tokens among which a top-p cut is looked for before all are sorted
MIN_TEMPERATURE = 1e-30  # a temperature that leaves nothing but the likeliest, and that float32 can tell from 0


def uniform(seeds: npt.NDArray[np.uint64], positions: npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
    """Numbers in [0, 1), each a function of (seed, position) alone: two rounds of SplitMix64's finalizer (Steele, Lea
    and Flood 2014) over a counter, 53 bits of the result. Arithmetic is modulo 2**64."""
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
    smallest set of likeliest tokens whose mass reaches p (Holtzman et al. 2020), then inverted at the row's uniform
    number: over the tokens from the likeliest down where it was cut, in their own order where it was not. Sums are
    float64, so that rounding does not move a draw."""
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
    """exp((logits - their largest) / temperature): from the likeliest down, so that a temperature next to 0 leaves it
    at 1. In one format whatever the rows ask for, or a row would draw otherwise beside another."""
    weights = logits.to(torch.promote_types(logits.dtype, torch.float32))
    coldness = _column(1 / draws.temperature.clip(min=MIN_TEMPERATURE), logits).to(weights.dtype)
    return (weights - weights.amax(dim=-1, keepdim=True)).mul_(coldness).exp_()


def _from_all(logits: Tensor, draws: SamplingParameters) -> Tensor:
    """Without a cut, nothing needs to be sorted; and of a large vocabulary only the block is searched in which the
    cumulated weights pass the row's share of their sum."""
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
    """The place in each row where the cumulated weights pass the row's share of their sum."""
    return _first_above(cumulative, _column(draws.uniform, cumulative) * cumulative[:, -1:])


def _first_above(cumulative: Tensor, threshold: Tensor) -> Tensor:
    """Never a place of weight 0, whatever was rounded: a threshold that reaches the sum is taken below it, and one
    below 0 to it. Of a row that came to NaN the first: the last may be no token but there to fill a block."""
    total = cumulative[:, -1:]
    threshold = torch.minimum(threshold.clamp(min=0), total.nextafter(torch.zeros_like(total)))
    found = torch.searchsorted(cumulative, threshold, right=True).clamp(max=cumulative.size(1) - 1)
    return found.masked_fill_(total.isnan(), 0)[:, 0]


def _from_likeliest(logits: Tensor, draws: SamplingParameters) -> Tensor:
    """Among the likeliest tokens if the cuts lie there, else among all of them in order."""
    size = logits.size(1)
    without_k = draws.top_k == 0
    needed = int(draws.top_k.max())
    if without_k.any():
        needed = max(needed, TOP_P_CANDIDATES)
    # a GPU sorts all in no time, and need not be asked whether the candidates were enough
    if needed + 1 < size and logits.device.type == "cpu":
        values, places = _ordered(*top(logits, needed + 1))
        last, next_to_last = values[:, -1], values[:, -2]
        tied = (last == next_to_last) & last.isfinite()  # then who is among the needed is chance
        total = _weights(logits, draws).sum(dim=-1, dtype=torch.float64) if without_k.any() else None
        chosen, reached = _draw_among(values, draws, total)
        if reached and not tied.any():
            return places.gather(1, chosen[:, None])[:, 0]
    values, places = logits.sort(dim=-1, descending=True, stable=True)
    chosen, _ = _draw_among(values, draws, None)
    return places.gather(1, chosen[:, None])[:, 0]


def _ordered(values: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
    """Descending, equal ones by their places, as a stable sort of all would have them."""
    places, order = places.sort(dim=-1)
    values, order = values.gather(1, order).sort(dim=-1, descending=True, stable=True)
    return values, places.gather(1, order)


def _draw_among(values: Tensor, draws: SamplingParameters, total: Tensor | None) -> tuple[Tensor, bool]:
    """values [B, K] descending -> the rank drawn in each row, and whether K - 1 were enough for every row's top-p: the
    last may be one of several that tie, who is in is then chance, and it must not be drawn. total: the weight of all
    tokens of a row, where these are not all."""
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
