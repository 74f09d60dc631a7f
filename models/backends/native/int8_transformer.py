"""The Transformer stepped in int8 on a CPU, in C: the structures of native.h and beam.c, the caches, the `Decodable`
over them, and the beam search over the arrays of `models.interface.BeamTable`."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from ctypes import c_float, c_int64, c_void_p
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from models.backends.native.build import address_of, raise_for_status
from models.backends.native.logit_kernels import MOST
from models.backends.native.packing import Norm, Packer, Product
from models.backends.native.shortlist import Shortlist, shortlist, shortlist_refusal
from models.backends.top_k import argmax, padded_to_blocks
from models.backends.torch.kv_cache import Ints, zeros
from models.interface import BeamTable, EndedBeam, Prompt
from models.networks.transformer import DecoderLayer, EncoderLayer, MultiHeadAttention, Residual, Transformer


class SelfAttention(ctypes.Structure):
    _fields_ = [("projection", Product), ("output", Product), ("around", Norm)]


class CrossAttention(ctypes.Structure):
    _fields_ = [("query", Product), ("key_value", Product), ("output", Product), ("around", Norm)]


class FeedForward(ctypes.Structure):
    _fields_ = [("widen", Product), ("narrow", Product), ("around", Norm), ("activation", c_int64)]


class Encoding(ctypes.Structure):
    _fields_ = [("attention", SelfAttention), ("feed_forward", FeedForward)]


class Decoding(ctypes.Structure):
    _fields_ = [("attention", SelfAttention), ("cross", CrossAttention), ("feed_forward", FeedForward)]


class Model(ctypes.Structure):
    _fields_ = [
        *((name, c_int64) for name in ("heads", "head_width", "width", "inner")),
        *((name, c_float) for name in ("scale", "embedding_scale")),
        *((name, c_void_p) for name in ("source_embedding", "target_embedding", "encoding", "decoding")),
        *((name, c_int64) for name in ("encoder_layers", "decoder_layers", "source_vocabulary", "target_vocabulary")),
        *(("encoder_norm", Norm), ("decoder_norm", Norm), ("projection", Product)),
    ]


class Cache(ctypes.Structure):
    _fields_ = [
        *(("own", c_void_p), ("source", c_void_p)),
        *((name, c_int64) for name in ("slots", "target_length", "source_length", "threads")),
    ]


MOST_STEPS = 32  # of a call
ENDED = np.dtype(
    [*((name, np.int64) for name in ("beam", "row", "length")), ("log_probability", "f8"), ("score", "f8")]
)
ARRAYS = (  # in the order of beam.c's `Beams`
    *("tokens", "parents", "log_probabilities", "lengths", "limits", "shared", "full", "done"),
    *("worst", "ended_scores", "ended_counts", "divisors"),
)


class Arrays(ctypes.Structure):
    _fields_ = [*((name, c_int64) for name in ("width", "longest")), *((name, c_void_p) for name in ARRAYS)]


class Search(ctypes.Structure):
    _fields_ = [
        *((name, c_int64) for name in ("eos", "forced_end", "renormalise")),
        *(("suppressed", c_void_p), ("suppressed_count", c_int64), ("most_steps", c_int64), ("nanoseconds", c_int64)),
        *(("ended", c_void_p), ("ended_count", c_int64), ("steps", c_int64)),
    ]


class BeamCall:
    """What calls of `advance_beams` with one table have in common. The structures point into the table's arrays."""

    def __init__(self, table: BeamTable) -> None:
        room, longest, width = table.tokens.shape
        self.table = table
        self.suppressed = np.array(table.suppressed, dtype=np.int64)
        self._ended = np.empty(MOST_STEPS * room * width, dtype=ENDED)
        self.arrays = Arrays(width, longest, *(getattr(table, name).ctypes.data for name in ARRAYS))
        eos = -1 if table.eos is None else table.eos
        self.search = Search(
            *(eos, table.forced_end, table.renormalise, self.suppressed.ctypes.data, len(self.suppressed)),
            *(MOST_STEPS, 0, address_of(self._ended), 0, 0),
        )
        self.addresses = ctypes.addressof(self.arrays), ctypes.addressof(self.search)

    @staticmethod
    def suits(table: BeamTable, outputs: int) -> bool:
        """Whether the kernels rank as many candidates of a row as the beams need."""
        width: int = table.tokens.shape[2]
        return 2 * width <= min(MOST, outputs)

    def ended(self) -> list[EndedBeam]:
        """The hypotheses that the last call has ended, in the order in which they ended."""
        if not (count := self.search.ended_count):
            return []
        return [EndedBeam(*values) for values in self._ended[:count].tolist()]


