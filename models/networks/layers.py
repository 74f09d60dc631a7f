"""The layers of the encoder-decoder Transformer (Vaswani et al. 2017): its options, attention, feed-forward, residual
connections with a norm before or after.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.networks.positions import PositionLayout

NormPlacement = Literal["post", "pre"]
Activation = Literal["relu", "gelu", "silu"]
Tied = Literal["none", "output", "all"]
CHOICES: dict[str, tuple[str, ...]] = {
    "norm": get_args(NormPlacement),
    "activation": get_args(Activation),
    "positions": get_args(PositionLayout),
    "tied": get_args(Tied),
}
SIZES = (
    *("source_vocabulary", "target_vocabulary", "d_model", "encoder_layers", "decoder_layers"),
    *("heads", "head_width", "d_ff"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformerConfig:
    """The classic form (Vaswani et al. 2017) is the default; the options are those that real checkpoints need."""

    source_vocabulary: int
    target_vocabulary: int
    pad: int = 0
    d_model: int = field(default=512, metadata={"help": "width of every layer's input and output"})
    encoder_layers: int = 6
    decoder_layers: int = 6
    heads: int = field(default=8, metadata={"help": "attention heads of a layer"})
    head_width: int = field(default=64, metadata={"help": "of each head's queries, keys and values"})
    d_ff: int = field(default=2048, metadata={"help": "width inside the feed-forward layers"})
    norm: NormPlacement = field(
        default="post",
        metadata={"help": "layer norm behind each residual sum, as the paper has it, or before each layer"},
    )
    norm_epsilon: float = field(default=1e-5, metadata={"help": "in the denominator of layer norm"})
    activation: Activation = field(default="relu", metadata={"help": "of the feed-forward layers"})
    positions: PositionLayout = field(
        default="interleaved", metadata={"help": "layout of the sinusoids; marian: all sines, then all cosines"}
    )
    scale_embedding: bool = field(
        default=True, metadata={"help": "multiply embeddings by sqrt(d_model), as the paper does"}
    )
    tied: Tied = field(
        default="none", metadata={"help": "output: target embedding = output matrix; all: source embedding, too"}
    )
    output_bias: bool = field(default=False, metadata={"help": "add a bias to the logits"})
    attention_bias: bool = field(default=True, metadata={"help": "add a bias in the projections of attention"})
    attention_scale: float | None = field(
        default=None, metadata={"help": "factor of the attention scores; none: 1/sqrt(head_width)"}
    )
    embedding_dropout: float = field(default=0.1, metadata={"help": "on the sum of embedding and positions"})
    residual_dropout: float = field(default=0.1, metadata={"help": "on what each layer adds"})
    attention_dropout: float = field(default=0.0, metadata={"help": "on the attention weights"})
    activation_dropout: float = field(default=0.0, metadata={"help": "on the activations of the feed-forward layers"})

    def __post_init__(self) -> None:
        problems = [
            f"{name} must be a whole number of at least 1, not {getattr(self, name)!r}"
            for name in SIZES
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 1
        ]
        problems += [
            f"{name} must be one of {', '.join(allowed)}, not {getattr(self, name)!r}"
            for name, allowed in CHOICES.items()
            if getattr(self, name) not in allowed
        ]
        if self.tied == "all" and self.source_vocabulary != self.target_vocabulary:
            problems.append("tied='all' needs one vocabulary for source and target")
        problems += [
            f"{name} must lie in [0, 1), not {getattr(self, name)}"
            for name in ("embedding_dropout", "residual_dropout", "attention_dropout", "activation_dropout")
            if not 0 <= getattr(self, name) < 1
        ]
        if problems:
            raise ValueError("; ".join(problems) + ".")


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
