"""The encoder-decoder Transformer (Vaswani et al. 2017, arXiv 1706.03762): options, attention, layers, network.

Training, decoding, scoring and inspection run the modules of this file. Faster kernels replace them only in a network
with exactly the modules and code that the kernels were written for (`models.exactness`); the log and the model card say
which backend runs. To change the network, edit only this file, for example:

- RMSNorm: `norm` returns nn.RMSNorm(config.d_model, eps=config.norm_epsilon).
- RoPE: `query_key_value` rotates query and key by `scope.positions`, and `Transformer.embed` adds no table.
- SwiGLU: `FeedForward` has a third map, and its forward multiplies by it.

Cached decoding calls the same layers: `Cache.update` stores the keys and values of new tokens and returns those of all
tokens so far. Attention weights are returned in a `Capture` and never stored on a module, so that concurrent requests
stay isolated."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, MutableSequence, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, NamedTuple, Protocol, cast, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.exactness import remember
from models.networks import option, rate_problems, size_problems

NormPlacement = Literal["post", "pre"]
PositionLayout = Literal["interleaved", "marian"]
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
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}
KeyValue = tuple[Tensor, Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformerConfig:
    """The defaults are the original network (Vaswani et al. 2017); the options cover existing checkpoints."""

    source_vocabulary: int
    target_vocabulary: int
    pad: int = 0
    d_model: int = option(512, "width of every layer's input and output")
    encoder_layers: int = 6
    decoder_layers: int = 6
    heads: int = option(8, "attention heads of a layer")
    head_width: int = option(64, "of each head's queries, keys and values")
    d_ff: int = option(2048, "width inside the feed-forward layers")
    norm: NormPlacement = option(
        "post", "layer norm behind each residual sum, as the paper has it, or before each layer"
    )
    norm_epsilon: float = option(1e-5, "in the denominator of layer norm")
    activation: Activation = option("relu", "of the feed-forward layers")
    positions: PositionLayout = option("interleaved", "layout of the sinusoids; marian: all sines, then all cosines")
    scale_embedding: bool = option(True, "multiply embeddings by sqrt(d_model), as the paper does")
    tied: Tied = option("none", "output: target embedding = output matrix; all: source embedding, too")
    output_bias: bool = option(False, "add a bias to the logits")
    attention_bias: bool = option(True, "add a bias in the projections of attention")
    attention_scale: float | None = option(None, "factor of the attention scores; none: 1/sqrt(head_width)")
    embedding_dropout: float = option(0.1, "on the sum of embedding and positions")
    residual_dropout: float = option(0.1, "on what each layer adds")
    attention_dropout: float = option(0.0, "on the attention weights")
    activation_dropout: float = option(0.0, "on the activations of the feed-forward layers")

    def __post_init__(self) -> None:
        problems = [*size_problems(self, SIZES)]
        problems += [
            f"{name} must be one of {', '.join(allowed)}, not {getattr(self, name)!r}"
            for name, allowed in CHOICES.items()
            if getattr(self, name) not in allowed
        ]
        if self.tied == "all" and self.source_vocabulary != self.target_vocabulary:
            problems.append("tied='all' needs one vocabulary for source and target")
        problems += rate_problems(
            self, ("embedding_dropout", "residual_dropout", "attention_dropout", "activation_dropout")
        )
        if problems:
            raise ValueError("; ".join(problems) + ".")


class Attended(NamedTuple):
    """The intermediate values of attention. query, context [B, H, Q, D]; key, value [B, H, K, D]; scores [B, H, Q, K]:
    q·k·scale before the mask; weights [B, H, Q, K]. mask: True where a query may attend; None: everywhere."""

    query: Tensor
    key: Tensor
    value: Tensor
    scores: Tensor
    mask: Tensor | None
    weights: Tensor
    context: Tensor


class PassEnded(Exception):
    """Ends a forward pass once its `Capture` has all that the caller wants."""


@dataclass(slots=True)
class Capture:
    """Requests and collects intermediate values of one kind of attention in one forward pass.

    without: layer -> ablated heads, with context 0 before the output projection.
    traced: the layer to keep all values of, in `trace`.
    layers: the layers to capture; None: all. Other layers run the fused kernel.
    last: raises `PassEnded` after the attention of this layer.
    weights: captured layer -> [B, H, Q, K].
    layer: the number of the current layer."""

    without: Mapping[int, Sequence[int]] = field(default_factory=dict)
    traced: int | None = None
    layers: Collection[int] | None = None
    last: int | None = None
    weights: dict[int, Tensor] = field(default_factory=dict)
    trace: Attended | None = None
    layer: int = 0

    @property
    def wanted(self) -> bool:
        """Whether the current layer is captured."""
        return self.layers is None or self.layer in self.layers

    def maps(self, layers: Iterable[int]) -> list[Tensor]:
        """The weights of these layers. ValueError if a replacement of `MultiHeadAttention` did not capture them."""
        for layer in layers:
            if layer not in self.weights:
                raise ValueError(f"the attention of layer {layer} does not hand its weights to Scope.capture")
        return [self.weights[layer] for layer in layers]

    def take(self, attended: Attended) -> Tensor:
        """Records the current layer's attention; returns its context with ablated heads zeroed."""
        layer = self.layer
        self.weights[layer] = attended.weights
        if layer == self.last:
            raise PassEnded
        if layer in self.without:
            heads = torch.tensor(self.without[layer], device=attended.context.device)
            attended = attended._replace(context=attended.context.index_fill(1, heads, 0.0))
        if layer == self.traced:
            self.trace = attended
        return attended.context