class NativeState:
    """Static caches and the preassembled arguments of a call. The keys and values of one position are adjacent.
    lengths, source_lengths [slots]: target and source tokens read into each row. twins [slots]: a row with the same
    contents, or the row itself."""

    def __init__(
        self,
        slots: int,
        source_length: int,
        target_length: int,
        widths: tuple[int, int, int],
        positions: Tensor,
        threads: int,
    ) -> None:
        """widths: layers, heads, head width. positions [>= T, C]. threads: of a step."""
        (layers, *heads), device = widths, torch.device("cpu")
        self.cache = zeros((layers, slots, target_length, 2, *heads), torch.float16, device)  # [L, slots, T, 2, H, D]
        self.source_cache = zeros((layers, slots, source_length, 2, *heads), torch.float16, device)
        self.lengths, self.source_lengths = np.zeros(slots, dtype=np.int64), np.zeros(slots, dtype=np.int64)
        self.positions, self.slots = positions, np.arange(slots)
        self.twins, self.twinned = np.arange(slots), False
        caches = self.cache.data_ptr(), self.source_cache.data_ptr()
        self.caches = Cache(*caches, slots, target_length, source_length, threads)
        self.address = ctypes.addressof(self.caches)
        self.addresses = tuple(array.ctypes.data for array in (self.slots, self.lengths, self.source_lengths))

    def change(self, rows: Ints, twins: Ints | None = None) -> None:
        """These rows have new contents: their own, or those of the rows `twins`, which keep theirs."""
        if self.twinned:
            followers = (self.twins[:, None] == rows).any(axis=1)
            self.twins[followers] = self.slots[followers]
        self.twins[rows] = rows if twins is None else self.twins[twins]
        self.twinned |= twins is not None

    def forget_twins(self) -> None:
        if self.twinned:
            self.twins[:], self.twinned = self.slots, False


Array = Ints | Tensor | int | None
WEIGHTS_WORTH_THREADS = 8 << 20  # a step of one row takes 0.2 ms
ACTIVATION_NUMBERS = {"relu": 1, "gelu": 2, "silu": 3}  # as in native.h


