"""The Transformer stepped over a static cache, its weights in any precision.

`Transformer` runs whole sequences; this runs the same function one target token at a time, for serving and for
scoring. What a step does is written out flat, without modules: at few rows a step costs calls, not arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from models.backends.top_k import padded_to_blocks
from models.backends.torch import scripted_layers
from models.backends.torch.cuda_graph import StepShape
from models.backends.torch.kv_cache import TransformerState, key_value
from models.backends.torch.products import MakeProduct, product
from models.backends.torch.scripted_layers import CrossAttention, Decoding, Encoding, Heads, Norm, SelfAttention
from models.interface import Prompt
from models.networks.layers import DecoderLayer, EncoderLayer, KeyValue, MultiHeadAttention, Residual

if TYPE_CHECKING:
    from models.networks.transformer import Transformer


class EagerTransformer:
    """A `Decodable`: `network` with products of the kind that `make` makes. The network's own tensors are used
    wherever they serve as they are."""

    def __init__(self, network: Transformer, make: MakeProduct) -> None:
        self.network, config = network, network.config
        self.config = config
        first = network.decoder_layers[0].attention
        self.heads = Heads(config.heads, config.head_width, first.scale)
        self.encoding = [
            Encoding(
                self_attention(each.attention, each.around_attention, make), widened(each, config.activation, make)
            )
            for each in network.encoder_layers
        ]
        self.decoding = [
            Decoding(
                self_attention(each.attention, each.around_attention, make),
                cross_attention(each.cross_attention, each.around_cross, make),
                widened(each, config.activation, make),
            )
            for each in network.decoder_layers
        ]
        table = network.target_embedding if network.output is None else network.output
        self.projection = make(*padded_to_blocks(table.weight, network.output_bias))
        reference = network.source_embedding.weight
        self.dtype, self.device = reference.dtype, reference.device
        self.run = functions(self.device.type)

    def allocate(self, slots: int, source_length: int, target_length: int) -> TransformerState:
        config = self.config
        positions = self.network.positions(max(source_length, target_length))
        widths = (config.decoder_layers, config.heads, config.head_width)
        return TransformerState.of(slots, max(1, source_length), target_length, widths, self.dtype, positions)

    @torch.inference_mode()
    def prefill(self, state: TransformerState, rows: Sequence[int], prompts: Sequence[Prompt]) -> None:
        index = torch.tensor(rows, device=self.device)
        # an empty source has one place, which holds nothing: as in a full pass, where nobody looks at padding
        read = [p.source or (self.config.pad,) for p in prompts]
        empty = [number for number, p in enumerate(prompts) if not p.source]
        lengths = [len(source) for source in read]
        memory, mask = self._encode(pad_rows(read, self.config.pad, self.device), lengths)
        count, width = len(prompts), max(lengths)
        sources = []
        for number, layer in enumerate(self.decoding):
            both = product(layer.cross.key_value, memory).view(
                count, width, 2, self.config.heads, self.config.head_width
            )
            if empty:
                both[empty] = 0
            state.source_cache[number, index, :width] = both
            sources.append(key_value(both))
        self._prefill_target(state, index, [p.prefix[:-1] for p in prompts], sources, mask)
        held = state.host_lengths[list(rows)], state.host_source_lengths[list(rows)]
        state.host_lengths[rows] = [len(p.prefix) - 1 for p in prompts]
        state.host_source_lengths[rows] = lengths
        state.lengths[index] = torch.tensor([len(p.prefix) - 1 for p in prompts], device=self.device)
        state.source_lengths[index] = torch.tensor(lengths, device=self.device)
        state.forget(rows, held)

    def _encode(self, source: Tensor, lengths: Sequence[int]) -> tuple[Tensor, Tensor | None]:
        """source [B, S] -> its representation [B·S, C], and what to add to scores of its positions, [B, 1, 1, S]."""
        count, width = source.shape
        x = self._embed(self.network.source_embedding, source).view(count * width, -1)
        mask = self._mask(torch.tensor(lengths, device=self.device), width) if min(lengths) < width else None
        return self.network.encoder_norm(self.run.encode(self.encoding, self.heads, x, count, mask)), mask

    def _embed(self, embedding: torch.nn.Module, ids: Tensor) -> Tensor:
        """[B, T] at positions 0..T-1 -> [B, T, C]."""
        scaled: Tensor = embedding(ids) * self.network.embedding_scale
        return scaled + self.network.positions(ids.size(1))[: ids.size(1)]

    def _mask(self, lengths: Tensor, width: int) -> Tensor:
        """lengths [B] -> [B, 1, 1, width]: 0 at the first so many positions, -inf behind."""
        behind = torch.arange(width, device=self.device) >= lengths[:, None]
        zeros = torch.zeros(behind.shape, dtype=self.dtype, device=self.device)
        return zeros.masked_fill_(behind, -torch.inf)[:, None, None]

    def _prefill_target(
        self,
        state: TransformerState,
        index: Tensor,
        prefixes: Sequence[Sequence[int]],
        sources: Sequence[KeyValue],
        source_mask: Tensor | None,
    ) -> None:
        """Fill the self-attention cache with what was forced; the usual prefix is one token, which is none here."""
        count, width = len(prefixes), max(len(p) for p in prefixes)
        if width == 0:
            return
        target = pad_rows(prefixes, self.config.pad, self.device)
        ahead = torch.ones(width, width, dtype=torch.bool, device=self.device).triu(1)
        mask = torch.zeros(width, width, dtype=self.dtype, device=self.device).masked_fill_(ahead, -torch.inf)
        x = self._embed(self.network.target_embedding, target).view(count * width, -1)
        inner = self.config.heads * self.config.head_width
        for number, layer in enumerate(self.decoding):
            own = layer.attention
            new = product(own.projection, scripted_layers.enter(own.around, x))
            both = new[:, inner:].reshape(count, width, 2, self.heads.number, self.heads.width)
            state.cache[number, index, :width] = both
            query = scripted_layers.split(self.heads, new[:, :inner], count)
            context = scripted_layers.attended(self.heads, query, *key_value(both), mask)
            x = scripted_layers.leave(own.around, x, product(own.output, context))
            x = scripted_layers.cross_attention(layer.cross, self.heads, x, *sources[number], source_mask)
            x = scripted_layers.feed_forward(layer.feed_forward, x)

    def step(self, state: TransformerState, tokens: Tensor, group: int = 1) -> Tensor:
        shape = self.shape(state, len(tokens), group)
        logits = self.advance(state, tokens, shape)
        self.stepped(state, shape.rows)
        return logits

    def shape(self, state: TransformerState, rows: int, group: int) -> StepShape:
        """Of the next step of so many rows."""
        lengths, source_lengths = state.host_lengths[:rows], state.host_source_lengths[:rows:group]
        longest, width = int(lengths.max()), int(source_lengths.max())
        ragged, source_ragged = int(lengths.min()) < longest, int(source_lengths.min()) < width
        return StepShape(rows, group, longest + 1, width, ragged, source_ragged)

    def stepped(self, state: TransformerState, rows: int) -> None:
        state.host_lengths[:rows] += 1

    @torch.inference_mode()
    def advance(self, state: TransformerState, tokens: Tensor, shape: StepShape) -> Tensor:
        """What a step does on the device, without a look at any number there, so that a CUDA graph can hold it. Rows
        that no request has may be among the shape's: whatever they hold, they stay finite and inside their slots."""
        count, group, length, width = shape.rows, shape.group, shape.length, shape.width
        network, limit = self.network, state.cache.size(2)
        position = state.lengths[:count].clamp(max=limit - 1)
        places = state.first[:count] + position
        mask = self._mask(position + 1, length) if shape.ragged else None
        source_lengths = state.source_lengths[:count:group].clamp(min=1)
        source_mask = self._mask(source_lengths, width) if shape.source_ragged else None
        x = torch.add(
            state.positions.index_select(0, position),
            network.target_embedding(tokens),
            alpha=network.embedding_scale,
        )
        x = self.run.step(
            self.decoding,
            self.heads,
            x,
            state.flat,
            places,
            state.keys[:, :count, :, :length].unbind(0),
            state.values[:, :count, :, :length].unbind(0),
            mask,
            state.source_keys[:, :count:group, :, :width].unbind(0),
            state.source_values[:, :count:group, :, :width].unbind(0),
            source_mask,
        )
        state.lengths[:count] += 1
        return product(self.projection, network.decoder_norm(x)).float()

    @torch.inference_mode()
    def copy(
        self,
        state: TransformerState,
        sources: Sequence[int],
        destinations: Sequence[int],
        since: Sequence[int] | None = None,
    ) -> None:
        state.copy(list(sources), list(destinations), since)


