"""Argmax, top-k and logsumexp of large logits, and continuations of beams: C kernels on a CPU that supports them,
otherwise PyTorch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from models.backends.native import logit_kernels as native

BLOCK = 64


class Continuations(NamedTuple):
    """The likeliest continuations of G beams, best first, [G, n] each. log_probabilities: cumulative."""

    log_probabilities: npt.NDArray[np.float32]
    parents: npt.NDArray[np.int64]
    tokens: npt.NDArray[np.int64]


def argmax(logits: Tensor) -> Tensor:
    """logits [B, V] -> index of the first maximum of each row, [B]."""
    if (kernels := native.usable(logits)) is not None:
        return native.native_top_k(kernels, logits, 1)[1][:, 0]
    return logits.argmax(dim=-1)


def row_maxima(logits: Tensor) -> Tensor:
    """logits [B, V] -> maximum of each row, [B, 1]."""
    kernels = native.usable(logits)
    return logits.amax(dim=-1, keepdim=True) if kernels is None else native.native_top_k(kernels, logits, 1)[0]


def top_k(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """logits [B, V] -> the `count` largest of each row in descending order, and their indices, [B, count] each."""
    if (kernels := native.usable(logits, count)) is not None:
        return native.native_top_k(kernels, logits, count)
    values, places = logits.topk(count, dim=-1)
    return values, places


def padded_to_blocks(weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Output matrix [V, C] and bias [V], padded on a CPU to whole blocks with rows whose logits are -inf."""
    missing = -len(weight) % BLOCK
    if weight.device.type != "cpu" or len(weight) < 4 * BLOCK or not missing:
        return weight, bias
    bias = weight.new_zeros(len(weight)) if bias is None else bias.detach()
    added = weight.new_zeros(missing, weight.size(1))
    return torch.cat([weight.detach(), added]), torch.cat([bias, bias.new_full((missing,), -torch.inf)])


def logsumexp(logits: Tensor, most: Tensor, *, keep: bool = False) -> Tensor:
    """logits [B, V], row maxima [B, 1] -> [B]. Overwrites the logits unless keep: a copy takes twice the time."""
    if (kernels := native.usable(logits)) is not None:
        return native.native_logsumexp(kernels, logits, most)
    if keep:
        return logits.logsumexp(dim=-1)
    return logits.sub_(most).exp_().sum(dim=-1).log_() + most[:, 0]


def continuations(
    logits: Tensor, rows: npt.NDArray[np.int64], log_probabilities: npt.NDArray[np.float32]
) -> Continuations:
    """The 2k likeliest continuations of G beams of k hypotheses, all among the 2k likeliest tokens of each row. rows
    [G, k]: rows of logits [B, V], which are overwritten; log_probabilities [G, k]: of the hypotheses so far."""
    beams, width = rows.shape
    count = min(2 * width, logits.size(1))
    kept = min(2 * width, width * count)
    if (kernels := native.usable(logits, count)) is not None:
        return Continuations(*native.native_continuations(kernels, logits, rows, log_probabilities, count, kept))
    if not np.array_equal(rows.ravel(), np.arange(len(logits))):
        logits = logits[torch.from_numpy(rows.ravel()).to(logits.device)]
    values, tokens = top_k(logits, count)
    so_far = torch.from_numpy(log_probabilities.ravel()).to(logits.device)[:, None]
    totals = (values - logsumexp(logits, values[:, :1])[:, None] + so_far).view(beams, -1)
    best, places = totals.topk(kept, dim=-1)
    chosen = tokens.view(beams, -1).gather(1, places)
    # a single device synchronisation; float64 holds ids exactly
    found = torch.stack([best.double(), (places // count).double(), chosen.double()]).cpu().numpy()
    return Continuations(found[0].astype(np.float32), found[1].astype(np.int64), found[2].astype(np.int64))
