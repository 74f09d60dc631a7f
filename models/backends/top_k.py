"""The largest of many logits: natively on a CPU that can, otherwise in PyTorch.

PyTorch's own argmax and topk look at every number one by one on a CPU; looking for the largest of each block first, and
then into the blocks that can matter, is several times faster and says the same."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from models.backends.native import logit_kernels as native

BLOCK = 64


class Continuations(NamedTuple):
    """The likeliest ones of G beams, best first, [G, n] each: the log-probability of all tokens up to this one, which
    hypothesis it continues, and with what token."""

    log_probabilities: npt.NDArray[np.float32]
    parents: npt.NDArray[np.int64]
    tokens: npt.NDArray[np.int64]


def argmax(logits: Tensor) -> Tensor:
    """logits [B, V] -> the place of the largest of each row, the first one of equals, [B]."""
    if native.usable(logits):
        return native.native_top_k(logits, 1)[1][:, 0]
    if not in_blocks(logits, 1):
        return logits.argmax(dim=-1)
    parts = blocks(logits)
    best = parts.amax(dim=-1).argmax(dim=-1, keepdim=True)
    inside = parts.gather(1, best[:, :, None].expand(-1, -1, BLOCK))[:, 0].argmax(dim=-1)
    return best[:, 0] * BLOCK + inside


def row_maxima(logits: Tensor) -> Tensor:
    """logits [B, V] -> the largest of each row, [B, 1]."""
    return native.native_top_k(logits, 1)[0] if native.usable(logits) else logits.amax(dim=-1, keepdim=True)


def top_k(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """logits [B, V] -> the `count` largest of each row, descending, and their places; [B, count] each.

    The k largest numbers stand in the k blocks with the largest maxima: if one stood elsewhere, each of those blocks
    would hold a number at least as large.
    """
    if native.usable(logits, count):
        return native.native_top_k(logits, count)
    if not in_blocks(logits, count):
        values, places = logits.topk(count, dim=-1)
        return values, places
    parts = blocks(logits)
    best = parts.amax(dim=-1).topk(count, dim=-1).indices
    inside = parts.gather(1, best[:, :, None].expand(-1, -1, BLOCK)).flatten(1)
    values, places = inside.topk(count, dim=-1)
    return values, best.gather(1, places // BLOCK) * BLOCK + places % BLOCK


def in_blocks(logits: Tensor, count: int) -> bool:
    """Only on a CPU, and only where blocks leave much less to look at."""
    return logits.device.type == "cpu" and logits.size(1) % BLOCK == 0 and logits.size(1) >= 4 * BLOCK * count


def blocks(logits: Tensor) -> Tensor:
    """[B, V] -> [B, V/64, 64]."""
    return logits.reshape(len(logits), logits.size(1) // BLOCK, BLOCK)


def padded_to_blocks(weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Output matrix [V, C] and bias [V], with rows added on a CPU until they fill blocks: their logits are -inf."""
    missing = -len(weight) % BLOCK
    if weight.device.type != "cpu" or len(weight) < 4 * BLOCK or not missing:
        return weight, bias
    bias = weight.new_zeros(len(weight)) if bias is None else bias.detach()
    added = weight.new_zeros(missing, weight.size(1))
    return torch.cat([weight.detach(), added]), torch.cat([bias, bias.new_full((missing,), -torch.inf)])


def logsumexp(logits: Tensor, most: Tensor, *, keep: bool = False) -> Tensor:
    """logits [B, V] and the largest of each row [B, 1] -> log of the sum of their exponentials, [B]. Unless they are to
    be kept the logits may be written over, for they are large: in memory of its own it takes twice the time."""
    if native.usable(logits):
        return native.native_logsumexp(logits, most)
    if keep:
        return logits.logsumexp(dim=-1)
    return logits.sub_(most).exp_().sum(dim=-1).log_() + most[:, 0]


def continuations(
    logits: Tensor, rows: npt.NDArray[np.int64], log_probabilities: npt.NDArray[np.float32]
) -> Continuations:
    """The 2k likeliest continuations of G beams of k hypotheses: rows [G, k] of logits [B, V], which are used up, and
    the log-probability of each hypothesis so far. They are among the 2k likeliest of each row."""
    beams, width = rows.shape
    count = min(2 * width, logits.size(1))
    kept = min(2 * width, width * count)
    if native.usable(logits, count):
        return Continuations(*native.native_continuations(logits, rows, log_probabilities, count, kept))
    if not np.array_equal(rows.ravel(), np.arange(len(logits))):
        logits = logits[torch.from_numpy(rows.ravel()).to(logits.device)]
    values, tokens = top_k(logits, count)
    so_far = torch.from_numpy(log_probabilities.ravel()).to(logits.device)[:, None]
    totals = (values - logsumexp(logits, values[:, :1])[:, None] + so_far).view(beams, -1)
    best, places = totals.topk(kept, dim=-1)
    chosen = tokens.view(beams, -1).gather(1, places)
    # one look at the device for all three; float64 holds ids exactly
    found = torch.stack([best.double(), (places // count).double(), chosen.double()]).cpu().numpy()
    return Continuations(found[0].astype(np.float32), found[1].astype(np.int64), found[2].astype(np.int64))
