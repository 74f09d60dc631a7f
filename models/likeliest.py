"""The largest of many logits. PyTorch's own argmax and topk look at every number one by one on a CPU; looking for the
largest of each block first, and then into the blocks that can matter, is several times faster and says the same."""

from __future__ import annotations

import torch
from torch import Tensor

BLOCK = 64


def argmax(logits: Tensor) -> Tensor:
    """logits [B, V] -> the place of the largest of each row, the first one of equals, [B]."""
    if not in_blocks(logits, 1):
        return logits.argmax(dim=-1)
    parts = blocks(logits)
    best = parts.amax(dim=-1).argmax(dim=-1, keepdim=True)
    inside = parts.gather(1, best[:, :, None].expand(-1, -1, BLOCK))[:, 0].argmax(dim=-1)
    return best[:, 0] * BLOCK + inside


def top(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """logits [B, V] -> the `count` largest of each row, descending, and their places; [B, count] each.

    The k largest numbers stand in the k blocks with the largest maxima: if one stood elsewhere, each of those blocks
    would hold a number at least as large.
    """
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


def whole_blocks(weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Output matrix [V, C] and bias [V], with rows added on a CPU until they fill blocks: their logits are -inf."""
    missing = -len(weight) % BLOCK
    if weight.device.type != "cpu" or len(weight) < 4 * BLOCK or not missing:
        return weight, bias
    bias = weight.new_zeros(len(weight)) if bias is None else bias.detach()
    added = weight.new_zeros(missing, weight.size(1))
    return torch.cat([weight.detach(), added]), torch.cat([bias, bias.new_full((missing,), -torch.inf)])


def log_total(logits: Tensor, largest: Tensor) -> Tensor:
    """logits [B, V] and the largest of each row [B, 1] -> log of the sum of their exponentials, [B]. Written over the
    logits, which are large: in memory of its own it takes twice the time."""
    return logits.sub_(largest).exp_().sum(dim=-1).log_() + largest[:, 0]
