"""R-Drop (Liang et al. 2021, arXiv 2106.14448): two predictions of each token, each with its own dropout, are pulled
together. `smoothed_and_pulled` is the loss with its gradient written out, in blocks that stay in the cache: on a CPU
automatic differentiation of the same formula takes three times as long, most of it over [N, V] arrays in memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

ROWS = 64  # tokens of a block: 2 x 64 x 8,000 logits are 4 MB


def symmetric_divergence(logits: Tensor) -> Tensor:
    """logits [2N, V], whose second half predicts the same N tokens as the first: KL(p, q) + KL(q, p), summed."""
    first, second = logits.log_softmax(-1).chunk(2)
    return ((first.exp() - second.exp()) * (first - second)).sum()


def smoothed_and_pulled(
    features: Tensor, weight: Tensor, bias: Tensor | None, wanted: Tensor, smoothing: float, alpha: float
) -> Tensor:
    """Cross-entropy with label smoothing, summed over both predictions, plus alpha/2 of their symmetric divergence.

    features [2N, C], wanted [2N] (both halves alike), weight [V, C], bias [V]. Differentiable by all three once.
    """
    in_fp32 = features.dtype == weight.dtype == torch.float32 and not torch.is_autocast_enabled("cpu")
    if features.device.type == "cpu" and in_fp32:
        total: Tensor = _Fused.apply(features, weight, bias, wanted, smoothing, alpha)  # type: ignore[no-untyped-call]
        return total
    logits = F.linear(features, weight, bias).float()
    total = F.cross_entropy(logits, wanted, reduction="sum", label_smoothing=smoothing)
    return total + alpha / 2 * symmetric_divergence(logits)


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, features: Tensor, weight: Tensor, bias: Tensor | None, wanted: Tensor, smoothing: float, alpha: float
    ) -> Tensor:
        halves, targets = features.reshape(2, -1, features.size(1)), wanted.view(2, -1)
        by_features, by_weight = torch.empty_like(halves), torch.zeros_like(weight)
        by_bias = None if bias is None else torch.zeros_like(bias)
        total = features.new_zeros((), dtype=torch.float64)
        for start in range(0, halves.size(1), ROWS):
            block = slice(start, start + ROWS)
            x = halves[:, block].flatten(0, 1)
            value, by_logits = _block(F.linear(x, weight, bias), targets[:, block].flatten(), smoothing, alpha)
            total += value
            by_features[:, block] = (by_logits @ weight).view(2, -1, weight.size(1))
            by_weight.addmm_(by_logits.t(), x)
            if by_bias is not None:
                by_bias += by_logits.sum(0)
        ctx.save_for_backward(by_features.flatten(0, 1), by_weight, by_bias)
        return total.to(features.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        parts = [None if part is None else part * gradient for part in ctx.saved_tensors]
        return (*parts, None, None, None)


def _block(logits: Tensor, wanted: Tensor, smoothing: float, alpha: float) -> tuple[Tensor, Tensor]:
    """The value and its gradient by the logits [2n, V].

    With p, q the two predictions and d = log p - log q, the divergence of a token is E_p[d] - E_q[d], and its
    gradient by the first logits p (d - E_p[d]) + p - q, by the second -q (d - E_q[d]) + q - p.
    """
    n, vocabulary, pull = len(logits) // 2, logits.size(1), alpha / 2
    log_p = logits.log_softmax(-1)
    wanted = wanted[:, None]
    value = -(1 - smoothing) * log_p.gather(1, wanted).sum() - smoothing / vocabulary * log_p.sum()
    p = log_p.exp()
    difference = log_p[:n] - log_p[n:]
    gradient = p * torch.cat([difference, -difference])
    means = gradient.sum(-1, keepdim=True)
    value = value + pull * means.sum()
    gradient[:n] -= p[n:]
    gradient[n:] -= p[:n]
    gradient.mul_(pull).addcmul_(p, 1 + pull - pull * means)
    gradient -= smoothing / vocabulary
    gradient.scatter_add_(1, wanted, torch.full_like(wanted, -(1 - smoothing), dtype=gradient.dtype))
    return value, gradient
