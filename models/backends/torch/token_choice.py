"""The rules of choosing tokens, in PyTorch: where they are defined, and what runs where no kernel does. draws.c and
beam.c compute them on CPUs, `models.backends.cuda.choice_kernels` on GPUs; tests compare them.

A row has its own options and uniform number: neither other rows nor the order of requests change its draw. Nothing here
waits for a device, so that a CUDA graph can capture it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

# What a draw reads of a row's options (`models.decoding.options.ROW_PARAMETERS`, in its order)
OPTIONS = ("temperature", "top_k", "top_p", "min_p")
MIN_TEMPERATURE = 1e-30  # greedy in effect, and distinguishable from 0 in float32


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


def is_cut(options: Mapping[str, Any]) -> Any:
    """Which rows draw from some of the tokens only, [B]. options, here and in `draw`: columns [B] by name, which here
    may be arrays, too."""
    return (options["top_k"] > 0) | (options["top_p"] < 1) | (options["min_p"] > 0)


def draw(logits: Tensor, options: Mapping[str, Tensor], numbers: Tensor, *, cut: bool) -> Tensor:
    """logits [B, V], numbers [B] in [0, 1) -> token ids [B]. The distribution at temperature t > 0 is cut to the k
    likeliest tokens, of these to the tokens with min_p times the probability of the likeliest (Nguyen et al. 2024), and
    then to the fewest likeliest tokens with mass p (Holtzman et al. 2020), in the order of vLLM's filters. It is
    inverted at the row's number: in descending order of probability if cut, else in vocabulary order. Sums are float64:
    rounding moves no draw. cut: whether any row `is_cut`; False saves sorting."""
    weights = logits.to(torch.promote_types(logits.dtype, torch.float32))  # one dtype, whatever the neighbours' options
    coldness = (1 / options["temperature"].clamp(min=MIN_TEMPERATURE)).to(weights.dtype)[:, None]
    weights = (weights - weights.amax(dim=-1, keepdim=True)).mul_(coldness).exp_()  # the largest is 1
    if not cut:
        return _inverted(weights.cumsum(dim=-1, dtype=torch.float64), numbers)
    top_k, top_p = options["top_k"][:, None], options["top_p"][:, None]
    rank = torch.arange(logits.size(1), device=logits.device)
    order = logits.argsort(dim=-1, descending=True, stable=True).where(is_cut(options)[:, None], rank)
    kept = weights.gather(1, order).double().masked_fill_((rank >= top_k) & (top_k > 0), 0.0)
    kept.masked_fill_(kept < options["min_p"][:, None], 0.0)
    cumulative = kept.cumsum(dim=-1)
    enough = top_p * cumulative[:, -1:]
    kept.masked_fill_((cumulative - kept >= enough) & (rank > 0) & (top_p < 1), 0.0)
    return order.gather(1, _inverted(kept.cumsum(dim=-1), numbers)[:, None])[:, 0]


def _inverted(cumulative: Tensor, numbers: Tensor) -> Tensor:
    """The first index of each row where the cumulative weights pass the row's share of their sum, which is clamped so
    that rounding never picks a weight of 0. A row of NaN gives 0."""
    total = cumulative[:, -1:]
    share = torch.minimum(numbers[:, None] * total, total.nextafter(torch.zeros_like(total)))
    found = torch.searchsorted(cumulative, share, right=True).clamp(max=cumulative.size(1) - 1)
    return found.masked_fill_(total.isnan(), 0)[:, 0]


def suppress(logits: Tensor, suppressed: Tensor, *, renormalise: bool) -> Tensor:
    """Sets the suppressed tokens in logits [B, V] to -inf. Returns [B], the logarithm of the sum that probabilities are
    relative to: of the others if renormalise, else of all tokens."""
    shared = None if renormalise else logits.logsumexp(dim=-1)
    logits.index_fill_(1, suppressed, -torch.inf)
    return logits.logsumexp(dim=-1) if shared is None else shared


def continue_beams(
    values: Tensor,
    tokens: Tensor,
    rows: Tensor,
    late: Tensor,
    columns: tuple[Tensor, Tensor, Tensor],
    end: int | None,
) -> Tensor:
    """The best continuations of G beams of k hypotheses, [3, G, N]: total log-probability, the parent's place, token.
    First come those that do not end, of which the first k continue, as in `models.decoding.beam.Beams.advance`.

    values, tokens [B, n]: the likeliest tokens of rows of the batch, with their log-probabilities. rows [2, G * k]: to
    read and to write; those of hypotheses that do not exist are written to the last entry of the columns. late [G, N]:
    ranks that are too far back to end, which get -inf. columns: totals (float64), next tokens and parents by row, which
    are overwritten for the hypotheses that continue."""
    (read, write), (totals, fed, parents), (beams, kept) = rows.unbind(0), columns, late.shape
    scores = values[read] + totals[read].float()[:, None]
    scores = scores.masked_fill((write == len(totals) - 1)[:, None], -torch.inf).view(beams, -1)
    order = scores.argsort(dim=1, descending=True, stable=True)[:, :kept]
    best, members = scores.gather(1, order), order // values.size(1)
    chosen = tokens[read].view(beams, -1).gather(1, order)
    ends = chosen == (-1 if end is None else end)
    order = ends.to(torch.uint8).argsort(dim=1, stable=True)
    best = best.masked_fill(ends & late, -torch.inf)
    best, members, chosen = (part.gather(1, order) for part in (best, members, chosen))
    width = len(read) // beams
    totals.index_copy_(0, write, best[:, :width].double().flatten())
    fed.index_copy_(0, write, chosen[:, :width].flatten())
    parents.index_copy_(0, write, read.view(beams, width).gather(1, members[:, :width]).flatten())
    return torch.stack([best, members.float(), chosen.float()])
