"""`models.networks.transformer.Transformer` over packed tokens, in kernels."""

from __future__ import annotations

import ctypes
from typing import cast

import torch
from torch import Tensor, nn

from models.networks.transformer import FeedForward, MultiHeadAttention, Residual, Transformer
from training.kernels import autograd
from training.kernels.autograd import Dropping, Embed, Frame, Norm, SmoothedCrossEntropy
from training.kernels.packing import pack

WORD = 1 << 64


class PackedPass:
    """One forward pass. Every site of dropout has a key of its own; all hang on one number, which is drawn from
    PyTorch's generator and so comes again where a run goes on from a snapshot."""

    def __init__(self, network: Transformer, library: ctypes.CDLL) -> None:
        self.network, self.config, self.library = network, network.config, library
        config = network.config
        rates = config.embedding_dropout, config.residual_dropout, config.attention_dropout, config.activation_dropout
        drops = network.training and any(rates)
        self.key = int(torch.randint(2**62, ())) if drops else 0

    def features(self, source: Tensor, target: Tensor, counted: Tensor) -> Tensor:
        """As `TranslatorBackend.counted_features`."""
        network = self.network
        self.packed, counting = pack(source, source != self.config.pad, target, counted)
        longest = max(source.size(1), target.size(1))
        self.positions = network.position_vectors(longest)
        memory = self._embed(network.source_embedding.weight, True)
        for encoding in network.encoder:
            memory = self._attention(encoding.around_attention, encoding.attention, memory, source=True)
            memory = self._feed_forward(encoding.around_feed_forward, encoding.feed_forward, memory, source=True)
        memory = self._norm(network.encoder_norm, memory)
        x = self._embed(network.target_embedding.weight, False)
        for layer in network.decoder:
            x = self._attention(layer.around_attention, layer.attention, x, causal=True)
            x = self._attention(layer.around_cross, layer.cross_attention, x, memory)
            x = self._feed_forward(layer.around_feed_forward, layer.feed_forward, x)
        return self._norm(network.decoder_norm, x if counting is None else x[counting])

    def _norm(self, norm: nn.Module, x: Tensor) -> Tensor:
        if not isinstance(norm, nn.LayerNorm):  # post-norm layers end in one
            return x
        normed: Tensor = Norm.apply(self.library, x, norm.weight, norm.bias, norm.eps)  # type: ignore[no-untyped-call]
        return normed

    def _dropping(self, rate: float) -> Dropping:
        self.key = (self.key + 0xD1342543DE82EF95) % WORD
        mixed = (self.key ^ self.key >> 32) * 0xDABA0B6EB09322E3 % WORD
        return Dropping(mixed ^ mixed >> 32, rate if self.network.training else 0.0)

    def _embed(self, table: Tensor, source: bool) -> Tensor:
        side = self.packed.source if source else self.packed.target
        dropping = self._dropping(self.config.embedding_dropout)
        embedded: Tensor = Embed.apply(  # type: ignore[no-untyped-call]
            self.library, side, table, self.positions, self.network.embedding_scale, dropping
        )
        return embedded

    def _frame(
        self,
        around: Residual,
        source: bool,
        inner: float,
        attention: MultiHeadAttention | None = None,
        causal: bool = False,
    ) -> Frame:
        shape = (attention.heads, attention.head_width, causal, attention.scale) if attention else ()
        return Frame(
            *(self.library, self.packed, source, around.before, cast(nn.LayerNorm, around.norm).eps),
            *(self._dropping(self.config.residual_dropout), self._dropping(inner), *shape),
        )

    def _attention(
        self,
        around: Residual,
        attention: MultiHeadAttention,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        source: bool = False,
        causal: bool = False,
    ) -> Tensor:
        frame = self._frame(around, source, self.config.attention_dropout, attention, causal)
        maps = attention.projection, attention.output
        weights = (around.norm, *maps)
        parts = [part for module in weights for part in (module.weight, module.bias)]
        y: Tensor = autograd.Attention.apply(frame, x, memory, *parts)  # type: ignore[no-untyped-call]
        return y

    def _feed_forward(self, around: Residual, maps: FeedForward, x: Tensor, *, source: bool = False) -> Tensor:
        frame = self._frame(around, source, self.config.activation_dropout)
        parts = [part for module in (around.norm, maps.widen, maps.narrow) for part in (module.weight, module.bias)]
        y: Tensor = autograd.FeedForward.apply(frame, x, *parts)  # type: ignore[no-untyped-call]
        return y


def cross_entropy(
    network: Transformer, library: ctypes.CDLL, features: Tensor, targets: Tensor, smoothing: float, pull: float
) -> Tensor:
    """As `TranslatorBackend.cross_entropy`."""
    weight, bias = network.output_weight, network.output_bias
    parts = (features, weight) if bias is None else (features, weight, bias)
    learns = torch.is_grad_enabled() and any(part.requires_grad for part in parts)
    total: Tensor = SmoothedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        library, features, targets, weight, bias, smoothing, pull, learns
    )
    return total
