"""The layers of the encoder and the decoder, in both places where a norm can stand.

post-norm (the paper): x = norm(x + sublayer(x));  pre-norm: x = x + sublayer(norm(x)), and one more norm on top
of the stack.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional as F

from models.attention import Capture, MultiHeadAttention
from models.transformer_config import TransformerConfig

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}
KeyValue = tuple[Tensor, Tensor]


def attention(config: TransformerConfig) -> MultiHeadAttention:
    return MultiHeadAttention(
        config.d_model,
        config.heads,
        config.head_width,
        bias=config.attention_bias,
        dropout=config.attention_dropout,
        scale=config.attention_scale,
    )


class FeedForward(nn.Module):
    """Two linear maps with an activation between them, applied to each position alone."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.widen = nn.Linear(config.d_model, config.d_ff)
        self.narrow = nn.Linear(config.d_ff, config.d_model)
        self.activation = ACTIVATIONS[config.activation]
        self.dropout = nn.Dropout(config.activation_dropout)

    def forward(self, x: Tensor) -> Tensor:
        narrowed: Tensor = self.narrow(self.dropout(self.activation(self.widen(x))))
        return narrowed


class Residual(nn.Module):
    """Wraps a sublayer in its residual connection, norm and dropout."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.d_model, eps=config.norm_epsilon)
        self.dropout = nn.Dropout(config.residual_dropout)
        self.before = config.norm == "pre"

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if self.before:
            added: Tensor = x + self.dropout(sublayer(self.norm(x)))
            return added
        normed: Tensor = self.norm(x + self.dropout(sublayer(x)))
        return normed


class EncoderLayer(nn.Module):
    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.attention = attention(config)
        self.feed_forward = FeedForward(config)
        self.around_attention, self.around_feed_forward = Residual(config), Residual(config)

    def forward(self, x: Tensor, mask: Tensor | None, capture: Capture | None) -> Tensor:
        """x [B, S, C] -> [B, S, C]."""

        def attend(y: Tensor) -> Tensor:
            query, key, value = self.attention.query_key_value(y)
            return self.attention.attend(query, key, value, mask, capture)

        transformed: Tensor = self.around_feed_forward(self.around_attention(x, attend), self.feed_forward)
        return transformed


class DecoderLayer(nn.Module):
    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.attention, self.cross_attention = attention(config), attention(config)
        self.feed_forward = FeedForward(config)
        self.around_attention, self.around_cross = Residual(config), Residual(config)
        self.around_feed_forward = Residual(config)

    def forward(
        self,
        x: Tensor,
        remember: Callable[[Tensor, Tensor], KeyValue],
        mask: Tensor | None,
        source: KeyValue,
        source_mask: Tensor | None,
        capture: tuple[Capture | None, Capture | None] = (None, None),
    ) -> Tensor:
        """x [B, T, C] -> [B, T, C]. mask None: each position sees itself and those before it. `remember` takes the new
        keys and values [B, H, T, D] and returns those to attend to: the same ones in a full pass, all so far when
        stepping over a cache. `source` are the cross-attention's keys and values [B, H, S, D]."""

        def attend(y: Tensor) -> Tensor:
            query, key, value = self.attention.query_key_value(y)
            return self.attention.attend(query, *remember(key, value), mask, capture[0], causal=mask is None)

        def attend_source(y: Tensor) -> Tensor:
            return self.cross_attention.attend(self.cross_attention.query(y), *source, source_mask, capture[1])

        x = self.around_cross(self.around_attention(x, attend), attend_source)
        transformed: Tensor = self.around_feed_forward(x, self.feed_forward)
        return transformed
