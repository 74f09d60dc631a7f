"""The Transformer stepped by PyTorch over static caches, by the network's own modules, so any change takes effect."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from models.backends.torch.cuda_graph import StepShape
from models.backends.torch.kv_cache import PrefixCache, Shape, ShapeCache, StepCache, TransformerState
from models.backends.torch.transfers import upload
from models.exactness import is_known
from models.interface import Prompt
from models.networks.recurrent import RecurrentLanguageModel
from models.networks.transformer import Scope, Transformer

GROUPING = ("forward", "attend", "split")
LOW = (torch.bfloat16, torch.float16)


class FloatLogits:
    """The network's output projection. On CUDA the sums of bf16 and fp16 are kept in the float32 that they are made in,
    if the network's `project` is the known one; elsewhere the network's own logits are converted. A product that is
    rounded to bf16 has 8 significant bits: the largest logits then tie, and a tie, or a draw beside one, depends on
    which kernel the number of rows selects."""

    def __init__(self, network: Transformer | RecurrentLanguageModel) -> None:
        self.network = network
        weight = next(network.parameters())
        low = weight.device.type == "cuda" and weight.dtype in LOW
        self._known = low and is_known(network, "project")

    @property
    def unrounded(self) -> bool:
        """Whether logits are those of float32 sums that nothing has rounded."""
        return self._known and (self.network.output is None or type(self.network.output) is nn.Linear)

    def __call__(self, features: Tensor) -> Tensor:
        """features [B, C] -> logits [B, V], float32."""
        network = self.network
        if not self.unrounded:
            logits: Tensor = network.project(features)
            return logits.float()
        weight: Tensor
        bias: Tensor | None
        if isinstance(network, RecurrentLanguageModel):
            weight, bias = network.output.weight, network.output.bias
        else:
            weight, bias = network.output_weight, network.output_bias
        product = torch.mm(features, weight.t(), out_dtype=torch.float32)
        return product if bias is None else product.add_(bias)


class EagerTransformer:
    """A `Decodable` over a network in evaluation mode. Later changes of its weights or modules take effect at once."""

    def __init__(self, network: Transformer) -> None:
        assert not network.training, "dropout would be decoded"
        self.network, self.config = network, network.config
        reference = next(network.parameters())
        self.dtype, self.device = reference.dtype, reference.device
        # rows of a beam share a source only if all code on the way is known to support it
        self.groups = is_known(network, "decode_over") and all(
            is_known(layer, "forward") and all(is_known(layer.cross_attention, name) for name in GROUPING)
            for layer in network.decoder
        )
        self.logits = FloatLogits(network)
        self.shapes, self.vocabulary = self._shapes()

    def allocate(self, slots: int, source_length: int, target_length: int) -> TransformerState:
        source_length = max(1, source_length)
        table = self.network.position_vectors(max(source_length, target_length))
        lengths, positions = (target_length, source_length), self.network.first_positions(target_length)
        return TransformerState(slots, lengths, *self.shapes, self.dtype, table, positions)

    @torch.inference_mode()
    def _shapes(self) -> tuple[tuple[list[tuple[Shape, Shape]], list[tuple[Shape, Shape]]], int]:
        """Key and value shapes of self- and cross-attention per layer, and the number of logits, from a trial pass
        (which prepares int8 maps)."""
        own, source = ShapeCache([]), ShapeCache([])
        memory, _ = self.network.encode(torch.zeros((1, 1), dtype=torch.long, device=self.device))
        sources = list(self.network.source_key_values(memory))
        for number, pair in enumerate(sources):
            source.update(number, *pair)
        scope = Scope(self.network.first_positions(1), causal=True)
        token = torch.zeros((1, 1), dtype=torch.long, device=self.device)
        logits = self.network.project(self.network.decode_over(token, scope, sources, Scope(scope.positions), own))
        return (own.shapes, source.shapes), logits.size(-1)

    @torch.inference_mode()
    def prefill(self, state: TransformerState, rows: Sequence[int], prompts: Sequence[Prompt]) -> None:
        index = upload(np.array(rows), self.device)
        # an empty source has one zeroed position, as padding in a full pass has no weight
        rows_read = [p.unpadded_source(self.config.pad) for p in prompts]
        lengths = [max(1, len(ids)) for ids in rows_read]
        empty = [number for number, ids in enumerate(rows_read) if not ids]
        source = pad_rows([ids or (self.config.pad,) for ids in rows_read], self.config.pad, self.device)
        memory, _ = self.network.encode(source)
        sources = list(self.network.source_key_values(memory))
        for layer, (key, value) in zip(state.source, sources, strict=True):
            if empty:
                key[empty], value[empty] = 0, 0
            layer.both[index, : source.size(1)] = layer.joined(key, value)
        reads = [p.prefix[:-1] for p in prompts]
        if any(reads):
            given = pad_rows(reads, self.config.pad, self.device)
            positions = self.network.first_positions(given.size(1))
            mask = None
            if min(lengths) < source.size(1):
                mask = self._mask(upload(np.array(lengths), self.device), source.size(1))
            self.network.decode_over(
                given, Scope(positions, causal=True), sources, Scope(positions, mask), PrefixCache(state, index)
            )
        held = state.host_lengths[list(rows)], state.host_source_lengths[list(rows)]
        read = [len(prefix) for prefix in reads]
        state.host_lengths[rows], state.host_source_lengths[rows] = read, lengths
        state.lengths[index], state.source_lengths[index] = upload(np.array([read, lengths]), self.device).unbind(0)
        state.forget(rows, held)

    def _mask(self, lengths: Tensor, width: int) -> Tensor:
        """lengths [B] -> [B, 1, 1, width]: 0 at the first lengths[i] positions, -inf after."""
        behind = torch.arange(width, device=self.device) >= lengths[:, None]
        zeros = torch.zeros(behind.shape, dtype=self.dtype, device=self.device)
        return zeros.masked_fill_(behind, -torch.inf)[:, None, None]

    def step(self, state: TransformerState, tokens: Tensor, group: int = 1) -> Tensor:
        shape = self.shape(state, len(tokens), group)
        logits = self.advance(state, tokens, shape)
        self.stepped(state, shape.rows)
        return logits

    def shape(self, state: TransformerState, rows: int, group: int) -> StepShape:
        """The shape of the next step over `rows` rows."""
        group = group if self.groups else 1
        lengths, source_lengths = state.host_lengths[:rows], state.host_source_lengths[:rows:group]
        longest, width = int(lengths.max()), int(source_lengths.max())
        ragged, source_ragged = int(lengths.min()) < longest, int(source_lengths.min()) < width
        return StepShape(rows, group, longest + 1, width, ragged, source_ragged)

    def stepped(self, state: TransformerState, rows: int) -> None:
        state.host_lengths[:rows] += 1

    @torch.inference_mode()
    def advance(self, state: TransformerState, tokens: Tensor, shape: StepShape) -> Tensor:
        """The device part of a step, without a synchronisation, so that a CUDA graph can capture it. The shape may
        include free rows: whatever they hold, they stay finite and within their slots."""
        count, group, length, width = shape.rows, shape.group, shape.length, shape.width
        position = state.lengths[:count].clamp(max=state.target_length - 1)
        mask = self._mask(position + 1, length) if shape.ragged else None
        named = state.positions[position][:, None]
        source_lengths = state.source_lengths[:count:group].clamp(min=1)
        source_mask = self._mask(source_lengths, width) if shape.source_ragged else None
        features = self.network.decode_over(
            tokens[:, None],
            Scope(named, mask),
            [(layer.keys[:count:group, :, :width], layer.values[:count:group, :, :width]) for layer in state.source],
            Scope(named, source_mask),
            StepCache(state, state.first[:count] + position, length),
        )
        state.lengths[:count] += 1
        return self.logits(features[:, 0])

    @torch.inference_mode()
    def reorder(self, state: TransformerState, parents: Tensor, shape: StepShape) -> None:
        """See `Recordable.reorder`. Every row of the shape is copied: a graph knows no pairs."""
        for layer in state.own:
            written = layer.both[: shape.rows, : shape.length]
            written.copy_(written.index_select(0, parents))

    @torch.inference_mode()
    def copy(
        self,
        state: TransformerState,
        sources: Sequence[int],
        destinations: Sequence[int],
        since: Sequence[int] | None = None,
    ) -> None:
        state.copy(list(sources), list(destinations), since)


def pad_rows(rows: Sequence[Sequence[int]], pad: int, device: torch.device) -> Tensor:
    """Ragged ids -> [B, longest], padded at the end."""
    longest = max(len(row) for row in rows)
    padded = [[*row, *[pad] * (longest - len(row))] for row in rows]
    return upload(np.array(padded, dtype=np.int64), device)  # without a dtype, an empty list gives floats
