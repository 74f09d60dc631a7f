"""The projection onto the vocabulary and the loss in one, a chunk of rows at a time, in PyTorch operators.

Logits of a whole batch are the largest tensors of an update: 25,000 tokens and 37,000 pieces make 3.7 GB in fp32, and
autograd keeps several of them (as in Wijmans et al. 2024, arXiv 2411.09009, and Liger Kernel, they are avoided here).
The forward pass computes a chunk's logits, its loss and the gradients of features and weights, and drops the logits, so
that one chunk's exist at a time. The backward pass only scales the gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

CHUNK_BYTES = 1 << 28  # of one chunk's logits in fp32: thousands of rows, which matrix products need to be fast
ChunkLoss: TypeAlias = Callable[[Tensor, Tensor, float], tuple[Tensor, Tensor]]
"""`chunk_loss`, or what torch.compile makes of it."""


def chunk_loss(logits: Tensor, targets: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """logits [N, V], targets [N] -> the loss of `TranslatorBackend.cross_entropy` and its gradient for the logits,
    [N, V], both in fp32.

    With log-probabilities log p and the smoothed distribution t the loss is -sum(t·log p), with the gradient p - t."""
    logs = logits.float().log_softmax(1)
    pieces = torch.arange(logits.size(1), device=logits.device)
    wanted = (pieces == targets[:, None]) * (1 - smoothing) + smoothing / logits.size(1)
    return -(wanted * logs).sum(), logs.exp() - wanted


class Chunking(NamedTuple):
    """smoothing: of the loss. rows: of a chunk. learns: whether gradients are wanted."""

    smoothing: float
    rows: int
    learns: bool
    compute: ChunkLoss


class ChunkedCrossEntropy(torch.autograd.Function):
    """features [N, C], targets [N], weight [V, C], bias [V] or None -> the summed loss []. Under autocast the products
    are in its format, and the gradient of the weight is summed over chunks in fp32. It has one backward pass."""

    @staticmethod
    def forward(
        ctx: Any, features: Tensor, targets: Tensor, weight: Tensor, bias: Tensor | None, chunking: Chunking
    ) -> Tensor:
        device = features.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype
        smoothing, rows, learns, compute = chunking
        total = torch.zeros((), device=features.device)
        gradients: tuple[Tensor | None, ...] = (None, None, None)
        if learns:
            gradients = (
                torch.empty_like(features),
                torch.zeros_like(weight),
                None if bias is None else torch.zeros_like(bias),
            )
        # without autocast's cache, which would keep a copy of the weight that autograd does not know
        with torch.autocast(device, enabled=False):
            map_, offset = weight.to(dtype), None if bias is None else bias.to(dtype)
            for first in range(0, len(features), rows):
                chunk = slice(first, first + rows)
                x = features[chunk].to(dtype)
                loss, dlogits = compute(F.linear(x, map_, offset), targets[chunk], smoothing)
                total += loss
                if learns:
                    _add_gradients(gradients, chunk, x, map_, dlogits.to(dtype))
                del loss, dlogits  # else they would live until the next chunk's are there
        ctx.gradients = gradients
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dloss: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.gradients is None:
            raise RuntimeError(
                "This loss was differentiated once already, which uses its gradients up: compute it anew."
            )
        dfeatures, dweight, dbias = (None if each is None else each.mul_(dloss) for each in ctx.gradients)
        ctx.gradients = None
        return dfeatures, None, dweight, dbias, None


def _add_gradients(
    gradients: tuple[Tensor | None, ...], chunk: slice, x: Tensor, weight: Tensor, dlogits: Tensor
) -> None:
    """Adds the gradients of a chunk to `gradients`, those of features, weight and bias."""
    dfeatures, dweight, dbias = gradients
    assert dfeatures is not None
    assert dweight is not None
    dfeatures[chunk] = dlogits @ weight
    dweight += dlogits.t() @ x
    if dbias is not None:
        dbias += dlogits.sum(0, dtype=torch.float32)


def chunked_cross_entropy(
    features: Tensor,
    targets: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    smoothing: float,
    compute: ChunkLoss = chunk_loss,
    rows: int | None = None,
) -> Tensor:
    """See `ChunkedCrossEntropy`. rows: of a chunk; None: as `CHUNK_BYTES` allow."""
    parts = (features, weight) if bias is None else (features, weight, bias)
    learns = torch.is_grad_enabled() and any(part.requires_grad for part in parts)
    chunking = Chunking(smoothing, rows or max(1, CHUNK_BYTES // (4 * len(weight))), learns, compute)
    loss: Tensor = ChunkedCrossEntropy.apply(features, targets, weight, bias, chunking)  # type: ignore[no-untyped-call]
    return loss
