"""Multi-head attention (Vaswani et al. 2017, section 3.2).

Two paths compute the same function: `attend` runs the fused kernel, `attend_explicit` writes the formula out
and returns the weights too. Weights are handed to the caller and never kept on the module, so that concurrent
requests cannot see each other's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Attended(NamedTuple):
    """Every number between the projections: query and context [B, H, Q, D], key and value [B, H, K, D]; scores, which
    are q·k·scale before the mask, and weights [B, H, Q, K]. mask: where a query may look; None: everywhere."""

    query: Tensor
    key: Tensor
    value: Tensor
    scores: Tensor
    mask: Tensor | None
    weights: Tensor
    context: Tensor


@dataclass(slots=True)
class Capture:
    """What a forward pass is asked for of one kind of attention, and where it leaves it. A pass has one of its own, and
    its caller keeps it.

    without: layer -> the heads whose context is set to 0 before the output projection.
    traced: the layer of which everything is kept, in `trace`.
    weights: one [B, H, Q, K] a layer, in their order.
    """

    without: Mapping[int, Sequence[int]] = field(default_factory=dict)
    traced: int | None = None
    weights: list[Tensor] = field(default_factory=list)
    trace: Attended | None = None

    def take(self, attended: Attended) -> Tensor:
        """Of the next layer; the context that it goes on with."""
        layer = len(self.weights)
        self.weights.append(attended.weights)
        if layer in self.without:
            heads = torch.tensor(self.without[layer], device=attended.context.device)
            attended = attended._replace(context=attended.context.index_fill(1, heads, 0.0))
        if layer == self.traced:
            self.trace = attended
        return attended.context


class MultiHeadAttention(nn.Module):
    """Queries, keys and values come from one matrix [3·H·D, C]: one product for self-attention, and its row
    blocks for cross-attention, where keys and values of the source are computed once a sentence.

    scale: what q·k is multiplied by; None: 1/sqrt(D).
    """

    def __init__(
        self, d_model: int, heads: int, head_width: int, *, bias: bool, dropout: float, scale: float | None
    ) -> None:
        super().__init__()
        self.heads, self.head_width, self.dropout = heads, head_width, dropout
        self.inner = heads * head_width
        self.scale = head_width**-0.5 if scale is None else scale
        self.projection = nn.Linear(d_model, 3 * self.inner, bias=bias)
        self.output = nn.Linear(self.inner, d_model, bias=bias)

    def split(self, x: Tensor) -> Tensor:
        """[B, T, H·D] -> [B, H, T, D]."""
        return x.view(*x.shape[:-1], self.heads, self.head_width).transpose(1, 2)

    def query_key_value(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """[B, T, C] -> three of [B, H, T, D]."""
        query, key, value = self.projection(x).chunk(3, dim=-1)
        return self.split(query), self.split(key), self.split(value)

    def query(self, x: Tensor) -> Tensor:
        """[B, T, C] -> [B, H, T, D]."""
        bias = self.projection.bias
        return self.split(
            F.linear(x, self.projection.weight[: self.inner], None if bias is None else bias[: self.inner])
        )

    def key_value(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """[B, S, C] -> two of [B, H, S, D]."""
        bias = self.projection.bias
        both = F.linear(memory, self.projection.weight[self.inner :], None if bias is None else bias[self.inner :])
        key, value = both.chunk(2, dim=-1)
        return self.split(key), self.split(value)

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        capture: Capture | None = None,
        *,
        causal: bool = False,
    ) -> Tensor:
        """Joined and projected heads, [B, Q, C]. mask: True where a query may look, broadcastable to
        [B, H, Q, K]; None: everywhere. With `capture` the explicit path runs and leaves there what is asked for.
        causal: instead of a mask, query i sees keys 0..i; kernels that are told so compute half and read no mask."""
        if capture is not None:
            if causal:
                mask = torch.ones(query.size(2), key.size(2), dtype=torch.bool, device=query.device).tril()
            context = capture.take(self.attend_explicit(query, key, value, mask))
        else:
            dropout = self.dropout if self.training else 0.0
            context = F.scaled_dot_product_attention(
                query, key, value, attn_mask=mask, dropout_p=dropout, is_causal=causal, scale=self.scale
            )
        joined: Tensor = self.output(context.transpose(1, 2).flatten(2))
        return joined

    def attend_explicit(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Attended:
        """softmax(q·kᵀ·scale)·v, step by step. A query that may look nowhere (a source of padding alone) gets zeros,
        as from the fused kernel, and not 0/0. Weights are at least float32, whatever the network computes in: as the
        fused kernel has it, and so that they sum to 1."""
        scores = query @ key.transpose(-1, -2) * self.scale
        masked = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
        weights = masked.softmax(dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32))
        if mask is not None:
            weights = weights.masked_fill(~mask, 0.0)
        return Attended(query, key, value, scores, mask, weights, weights.to(value.dtype) @ value)
