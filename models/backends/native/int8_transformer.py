"""The Transformer stepped in int8 on a CPU, in C: native.h's structures, the caches and the `Decodable` over them."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
from collections.abc import Callable, Sequence
from ctypes import c_float, c_int32, c_int64, c_void_p
from itertools import chain

import numpy as np
import torch
from torch import Tensor, nn

from models.backends.native.build import check_status
from models.backends.top_k import padded_to_blocks
from models.backends.torch.int8_linear import rounded_weight
from models.backends.torch.kv_cache import Ints, zeros
from models.interface import Prompt
from models.networks.transformer import DecoderLayer, EncoderLayer, MultiHeadAttention, Residual, Transformer


class Product(ctypes.Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("weight", "scale", "bias")),
        *((name, c_int64) for name in ("outputs", "inputs")),
    ]


class Norm(ctypes.Structure):
    _fields_ = [("weight", c_void_p), ("bias", c_void_p), ("epsilon", c_float), ("before", c_int32)]


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
        *((name, c_int64) for name in ("slots", "target_length", "source_length")),
    ]


HUGE_PAGE = 1 << 21
PANEL = 64  # native.h pads the outputs of a product to multiples of this


class Packer:
    """Fills structures from tensors and keeps the tensors alive, since structures hold addresses only. Weights are
    contiguous in packing order, so the hardware prefetches the next one."""

    def __init__(self, library: ctypes.CDLL, network: nn.Module) -> None:
        self.library, self.held = library, list[Tensor]()
        library.packed_size.restype = c_int64
        library.packed_size.argtypes = (c_int64, c_int64)
        library.pack.argtypes = (c_void_p, c_int64, c_int64, c_void_p)
        # a matrix that is split in two is padded twice
        room = sum(self._size(p.size(0) + PANEL, p.size(1)) for p in network.parameters() if p.ndim == 2)
        self.weights, self.taken = reserved(room), 0

    def _size(self, outputs: int, inputs: int) -> int:
        return int(self.library.packed_size(outputs, inputs))

    def address(self, tensor: Tensor) -> int:
        """The address of a contiguous float32 or uint8 copy, or of the tensor itself if it is one."""
        kept = tensor.detach()
        kept = (kept if kept.dtype == torch.uint8 else kept.float()).contiguous()
        self.held.append(kept)
        return kept.data_ptr()

    def product(self, weight: Tensor, bias: Tensor | None) -> Product:
        """weight [O, I], bias [O]."""
        rounded, scale = rounded_weight(weight)
        outputs, inputs = rounded.shape
        packed = self.weights[self.taken :][: self._size(outputs, inputs)]
        self.taken += len(packed)
        assert len(packed) == self._size(outputs, inputs), "more matrices than room was reserved for"
        rounded = rounded.contiguous()
        self.library.pack(rounded.data_ptr(), outputs, inputs, packed.data_ptr())
        bias = torch.zeros(outputs) if bias is None else bias
        return Product(packed.data_ptr(), self.address(scale), self.address(bias), outputs, inputs)

    def norm(self, module: nn.Module, *, before: bool = False) -> Norm:
        """The structure of a LayerNorm; an empty one for any other module."""
        if not isinstance(module, nn.LayerNorm):
            return Norm()
        return Norm(self.address(module.weight), self.address(module.bias), module.eps, before)


def reserved(size: int) -> Tensor:
    """An uninitialised byte tensor that takes no memory before it is written to, on huge pages if available."""
    pages = mmap.mmap(-1, size + HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):
        pages.madvise(mmap.MADV_HUGEPAGE)
    array = np.frombuffer(pages, dtype=np.uint8)
    return torch.from_numpy(array[-array.ctypes.data % HUGE_PAGE :][:size])


class NativeState:
    """Static caches and the preassembled arguments of a call. The keys and values of one position are adjacent.
    lengths, source_lengths [slots]: target and source tokens read into each row."""

    def __init__(
        self, slots: int, source_length: int, target_length: int, widths: tuple[int, int, int], positions: Tensor
    ) -> None:
        """widths: layers, heads, head width. positions [>= T, C]."""
        (layers, *heads), device = widths, torch.device("cpu")
        self.cache = zeros((layers, slots, target_length, 2, *heads), torch.float32, device)  # [L, slots, T, 2, H, D]
        self.source_cache = zeros((layers, slots, source_length, 2, *heads), torch.float32, device)
        self.lengths, self.source_lengths = np.zeros(slots, dtype=np.int64), np.zeros(slots, dtype=np.int64)
        self.positions, self.slots = positions, np.arange(slots)
        caches = self.cache.data_ptr(), self.source_cache.data_ptr()
        self.caches = Cache(*caches, slots, target_length, source_length)
        self.address = ctypes.addressof(self.caches)
        self.addresses = tuple(array.ctypes.data for array in (self.slots, self.lengths, self.source_lengths))


Array = Ints | Tensor | int | None
ACTIVATION_NUMBERS = {"relu": 1, "gelu": 2, "silu": 3}  # as in native.h


class NativeTransformer:
    """A `Decodable` in int8 on a CPU."""

    def __init__(self, network: Transformer, library: ctypes.CDLL) -> None:
        self.network, self.config, self.library = network, network.config, library
        self.device = network.device
        self.packer = Packer(library, network)
        self.model = self._model()
        for function, arrays in ((library.encode, 4), (library.decode, 6), (library.copy, 5)):
            function.restype = c_int64
            function.argtypes = *(c_void_p,) * 3, c_int64, *(c_void_p,) * arrays

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
        return NativeState(slots, max(1, source_length), target_length, widths, positions)

    @torch.inference_mode()
    def prefill(self, state: NativeState, rows: Sequence[int], prompts: Sequence[Prompt]) -> None:
        slots = np.array(rows, dtype=np.int64)
        sources = [p.unpadded_source(self.config.pad) for p in prompts]
        lengths = np.array([len(ids) for ids in sources], dtype=np.int64)
        read = np.array([len(p.prefix) - 1 for p in prompts], dtype=np.int64)
        ids = np.array(list(chain.from_iterable(sources)), dtype=np.int64)
        self._call(self.library.encode, state, len(prompts), lengths, slots, ids, counted(lengths))
        state.lengths[slots], state.source_lengths[slots] = read, lengths
        forced = np.array(list(chain.from_iterable(p.prefix[:-1] for p in prompts)), dtype=np.int64)
        if len(forced):
            slots, lengths = slots.repeat(read), lengths.repeat(read)
            arrays = forced, slots, counted(read), slots, lengths, None
            self._call(self.library.decode, state, len(forced), *arrays)

    def step(self, state: NativeState, tokens: Tensor, group: int = 1) -> Tensor:
        count = len(tokens)
        slots, places, lengths = state.addresses
        arrays: tuple[Ints | int, Ints | int] = slots, lengths
        if group > 1:
            first = state.slots // group * group
            arrays = first, state.source_lengths[first]
        logits = torch.empty(count, self.model.projection.outputs)
        self._call(self.library.decode, state, count, tokens.long().contiguous(), slots, places, *arrays, logits)
        state.lengths[:count] += 1
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
            return
        source_lengths = state.source_lengths[read]
        self._call(self.library.copy, state, len(read), read, written, None, lengths, source_lengths)
        state.lengths[written], state.source_lengths[written] = lengths, source_lengths

    def _call(self, function: Callable[..., int], state: NativeState, count: int, *arrays: Array) -> None:
        """arrays: contiguous and alive during the call, or addresses."""
        model = ctypes.addressof(self.model)
        status = function(model, state.address, state.positions.data_ptr(), count, *map(address, arrays))
        check_status(status, "a token is not in the vocabulary, or a row does not fit its slot")


def address(array: Array) -> int | None:
    if array is None or isinstance(array, int):
        return array
    assert array.is_contiguous() if isinstance(array, Tensor) else array.flags.c_contiguous
    return array.data_ptr() if isinstance(array, Tensor) else array.ctypes.data


def counted(lengths: Ints) -> Ints:
    """[2, 3] -> [0, 1, 0, 1, 2]."""
    total = int(lengths.sum())
    return np.arange(total) - (lengths.cumsum() - lengths).repeat(lengths)