class Scope(NamedTuple):
    """Arguments of one pass for all attention layers of a kind.

    positions: of the query tokens, [T] or [B, T]; unused by the layers of this file.
    mask: True where a query may attend, or 0 there and -inf elsewhere; broadcastable to [B, H, Q, K]. None: everywhere.
    causal: query i attends to keys 0..i; replaces the mask."""

    positions: Tensor
    mask: Tensor | None = None
    causal: bool = False
    capture: Capture | None = None


class Cache(Protocol):
    """Keys and values of the decoder's self-attention in stepwise decoding (`models.backends.torch`)."""

    def update(self, layer: int, key: Tensor, value: Tensor) -> KeyValue:
        """Stores keys and values of the new tokens, [B, H, T, D]; returns the keys and values to attend to."""


class Projection(nn.Linear):
    """A linear map that can compute part of its outputs, as cross-attention's queries, keys and values need."""

    def forward(self, x: Tensor, rows: slice | None = None) -> Tensor:
        """[..., I] -> [..., O]; rows: the rows of the weight to apply."""
        if rows is None:
            return F.linear(x, self.weight, self.bias)
        return F.linear(x, self.weight[rows], None if self.bias is None else self.bias[rows])


class MultiHeadAttention(nn.Module):
    """Multi-head attention (section 3.2 of the paper). Queries, keys and values come from one matrix [3·H·D, C]."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.heads, self.head_width, self.dropout = config.heads, config.head_width, config.attention_dropout
        self.inner = self.heads * self.head_width
        self.scale = self.head_width**-0.5 if config.attention_scale is None else config.attention_scale
        self.projection = Projection(config.d_model, 3 * self.inner, bias=config.attention_bias)
        self.output = nn.Linear(self.inner, config.d_model, bias=config.attention_bias)

    def forward(
        self,
        x: Tensor,
        scope: Scope,
        remember: Callable[[Tensor, Tensor], KeyValue] | None = None,
        source: KeyValue | None = None,
    ) -> Tensor:
        """x [B, T, C] -> [B, T, C]. remember: stores the keys and values of x and returns those of all tokens so far
        (`Cache.update`). source: keys and values [R, H, S, D] of cross-attention; if T is 1, R may divide B, and each
        block of B/R rows shares a source."""
        if source is None:
            query, key, value = self.query_key_value(x, scope)
            return self.attend(query, *(remember(key, value) if remember else (key, value)), scope)
        query = self.split(self.projection(x, slice(self.inner)).view(source[0].size(0), -1, self.inner))
        return self.attend(query, *source, scope).view_as(x)

    def query_key_value(self, x: Tensor, scope: Scope) -> tuple[Tensor, Tensor, Tensor]:
        """For self-attention: [B, T, C] -> three tensors [B, H, T, D]."""
        query, key, value = self.projection(x).chunk(3, dim=-1)
        return self.split(query), self.split(key), self.split(value)

    def key_value(self, memory: Tensor) -> KeyValue:
        """For cross-attention: memory [B, S, C] -> two tensors [B, H, S, D], computed once per sentence."""
        key, value = self.projection(memory, slice(self.inner, None)).chunk(2, dim=-1)
        return self.split(key), self.split(value)

    def split(self, x: Tensor) -> Tensor:
        """[B, T, H·D] -> [B, H, T, D]."""
        return x.view(*x.shape[:-1], self.heads, self.head_width).transpose(1, 2)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, scope: Scope) -> Tensor:
        """Attention with output projection, [B, Q, C]. Without a capture, PyTorch's fused kernel computes the same as
        `attend_explicit`: keep both in step."""
        if scope.capture is not None and scope.capture.wanted:
            mask = scope.mask
            if scope.causal:
                mask = torch.ones(query.size(2), key.size(2), dtype=torch.bool, device=query.device).tril()
            context = scope.capture.take(self.attend_explicit(query, key, value, mask))
        else:
            dropout = self.dropout if self.training else 0.0
            context = F.scaled_dot_product_attention(
                query, key, value, attn_mask=scope.mask, dropout_p=dropout, is_causal=scope.causal, scale=self.scale
            )
        joined: Tensor = self.output(context.transpose(1, 2).flatten(2))
        return joined

    def attend_explicit(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Attended:
        """softmax(q·kᵀ·scale)·v, step by step. A fully masked query (a source of padding only) gives zeros as in the
        fused kernel, not NaN. Weights are at least float32, as in the fused kernel, so that they sum to 1."""
        if mask is not None and mask.dtype != torch.bool:
            mask = mask == 0
        scores = query @ key.transpose(-1, -2) * self.scale
        masked = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
        weights = masked.softmax(dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32))
        if mask is not None:
            weights = weights.masked_fill(~mask, 0.0)
        return Attended(query, key, value, scores, mask, weights, weights.to(value.dtype) @ value)


class FeedForward(nn.Module):
    """Position-wise feed-forward layer: two linear maps with an activation in between."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.widen = nn.Linear(config.d_model, config.d_ff)
        self.narrow = nn.Linear(config.d_ff, config.d_model)
        self.activation = ACTIVATIONS[config.activation]
        self.dropout = nn.Dropout(config.activation_dropout)

    def forward(self, x: Tensor) -> Tensor:
        narrowed: Tensor = self.narrow(self.dropout(self.activation(self.widen(x))))
        return narrowed