class Functions(NamedTuple):
    encode: Callable[..., Tensor]
    step: Callable[..., Tensor]


@cache
def functions(device_type: str) -> Functions:
    """Of `cached_layers`, as they run best on such a device: once a process."""
    if device_type == "cpu":
        return Functions(
            scripted_layers.compiled(scripted_layers.encode), scripted_layers.compiled(scripted_layers.step)
        )
    return Functions(scripted_layers.encode, scripted_layers.step)


def norm(around: Residual) -> Norm:
    return Norm(around.norm.weight, around.norm.bias, around.norm.eps, around.before)


def self_attention(module: MultiHeadAttention, around: Residual, make: MakeProduct) -> SelfAttention:
    projection, output = module.projection, module.output
    return SelfAttention(make(projection.weight, projection.bias), make(output.weight, output.bias), norm(around))


def cross_attention(module: MultiHeadAttention, around: Residual, make: MakeProduct) -> CrossAttention:
    """Its one matrix is taken apart: queries come from the target, keys and values from the source."""
    inner, bias = module.inner, module.projection.bias
    query, key_value = (
        make(module.projection.weight[rows], None if bias is None else bias[rows])
        for rows in (slice(inner), slice(inner, None))
    )
    return CrossAttention(query, key_value, make(module.output.weight, module.output.bias), norm(around))


def widened(layer: EncoderLayer | DecoderLayer, activation: str, make: MakeProduct) -> scripted_layers.FeedForward:
    widen, narrow = layer.feed_forward.widen, layer.feed_forward.narrow
    around = norm(layer.around_feed_forward)
    return scripted_layers.FeedForward(
        make(widen.weight, widen.bias), make(narrow.weight, narrow.bias), activation, around
    )


def pad_rows(rows: Sequence[Sequence[int]], pad: int, device: torch.device) -> Tensor:
    """Ragged ids -> [B, longest], padded at the end."""
    longest = max(len(row) for row in rows)
    padded = [[*row, *[pad] * (longest - len(row))] for row in rows]
    return torch.tensor(padded, dtype=torch.long, device=device)  # without a dtype, no ids at all are floats
