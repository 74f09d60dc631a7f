"""The encoder-decoder Transformer (Vaswani et al. 2017, arXiv 1706.03762), trained by full passes and served
step by step over a static cache; both paths run the same layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.attention import Capture
from models.interface import Prompt
from models.layers import DecoderLayer, EncoderLayer, KeyValue
from models.positions import sinusoids
from models.transformer_config import TransformerConfig

AttentionMaps = dict[str, list[Tensor]]
"""kind ("encoder", "decoder", "cross") -> one [B, H, Q, K] a layer."""


@dataclass(slots=True)
class TransformerState:
    """Static caches. lengths: target tokens read so far, on the device and, for choosing views, on the host."""

    keys: list[Tensor]  # a layer: [slots, H, T, D]
    values: list[Tensor]
    source_keys: list[Tensor]  # a layer: [slots, H, S, D]
    source_values: list[Tensor]
    lengths: Tensor  # [slots]
    source_readable: Tensor  # [slots, S], False at padding
    host_lengths: list[int]
    host_source_lengths: list[int]


class Transformer(nn.Module):
    """Built from a `TransformerConfig`. Ids equal to `config.pad` are never attended to."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.source_embedding = nn.Embedding(config.source_vocabulary, config.d_model)
        self.target_embedding = (
            self.source_embedding if config.tied == "all" else nn.Embedding(config.target_vocabulary, config.d_model)
        )
        self.embedding_dropout = nn.Dropout(config.embedding_dropout)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        pre = config.norm == "pre"
        epsilon = config.norm_epsilon
        self.encoder_norm = nn.LayerNorm(config.d_model, eps=epsilon) if pre else nn.Identity()
        self.decoder_norm = nn.LayerNorm(config.d_model, eps=epsilon) if pre else nn.Identity()
        self.output = nn.Linear(config.d_model, config.target_vocabulary, bias=False) if config.tied == "none" else None
        self.output_bias = nn.Parameter(torch.zeros(config.target_vocabulary)) if config.output_bias else None
        self.register_buffer("position_table", torch.empty(0, config.d_model), persistent=False)
        self.embedding_scale = config.d_model**0.5 if config.scale_embedding else 1.0
        self._initialise()

    @property
    def decoder_layers(self) -> list[DecoderLayer]:
        """The decoder with its type, which ModuleList forgets."""
        return cast(list[DecoderLayer], list(self.decoder))

    def _initialise(self) -> None:
        """Xavier for matrices; embeddings so that their rows have unit variance once scaled."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, 0, self.config.d_model**-0.5)

    def positions(self, length: int) -> Tensor:
        """[>= length, C]: the table grows by doubling, so that no limit is built into a network."""
        table: Tensor = self.get_buffer("position_table")
        if len(table) < length:
            size = max(64, 1 << (length - 1).bit_length())
            reference = self.source_embedding.weight
            with torch.inference_mode(False):  # a table first grown while decoding must still serve training
                table = sinusoids(size, self.config.d_model, self.config.positions).to(reference)
            self.position_table = table
        return table

    def embed(self, embedding: nn.Module, ids: Tensor) -> Tensor:
        """ids [B, T] -> [B, T, C], at positions 0..T-1."""
        x = embedding(ids) * self.embedding_scale + self.positions(ids.size(1))[: ids.size(1)]
        dropped: Tensor = self.embedding_dropout(x)
        return dropped

    def encode(self, source: Tensor, capture: Capture | None = None) -> tuple[Tensor, Tensor]:
        """source [B, S] -> its representation [B, S, C] and where it is readable [B, S]."""
        readable = source != self.config.pad
        x, mask = self.embed(self.source_embedding, source), readable[:, None, None, :]
        for layer in self.encoder:
            x = layer(x, mask, capture)
        return self.encoder_norm(x), readable

    def decode(
        self,
        target: Tensor,
        memory: Tensor,
        readable: Tensor,
        captures: tuple[Capture | None, Capture | None] = (None, None),
    ) -> Tensor:
        """Teacher-forced: target [B, T] -> features [B, T, C]. Position t sees targets 0..t alone. Padding may
        only stand at the end of a target, where nothing that counts looks at it."""
        x, length = self.embed(self.target_embedding, target), target.size(1)
        mask = torch.ones(length, length, dtype=torch.bool, device=target.device).tril()
        source_mask = readable[:, None, None, :]
        for layer in self.decoder_layers:
            source = layer.cross_attention.key_value(memory)
            x = layer(x, lambda key, value: (key, value), mask, source, source_mask, captures)
        return self.decoder_norm(x)  # type: ignore[no-any-return]

    def project(self, features: Tensor) -> Tensor:
        """[..., C] -> logits [..., V]."""
        weight = self.target_embedding.weight if self.output is None else self.output.weight
        return F.linear(features, weight, self.output_bias)

    def features(self, source: Tensor, target: Tensor) -> Tensor:
        """source [B, S], target [B, T] -> [B, T, C], before the output projection."""
        return self.decode(target, *self.encode(source))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """source [B, S], target [B, T] -> logits [B, T, V] of the token after each target token."""
        return self.project(self.features(source, target))

    @torch.inference_mode()
    def attention(self, source: Tensor, target: Tensor, kinds: Sequence[str]) -> AttentionMaps:
        """Weights of one teacher-forced pass over source [B, S] and target [B, T] (decoder input)."""
        captures: dict[str, Capture] = {kind: [] for kind in kinds}
        memory, readable = self.encode(source, captures.get("encoder"))
        if captures.keys() & {"decoder", "cross"}:
            self.decode(target, memory, readable, (captures.get("decoder"), captures.get("cross")))
        return captures

    # Decodable ------------------------------------------------------------------------------------------

    @property
    def device(self) -> torch.device:
        return self.source_embedding.weight.device

    def allocate(self, slots: int, source_length: int, target_length: int) -> TransformerState:
        config, reference = self.config, self.source_embedding.weight
        self.positions(max(source_length, target_length))

        def cache(length: int) -> list[Tensor]:
            shape = (slots, config.heads, length, config.head_width)
            return [reference.new_zeros(shape) for _ in range(config.decoder_layers)]

        return TransformerState(
            keys=cache(target_length),
            values=cache(target_length),
            source_keys=cache(source_length),
            source_values=cache(source_length),
            lengths=torch.zeros(slots, dtype=torch.long, device=reference.device),
            source_readable=torch.zeros(slots, source_length, dtype=torch.bool, device=reference.device),
            host_lengths=[0] * slots,
            host_source_lengths=[0] * slots,
        )

    @torch.inference_mode()
    def prefill(self, state: TransformerState, rows: Sequence[int], prompts: Sequence[Prompt]) -> None:
        device = state.lengths.device
        index = torch.tensor(rows, device=device)
        source = pad_rows([p.source for p in prompts], self.config.pad, device)
        memory, readable = self.encode(source)
        width = source.size(1)
        state.source_readable[index] = False
        state.source_readable[index, :width] = readable
        sources = [layer.cross_attention.key_value(memory) for layer in self.decoder_layers]
        for number, (key, value) in enumerate(sources):
            state.source_keys[number][index, :, :width] = key
            state.source_values[number][index, :, :width] = value
        self._prefill_target(state, index, [p.prefix[:-1] for p in prompts], sources, readable)
        for row, prompt in zip(rows, prompts, strict=True):
            state.host_source_lengths[row] = len(prompt.source)
            state.host_lengths[row] = len(prompt.prefix) - 1

    def _prefill_target(
        self,
        state: TransformerState,
        index: Tensor,
        prefixes: Sequence[Sequence[int]],
        sources: Sequence[KeyValue],
        readable: Tensor,
    ) -> None:
        """Fill the self-attention cache with what was forced; the usual prefix is one token, which is none here."""
        lengths = torch.tensor([len(p) for p in prefixes], device=index.device)
        state.lengths[index] = lengths
        width = max(len(p) for p in prefixes)
        if width == 0:
            return
        target = pad_rows(prefixes, self.config.pad, index.device)
        mask = torch.ones(width, width, dtype=torch.bool, device=index.device).tril()
        x = self.embed(self.target_embedding, target)
        for number, layer in enumerate(self.decoder_layers):

            def remember(key: Tensor, value: Tensor, number: int = number) -> KeyValue:
                state.keys[number][index, :, :width] = key
                state.values[number][index, :, :width] = value
                return key, value

            x = layer(x, remember, mask, sources[number], readable[:, None, None, :])

    @torch.inference_mode()
    def step(self, state: TransformerState, tokens: Tensor) -> Tensor:
        count = len(tokens)
        length = max(state.host_lengths[:count]) + 1
        width = max(state.host_source_lengths[:count])
        position, rows = state.lengths[:count], torch.arange(count, device=tokens.device)
        x = self.target_embedding(tokens) * self.embedding_scale + self.positions(length)[position]
        x = self.embedding_dropout(x)[:, None]
        mask = (torch.arange(length, device=tokens.device) <= position[:, None])[:, None, None]
        source_mask = state.source_readable[:count, None, None, :width]
        for number, layer in enumerate(self.decoder_layers):

            def remember(key: Tensor, value: Tensor, number: int = number) -> KeyValue:
                keys, values = state.keys[number], state.values[number]
                keys[rows, :, position], values[rows, :, position] = key[:, :, 0], value[:, :, 0]
                return keys[:count, :, :length], values[:count, :, :length]

            source = (
                state.source_keys[number][:count, :, :width],
                state.source_values[number][:count, :, :width],
            )
            x = layer(x, remember, mask, source, source_mask)
        state.lengths[:count] += 1
        state.host_lengths[:count] = [n + 1 for n in state.host_lengths[:count]]
        return self.project(self.decoder_norm(x[:, 0]))

    @torch.inference_mode()
    def copy(self, state: TransformerState, sources: Tensor, destinations: Tensor) -> None:
        read, write = sources.tolist(), destinations.tolist()
        length = max(state.host_lengths[row] for row in read)
        width = max(state.host_source_lengths[row] for row in read)
        for caches, used in (
            (state.keys + state.values, length),
            (state.source_keys + state.source_values, width),
        ):
            for cache in caches:
                cache[destinations, :, :used] = cache[sources, :, :used]
        state.lengths[destinations] = state.lengths[sources]
        state.source_readable[destinations] = state.source_readable[sources]
        for host in (state.host_lengths, state.host_source_lengths):
            for row, value in zip(write, [host[row] for row in read], strict=True):
                host[row] = value


def pad_rows(rows: Sequence[Sequence[int]], pad: int, device: torch.device) -> Tensor:
    """Ragged ids -> [B, longest], padded at the end."""
    longest = max(len(row) for row in rows)
    padded = [[*row, *[pad] * (longest - len(row))] for row in rows]
    return torch.tensor(padded, dtype=torch.long, device=device)  # without a dtype, no ids at all are floats