def norm(config: TransformerConfig) -> nn.Module:
    """[..., C] -> [..., C]: the norm used throughout the network."""
    return nn.LayerNorm(config.d_model, eps=config.norm_epsilon)


class Residual(nn.Module):
    """The residual connection, norm and dropout of a sublayer. post-norm (the paper): x = norm(x + sublayer(x));
    pre-norm: x = x + sublayer(norm(x)), with a final norm after the stack."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.norm = norm(config)
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
        self.attention = MultiHeadAttention(config)
        self.feed_forward = FeedForward(config)
        self.around_attention, self.around_feed_forward = Residual(config), Residual(config)

    def forward(self, x: Tensor, scope: Scope) -> Tensor:
        """x [B, S, C] -> [B, S, C]."""
        x = self.around_attention(x, lambda y: self.attention(y, scope))
        transformed: Tensor = self.around_feed_forward(x, self.feed_forward)
        return transformed


class DecoderLayer(nn.Module):
    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.attention, self.cross_attention = MultiHeadAttention(config), MultiHeadAttention(config)
        self.feed_forward = FeedForward(config)
        self.around_attention, self.around_cross = Residual(config), Residual(config)
        self.around_feed_forward = Residual(config)

    def forward(
        self,
        x: Tensor,
        scope: Scope,
        source: KeyValue,
        source_scope: Scope,
        remember: Callable[[Tensor, Tensor], KeyValue] | None = None,
    ) -> Tensor:
        """x [B, T, C] -> [B, T, C]. source, remember: see `MultiHeadAttention.forward`."""
        x = self.around_attention(x, lambda y: self.attention(y, scope, remember))
        x = self.around_cross(x, lambda y: self.cross_attention(y, source_scope, source=source))
        transformed: Tensor = self.around_feed_forward(x, self.feed_forward)
        return transformed


def sinusoids(length: int, width: int, layout: PositionLayout) -> Tensor:
    """Position table [length, width], float32 (section 3.5 of the paper). interleaved, as in the paper:
    PE[p, 2i] = sin(p / 10000^(2i/width)), PE[p, 2i+1] = cos(same). marian: all sines, then all cosines, as in Marian
    and tensor2tensor."""
    frequency = torch.exp(torch.arange(0, width, 2, dtype=torch.float64) * (-math.log(10_000.0) / width))
    angle = torch.arange(length, dtype=torch.float64)[:, None] * frequency
    table = torch.empty(length, width, dtype=torch.float64)
    half = (width + 1) // 2
    sines = slice(0, None, 2) if layout == "interleaved" else slice(0, half)
    cosines = slice(1, None, 2) if layout == "interleaved" else slice(half, None)
    table[:, sines] = torch.sin(angle)
    table[:, cosines] = torch.cos(angle[:, : width // 2])
    return table.float()


class Transformer(nn.Module):
    """The network. `config.pad` is never attended to. All uses run `encode`, `decode` or `decode_over`, `project`."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.source_embedding = nn.Embedding(config.source_vocabulary, config.d_model)
        self.target_embedding = (
            self.source_embedding if config.tied == "all" else nn.Embedding(config.target_vocabulary, config.d_model)
        )
        self.embedding_dropout = nn.Dropout(config.embedding_dropout)
        encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        self.encoder = cast(MutableSequence[EncoderLayer], encoder)  # a ModuleList loses the element type
        self.decoder = cast(MutableSequence[DecoderLayer], decoder)
        pre = config.norm == "pre"
        self.encoder_norm = norm(config) if pre else nn.Identity()
        self.decoder_norm = norm(config) if pre else nn.Identity()
        self.output = nn.Linear(config.d_model, config.target_vocabulary, bias=False) if config.tied == "none" else None
        self.output_bias = nn.Parameter(torch.zeros(config.target_vocabulary)) if config.output_bias else None
        self.register_buffer("position_table", torch.empty(0, config.d_model), persistent=False)
        self.embedding_scale = config.d_model**0.5 if config.scale_embedding else 1.0
        self._initialise()

    def _initialise(self) -> None:
        """Xavier for matrices; embeddings such that scaled rows have unit variance."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, 0, self.config.d_model**-0.5)

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def position_vectors(self, length: int) -> Tensor:
        """[>= length, C]. The table grows by doubling, so the network has no length limit."""
        table: Tensor = self.get_buffer("position_table")
        if len(table) < length:
            size = max(64, 1 << (length - 1).bit_length())
            reference = next(self.parameters())
            with torch.inference_mode(False):  # a table first grown in inference mode must still serve training
                table = sinusoids(size, self.config.d_model, self.config.positions).to(reference)
            self.position_table = table
        return table

    def first_positions(self, length: int) -> Tensor:
        """0, 1, ..., length - 1; grows the table to fit."""
        return torch.arange(length, device=self.position_vectors(length).device)

    def embed(self, embedding: nn.Module, ids: Tensor, positions: Tensor) -> Tensor:
        """ids [B, T] at positions [T] or [B, T] -> [B, T, C]."""
        x = embedding(ids) * self.embedding_scale + F.embedding(positions, self.get_buffer("position_table"))
        dropped: Tensor = self.embedding_dropout(x)
        return dropped

    def encode(self, source: Tensor, capture: Capture | None = None) -> tuple[Tensor, Tensor]:
        """source [B, S] -> memory [B, S, C], and the mask of non-padding tokens [B, S]."""
        readable, positions = source != self.config.pad, self.first_positions(source.size(1))
        scope = Scope(positions, readable[:, None, None, :], capture=capture)
        x = self.embed(self.source_embedding, source, positions)
        for number, layer in enumerate(self.encoder):
            if capture is not None:
                capture.layer = number
            x = layer(x, scope)
        return self.encoder_norm(x), readable

    def source_key_values(self, memory: Tensor) -> Iterable[KeyValue]:
        """Keys and values of each layer's cross-attention over memory [B, S, C]: two tensors [B, H, S, D] per layer."""
        return (layer.cross_attention.key_value(memory) for layer in self.decoder)

    def decode(
        self,
        target: Tensor,
        memory: Tensor,
        readable: Tensor,
        captures: tuple[Capture | None, Capture | None] = (None, None),
    ) -> Tensor:
        """Teacher forcing: target [B, T] -> features [B, T, C]; position t attends to targets 0..t only. Padding may
        only follow a target, where no counted position attends to it."""
        positions = self.first_positions(target.size(1))
        scope = Scope(positions, causal=True, capture=captures[0])
        source_scope = Scope(positions, readable[:, None, None, :], capture=captures[1])
        return self.decode_over(target, scope, self.source_key_values(memory), source_scope)

    def decode_over(
        self,
        target: Tensor,
        scope: Scope,
        sources: Iterable[KeyValue],
        source_scope: Scope,
        cache: Cache | None = None,
    ) -> Tensor:
        """Tokens [B, T] at scope.positions -> features [B, T, C]. sources: see `source_key_values`."""
        x = self.embed(self.target_embedding, target, scope.positions)
        captures = [each.capture for each in (scope, source_scope) if each.capture is not None]
        for number, (layer, source) in enumerate(zip(self.decoder, sources, strict=True)):
            for capture in captures:
                capture.layer = number
            x = layer(x, scope, source, source_scope, None if cache is None else partial(cache.update, number))
        return self.decoder_norm(x)  # type: ignore[no-any-return]

    def project(self, features: Tensor) -> Tensor:
        """[..., C] -> logits [..., V]."""
        if self.output is None:
            return F.linear(features, self.target_embedding.weight, self.output_bias)
        logits: Tensor = self.output(features)
        return logits if self.output_bias is None else logits + self.output_bias

    @property
    def output_weight(self) -> Tensor:
        """[V, C]."""
        return self.target_embedding.weight if self.output is None else self.output.weight

    def features(self, source: Tensor, target: Tensor) -> Tensor:
        """source [B, S], target [B, T] -> features [B, T, C], before the output projection."""
        return self.decode(target, *self.encode(source))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """source [B, S], target [B, T] -> logits [B, T, V] of the token after each target token."""
        return self.project(self.features(source, target))


remember(__name__)
