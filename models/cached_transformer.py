"""The Transformer stepped over a static cache, its weights in any precision.

`Transformer` runs whole sequences; this runs the same function one target token at a time, for serving and for
scoring. What a step does is written out flat, without modules: at few rows a step costs calls, not arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from models import cached_layers
from models.attention import MultiHeadAttention
from models.cached_layers import CrossAttention, Decoding, Encoding, Heads, Norm, SelfAttention
from models.interface import Prompt
from models.layers import DecoderLayer, EncoderLayer, KeyValue, Residual
from models.likeliest import whole_blocks
from models.products import MakeProduct, product

if TYPE_CHECKING:
    from models.transformer import Transformer


Ints = npt.NDArray[np.int64]


@dataclass(slots=True)
class TransformerState:
    """Static caches. A row's keys and values of one position stand together, so that one copy writes both.

    host_lengths and host_source_lengths say on the host what the device knows too: how many target tokens were read
    into a row, and how long its source is.
    """

    cache: Tensor  # [L, slots, T, 2, H, D]
    source_cache: Tensor  # [L, slots, S, 2, H, D]
    keys: Tensor  # this and the next three: views of these two, [L, slots, H, T or S, D]
    values: Tensor
    source_keys: Tensor
    source_values: Tensor
    lengths: Tensor  # [slots]
    source_lengths: Tensor  # [slots]
    host_lengths: Ints  # [slots]
    host_source_lengths: Ints  # [slots]
    positions: Tensor  # [>= T, C]; kept here, for a CUDA graph reads it though the network may grow another
    first: Tensor  # [slots]: where a row's positions begin in the flat caches
    flat: list[Tensor]  # a layer: the cache as [slots·T, 2·H·D]


class StepShape(NamedTuple):
    """The numbers that a step's tensors are cut to. rows: live ones; group: so many in turn read one source; length,
    width: target positions (the new one included) and source positions that are in use; ragged: whether some rows
    use fewer."""

    rows: int
    group: int
    length: int
    width: int
    ragged: bool = True
    source_ragged: bool = True

    def rounded(self, slots: int, length: int, width: int) -> StepShape:
        """The next larger one of few, within slots of so many source and target positions: powers of two of rows (of
        beams where these stand in groups), of positions from 32 on."""
        beams = min(round_up(-(-self.rows // self.group)), slots // self.group)
        return StepShape(
            beams * self.group,
            self.group,
            min(max(32, round_up(self.length)), length),
            min(max(32, round_up(self.width)), width),
        )


def round_up(number: int) -> int:
    """To a power of two."""
    return 1 << max(0, number - 1).bit_length()


class CachedTransformer:
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
        self.projection = make(*whole_blocks(table.weight, network.output_bias))
        reference = network.source_embedding.weight
        self.dtype, self.device = reference.dtype, reference.device
        self.run = functions(self.device.type)

    def allocate(self, slots: int, source_length: int, target_length: int) -> TransformerState:
        config = self.config

        def cache(length: int) -> Tensor:
            shape = (config.decoder_layers, slots, length, 2, config.heads, config.head_width)
            return zeros(shape, self.dtype, self.device)

        own, source = cache(target_length), cache(max(1, source_length))
        return TransformerState(
            own,
            source,
            *key_value(own),
            *key_value(source),
            lengths=torch.zeros(slots, dtype=torch.long, device=self.device),
            source_lengths=torch.zeros(slots, dtype=torch.long, device=self.device),
            host_lengths=np.zeros(slots, dtype=np.int64),
            host_source_lengths=np.zeros(slots, dtype=np.int64),
            positions=self.network.positions(max(source_length, target_length)),
            first=torch.arange(0, slots * target_length, target_length, device=self.device),
            flat=list(own.view(config.decoder_layers, slots * target_length, -1).unbind(0)),
        )

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
        self._forget(state, rows, held)

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
            new = product(own.projection, cached_layers.enter(own.around, x))
            both = new[:, inner:].reshape(count, width, 2, self.heads.number, self.heads.width)
            state.cache[number, index, :width] = both
            query = cached_layers.split(self.heads, new[:, :inner], count)
            context = cached_layers.attended(self.heads, query, *key_value(both), mask)
            x = cached_layers.leave(own.around, x, product(own.output, context))
            x = cached_layers.cross_attention(layer.cross, self.heads, x, *sources[number], source_mask)
            x = cached_layers.feed_forward(layer.feed_forward, x)

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
        self._copy_positions(state, np.array(sources), np.array(destinations), np.array(since or [0] * len(sources)))
        if since is None:
            read, write = list(sources), list(destinations)
            index, onto = torch.tensor([read, write], device=self.device).unbind(0)
            moved = state.source_cache[:, :, : int(state.host_source_lengths[read].max())]
            moved.index_copy_(1, onto, moved.index_select(1, index))
            for lengths in (state.lengths, state.source_lengths):
                lengths.index_copy_(0, onto, lengths.index_select(0, index))
            held = state.host_lengths[write], state.host_source_lengths[write]
            for host_lengths in (state.host_lengths, state.host_source_lengths):
                host_lengths[write] = host_lengths[read]
            self._forget(state, write, held)

    def _forget(self, state: TransformerState, rows: Sequence[int], held: tuple[Ints, Ints]) -> None:
        """Zeros behind what `rows` hold now, where they held more target and source tokens before. Masked it has no
        weight, but 0 · NaN is NaN, and in a narrow format a sentence may have come to that. On a GPU free rows are
        stepped along and hold more than was counted."""
        caches = (state.cache, state.host_lengths, held[0]), (state.source_cache, state.host_source_lengths, held[1])
        for cache, lengths, before in caches:
            ends = before.tolist() if self.device.type == "cpu" else [cache.size(2)] * len(rows)
            for row, end in zip(rows, ends, strict=True):
                if lengths[row] < end:
                    cache[:, row, int(lengths[row]) : end] = 0

    def _copy_positions(self, state: TransformerState, sources: Ints, destinations: Ints, since: Ints) -> None:
        """Keys and values of the positions since[i] and on, and of no others: hypotheses of a beam seldom differ in
        more than their last tokens."""
        counts = state.host_lengths[sources] - since
        total = int(counts.sum())
        if total == 0:
            return
        # since[0], since[0] + 1, ..., since[1], since[1] + 1, ...
        places = np.arange(total) - np.repeat(np.cumsum(counts) - counts - since, counts)
        read, write = (np.repeat(rows * state.cache.size(2), counts) + places for rows in (sources, destinations))
        index, onto = torch.from_numpy(np.stack([read, write])).to(self.device).unbind(0)
        for flat in state.flat:
            flat.index_copy_(0, onto, flat.index_select(0, index))


class Functions(NamedTuple):
    encode: Callable[..., Tensor]
    step: Callable[..., Tensor]


@cache
def functions(device_type: str) -> Functions:
    """Of `cached_layers`, as they run best on such a device: once a process."""
    if device_type == "cpu":
        return Functions(cached_layers.compiled(cached_layers.encode), cached_layers.compiled(cached_layers.step))
    return Functions(cached_layers.encode, cached_layers.step)


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


def widened(layer: EncoderLayer | DecoderLayer, activation: str, make: MakeProduct) -> cached_layers.FeedForward:
    widen, narrow = layer.feed_forward.widen, layer.feed_forward.narrow
    around = norm(layer.around_feed_forward)
    return cached_layers.FeedForward(
        make(widen.weight, widen.bias), make(narrow.weight, narrow.bias), activation, around
    )


def key_value(both: Tensor) -> KeyValue:
    """[..., T, 2, H, D] -> two views [..., H, T, D]."""
    key, value = both.transpose(-2, -4).unbind(-3)
    return key, value


def zeros(shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Zeros; on a CPU such as take no memory before they are written to: few sequences are as long as their slots."""
    if device.type != "cpu":
        return torch.zeros(shape, dtype=dtype, device=device)
    size = int(np.prod(shape)) * dtype.itemsize
    return torch.from_numpy(np.zeros(size, dtype=np.uint8)).view(dtype).view(shape)


def pad_rows(rows: Sequence[Sequence[int]], pad: int, device: torch.device) -> Tensor:
    """Ragged ids -> [B, longest], padded at the end."""
    longest = max(len(row) for row in rows)
    padded = [[*row, *[pad] * (longest - len(row))] for row in rows]
    return torch.tensor(padded, dtype=torch.long, device=device)  # without a dtype, no ids at all are floats
