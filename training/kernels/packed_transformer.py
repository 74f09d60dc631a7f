"""`models.networks.transformer.Transformer` over packed tokens, on the C kernels."""

from __future__ import annotations

import ctypes
from typing import cast

import torch
from torch import Tensor, nn

from models.networks.transformer import FeedForward, MultiHeadAttention, Residual, Transformer
from training.kernels import autograd
from training.kernels.autograd import Embed, Frame, Norm, SmoothedCrossEntropy
from training.kernels.packing import Dropout, Side, pack

WORD = 1 << 64


class PackedPass:
    """One forward pass. All dropout keys derive from one number of PyTorch's generator: resumed runs repeat them."""

    def __init__(self, network: Transformer, library: ctypes.CDLL) -> None:
        self.network, self.config, self.library = network, network.config, library
        config = network.config
        rates = config.embedding_dropout, config.residual_dropout, config.attention_dropout, config.activation_dropout
        drops = network.training and any(rates)
        self.key = int(torch.randint(2**62, ())) if drops else 0

    def features(self, source: Tensor, target: Tensor, counted: Tensor) -> Tensor:
        """See `TranslatorBackend.counted_features`."""
        network = self.network
        self.packed, counting = pack(source, source != self.config.pad, target, counted)
        own, other = self.packed.target, self.packed.source
        self.positions = network.position_vectors(max(source.size(1), target.size(1)))
        memory = self._embed(network.source_embedding.weight, other)
        for encoding in network.encoder:
            memory = self._attention(other, encoding.around_attention, encoding.attention, memory)
            memory = self._feed_forward(other, encoding.around_feed_forward, encoding.feed_forward, memory)
        memory = self._norm(network.encoder_norm, memory)
        x = self._embed(network.target_embedding.weight, own)
        for layer in network.decoder:
            x = self._attention(own, layer.around_attention, layer.attention, x, causal=True)
            x = self._attention(own, layer.around_cross, layer.cross_attention, x, memory)
            x = self._feed_forward(own, layer.around_feed_forward, layer.feed_forward, x)
        return self._norm(network.decoder_norm, x if counting is None else x[counting])

    def _norm(self, norm: nn.Module, x: Tensor) -> Tensor:
        if not isinstance(norm, nn.LayerNorm):  # post-norm stacks have no final norm
            return x
        normed: Tensor = Norm.apply(self.library, x, norm.weight, norm.bias, norm.eps)  # type: ignore[no-untyped-call]
        return normed

    def _dropout(self, rate: float) -> Dropout:
        self.key = (self.key + 0xD1342543DE82EF95) % WORD
        mixed = (self.key ^ self.key >> 32) * 0xDABA0B6EB09322E3 % WORD
        return Dropout(mixed ^ mixed >> 32, rate if self.network.training else 0.0)

    def _embed(self, table: Tensor, side: Side) -> Tensor:
        dropout = self._dropout(self.config.embedding_dropout)
        embedded: Tensor = Embed.apply(  # type: ignore[no-untyped-call]
            self.library, side, table, self.positions, self.network.embedding_scale, dropout
        )
        return embedded

    def _frame(
        self, side: Side, around: Residual, inner: float, shape: tuple[int, int, bool, float] = (0, 0, False, 1.0)
    ) -> Frame:
        """inner: a dropout rate; shape: the last fields of the frame."""
        dropouts = self._dropout(self.config.residual_dropout), self._dropout(inner)
        epsilon = cast(nn.LayerNorm, around.norm).eps
        heads, head_width, causal, scale = shape
        own = self.library, self.packed, side, around.before, epsilon
        return Frame(*own, *dropouts, heads, head_width, causal, scale)

    def _attention(
        self,
        side: Side,
        around: Residual,
        module: MultiHeadAttention,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        causal: bool = False,
    ) -> Tensor:
        shape = module.heads, module.head_width, causal, module.scale
        frame = self._frame(side, around, self.config.attention_dropout, shape)
        maps = around.norm, module.projection, module.output
        parts = [part for each in maps for part in (each.weight, each.bias)]
        y: Tensor = autograd.Attention.apply(frame, x, memory, *parts)  # type: ignore[no-untyped-call]
        return y

    def _feed_forward(self, side: Side, around: Residual, maps: FeedForward, x: Tensor) -> Tensor:
        frame = self._frame(side, around, self.config.activation_dropout)
        parts = [part for module in (around.norm, maps.widen, maps.narrow) for part in (module.weight, module.bias)]
        y: Tensor = autograd.FeedForward.apply(frame, x, *parts)  # type: ignore[no-untyped-call]
        return y


def cross_entropy(
    network: Transformer, library: ctypes.CDLL, features: Tensor, targets: Tensor, smoothing: float
) -> Tensor:
    """See `TranslatorBackend.cross_entropy`."""
    weight, bias = network.output_weight, network.output_bias
    parts = (features, weight) if bias is None else (features, weight, bias)
    learns = torch.is_grad_enabled() and any(part.requires_grad for part in parts)
    total: Tensor = SmoothedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        library, features, targets, weight, bias, smoothing, learns
    )
    return total