class NativeTransformer:
    """A `Decodable` in int8 on a CPU."""

    def __init__(self, network: Transformer, library: ctypes.CDLL) -> None:
        self.network, self.config, self.library = network, network.config, library
        self.device = network.device
        self.packer = Packer(library, [tuple(p.shape) for p in network.parameters() if p.ndim == 2])
        self.model = self._model()
        self.outputs: int = self.model.projection.outputs  # here, for it takes two objects
        functions = (
            *((library.encode, 4), (library.decode, 7), (library.decode_likeliest, 9), (library.copy, 5)),
            (library.advance_beams, 7),
        )
        for function, arrays in functions:
            function.restype = c_int64
            function.argtypes = *(c_void_p,) * 3, c_int64, *(c_void_p,) * arrays
        self.shortlist, self.shortlist_reason = self._shortlist()
        self._projections = dict[tuple[int, ...], Product]()

    def _model(self) -> Model:
        network, config, packer = self.network, self.config, self.packer
        inner = config.heads * config.head_width
        encoding = (Encoding * config.encoder_layers)(
            *(
                Encoding(self._self_attention(layer.attention, layer.around_attention), self._feed_forward(layer))
                for layer in network.encoder
            )
        )
        # a step then reads the rest of the decoder from front to back
        key_values = [self._cross_part(layer.cross_attention, slice(inner, None)) for layer in network.decoder]
        decoding = (Decoding * config.decoder_layers)(
            *(
                Decoding(
                    self._self_attention(layer.attention, layer.around_attention),
                    CrossAttention(
                        self._cross_part(layer.cross_attention, slice(inner)),
                        key_value,
                        packer.product(layer.cross_attention.output.weight, layer.cross_attention.output.bias),
                        packer.norm(layer.around_cross.norm, before=layer.around_cross.before),
                    ),
                    self._feed_forward(layer),
                )
                for layer, key_value in zip(network.decoder, key_values, strict=True)
            )
        )
        self._layers = encoding, decoding
        return Model(
            *(config.heads, config.head_width, config.d_model, config.d_ff),
            *(network.decoder[0].attention.scale, network.embedding_scale),
            *(packer.address(network.source_embedding.weight), packer.address(network.target_embedding.weight)),
            *(ctypes.addressof(encoding), ctypes.addressof(decoding), config.encoder_layers, config.decoder_layers),
            *(config.source_vocabulary, config.target_vocabulary),
            *(packer.norm(network.encoder_norm), packer.norm(network.decoder_norm)),
            packer.product(*padded_to_blocks(network.output_weight, network.output_bias)),
        )

    @torch.inference_mode()
    def _shortlist(self) -> tuple[Shortlist | None, str]:
        """And the reason for or against it."""
        weight, bias = padded_to_blocks(self.network.output_weight, self.network.output_bias)
        if reason := shortlist_refusal(*weight.shape):
            return None, reason
        made = shortlist(self.library, self.model.projection, weight.float(), bias, self._own_states())
        return (None, made) if isinstance(made, str) else (made, made.reason)

    def _own_states(self, rows: int = 32, length: int = 24, seed: int = 0) -> Tensor:
        """What the output matrix reads while the network decodes random sources, [N, C]."""
        state, random = self.allocate(rows, length, length), torch.Generator().manual_seed(seed)
        sizes = (self.config.source_vocabulary, self.config.target_vocabulary)
        sources, first = (torch.randint(size, (rows, length), generator=random) for size in sizes)
        prompts = [Prompt(tuple(ids), (start[0],)) for ids, start in zip(sources.tolist(), first.tolist(), strict=True)]
        self.prefill(state, range(rows), prompts)
        tokens, states = first[:, 0].contiguous(), torch.empty(length, rows, self.config.d_model)
        for position in range(length):
            tokens = argmax(self._decode(state, tokens, 1, states[position]))
        return states.flatten(0, 1)[torch.randperm(length * rows, generator=random)]

    def _self_attention(self, module: MultiHeadAttention, around: Residual) -> SelfAttention:
        projection, output = module.projection, module.output
        return SelfAttention(
            self.packer.product(projection.weight, projection.bias),
            self.packer.product(output.weight, output.bias),
            self.packer.norm(around.norm, before=around.before),
        )

    def _cross_part(self, module: MultiHeadAttention, rows: slice) -> Product:
        """Part of the projection matrix: queries come from the target, keys and values from the source."""
        bias = module.projection.bias
        return self.packer.product(module.projection.weight[rows], None if bias is None else bias[rows])

    def _feed_forward(self, layer: EncoderLayer | DecoderLayer) -> FeedForward:
        widen, narrow, around = layer.feed_forward.widen, layer.feed_forward.narrow, layer.around_feed_forward
        return FeedForward(
            self.packer.product(widen.weight, widen.bias),
            self.packer.product(narrow.weight, narrow.bias),
            self.packer.norm(around.norm, before=around.before),
            ACTIVATION_NUMBERS[self.config.activation],
        )

    def allocate(self, slots: int, source_length: int, target_length: int) -> NativeState:
        config = self.config
        positions = self.network.position_vectors(max(source_length, target_length)).float()
        widths = (config.decoder_layers, config.heads, config.head_width)
        weights = sum(p.numel() for layer in self.network.decoder for p in layer.parameters())
        threads = threads_for(weights + self.network.output_weight.numel())
        return NativeState(slots, max(1, source_length), target_length, widths, positions, threads)

    @torch.inference_mode()
    def prefill(self, state: NativeState, rows: Sequence[int], prompts: Sequence[Prompt]) -> None:
        slots = np.array(rows, dtype=np.int64)
        sources = [p.unpadded_source(self.config.pad) for p in prompts]
        lengths = np.array([len(ids) for ids in sources], dtype=np.int64)
        read = np.array([len(p.prefix) - 1 for p in prompts], dtype=np.int64)
        ids = np.array(list(chain.from_iterable(sources)), dtype=np.int64)
        self._call(self.library.encode, state, len(prompts), lengths, slots, ids, counted(lengths))
        state.lengths[slots], state.source_lengths[slots] = read, lengths
        state.change(slots)
        forced = np.array(list(chain.from_iterable(p.prefix[:-1] for p in prompts)), dtype=np.int64)
        if len(forced):
            slots, lengths = slots.repeat(read), lengths.repeat(read)
            arrays = forced, slots, counted(read), slots, lengths, None, None
            self._call(self.library.decode, state, len(forced), *arrays)

    def step(self, state: NativeState, tokens: Tensor, group: int = 1) -> Tensor:
        if state.twinned:
            rows, twins = state.slots[: len(tokens)], state.twins[: len(tokens)]
            fed = tokens.numpy()
            # a twin that does not come before its row may be none of the live rows
            same = (twins < rows) & (fed[np.minimum(twins, rows)] == fed)
            if same.any():
                return self._step_once(state, tokens.long(), group, rows[~same], rows[same])
        return self._decode(state, tokens, group, None)

    def _step_once(self, state: NativeState, tokens: Tensor, group: int, rows: Ints, same: Ints) -> Tensor:
        """A step of which the rows `same` have the results of their twins: all hypotheses of a beam begin alike."""
        logits, lengths = torch.empty(len(tokens), self.outputs), state.lengths
        read = rows // group * group
        arrays = tokens[rows], rows, lengths[rows], read, state.source_lengths[read], logits, None
        self._call(self.library.decode, state, len(rows), *arrays)
        for place in range(len(rows) - 1, -1, -1):  # from the last one, for a row does not come before its place
            if rows[place] == place:
                break
            logits[rows[place]] = logits[place]
        twins = state.twins[same]
        for row, twin in zip(same.tolist(), twins.tolist(), strict=True):  # an index takes ten times as long
            logits[row] = logits[twin]
        self._call(self.library.copy, state, len(same), twins, same, lengths[same], lengths[same] + 1, None)
        lengths[: len(tokens)] += 1
        state.forget_twins()
        return logits

    def likeliest(self, state: NativeState, tokens: Tensor, suppressed: tuple[int, ...]) -> Tensor:
        """One call for the step and the search: without a shortlist the logits stay in the kernels."""
        shortlist, count = self.shortlist, tokens.size(0)
        chosen, computed = torch.empty(count, dtype=torch.long), c_int64()
        choice: tuple[int, int | None]
        if shortlist is not None and shortlist.worth_it:
            projection, screen = shortlist.without(suppressed)
            choice = ctypes.addressof(projection), ctypes.addressof(screen)
        else:
            choice = self._projection_without(suppressed), None
        slots, places, lengths = state.addresses
        tokens = tokens.long().contiguous()
        arrays = (tokens, slots, places, slots, lengths, *choice, chosen, ctypes.addressof(computed))
        self._call(self.library.decode_likeliest, state, count, *arrays)
        state.lengths[:count] += 1
        state.forget_twins()
        if shortlist is not None:
            shortlist.count(count, computed.value if choice[1] else None)
        return chosen

    def advance_beams(
        self, state: NativeState, table: BeamTable, rows: Ints, prefix_lengths: Ints, feed: Ints, seconds: float
    ) -> tuple[int, list[EndedBeam]]:
        """As of `models.interface.AdvancesBeams`."""
        if not BeamCall.suits(table, self.outputs):
            return 0, []
        state.forget_twins()
        if table.call is None:
            table.call = BeamCall(table)
        call: BeamCall = table.call
        call.search.nanoseconds = int(seconds * 1e9)
        _, places, lengths = state.addresses
        arrays = feed, places, lengths, rows, prefix_lengths, *call.addresses
        self._call(self.library.advance_beams, state, len(rows), *arrays)
        return call.search.steps, call.ended()

    def _projection_without(self, suppressed: tuple[int, ...]) -> int:
        """The address of the output matrix with a bias of -inf for suppressed tokens."""
        if suppressed not in self._projections:
            bias = padded_to_blocks(self.network.output_weight, self.network.output_bias)[1]
            self._projections[suppressed] = self.packer.without(self.model.projection, bias, suppressed)
        return ctypes.addressof(self._projections[suppressed])

    def _decode(self, state: NativeState, tokens: Tensor, group: int, features: Tensor | None) -> Tensor:
        """features [B, C]: what the output matrix reads is written there."""
        count = tokens.size(0)
        slots, places, lengths = state.addresses
        arrays: tuple[Ints | int, Ints | int] = slots, lengths
        if group > 1:
            first = state.slots // group * group
            arrays = first, state.source_lengths[first]
        logits = torch.empty(count, self.outputs)
        tokens = tokens.long().contiguous()
        self._call(self.library.decode, state, count, tokens, slots, places, *arrays, logits, features)
        state.lengths[:count] += 1
        state.forget_twins()
        return logits

    def copy(
        self,
        state: NativeState,
        sources: Sequence[int],
        destinations: Sequence[int],
        since: Sequence[int] | None = None,
    ) -> None:
        read, written = np.array(sources, dtype=np.int64), np.array(destinations, dtype=np.int64)
        lengths = state.lengths[read]
        if since is not None:
            first = np.array(since, dtype=np.int64)
            self._call(self.library.copy, state, len(read), read, written, first, lengths, None)
            state.change(written)
            return
        source_lengths = state.source_lengths[read]
        self._call(self.library.copy, state, len(read), read, written, None, lengths, source_lengths)
        state.lengths[written], state.source_lengths[written] = lengths, source_lengths
        state.change(written, read)

    def _call(self, function: Callable[..., int], state: NativeState, count: int, *arrays: Array) -> None:
        """arrays: contiguous and alive during the call, or addresses."""
        model = ctypes.addressof(self.model)
        status = function(model, state.address, state.positions.data_ptr(), count, *map(address, arrays))
        if status:
            raise_for_status(status, "a token is not in the vocabulary, or a row does not fit its slot")


def threads_for(weights: int) -> int:
    """Threads of a step that reads so many weights: those of torch, unless it ends before they have woken up."""
    return torch.get_num_threads() if weights >= WEIGHTS_WORTH_THREADS else 1


def address(array: Array) -> int | None:
    if array is None or isinstance(array, int):
        return array
    if isinstance(array, Tensor):
        assert array.is_contiguous()
        return array.data_ptr()
    return address_of(array)


def counted(lengths: Ints) -> Ints:
    """[2, 3] -> [0, 1, 0, 1, 2]."""
    total = int(lengths.sum())
    return np.arange(total) - (lengths.cumsum() - lengths).repeat(lengths)
