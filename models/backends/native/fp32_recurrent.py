"""Recurrent networks stepped in fp32 on a CPU, in C. A row is computed on its own in a fixed order, so its numbers are
bitwise independent of the other rows and of its position."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import byref, c_int64, c_void_p
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from models.backends.native.build import raise_for_status
from models.backends.top_k import padded_to_blocks
from models.backends.torch.cuda_graph import StepShape
from models.backends.torch.recurrent_step import EagerRecurrent
from models.interface import Prompt
from models.networks.cells import CELLS
from models.networks.recurrent import RecurrentLanguageModel, RecurrentState

CELL_NUMBERS = {"rnn": 0, "gru": 1, "lstm": 2}  # as in recurrent.c
OUT_OF_RANGE = "a token is not in the vocabulary, or there is no such row"
ALIGNED = 16  # floats; alignment of each gate


class Matrix(ctypes.Structure):
    _fields_ = [("weight", c_void_p), ("bias", c_void_p), ("outputs", c_int64), ("inputs", c_int64)]


class Layer(ctypes.Structure):
    _fields_ = [("input", Matrix), ("recurrent", Matrix)]


class Recurrent(ctypes.Structure):
    _fields_ = [
        *((name, c_int64) for name in ("cell", "layers", "hidden", "padded", "vocabulary")),
        *(("table", c_void_p), ("layer", c_void_p), ("output", Matrix)),
    ]


class State(ctypes.Structure):
    _fields_ = [("hidden", c_void_p), ("memory", c_void_p), ("slots", c_int64)]


class NativeRecurrent(EagerRecurrent):
    """A `Decodable` in fp32 on a CPU, over a packed copy of the network's weights."""

    def __init__(self, network: RecurrentLanguageModel, library: ctypes.CDLL) -> None:
        self.network, self.config, self.library = network, network.config, library
        self.device, self.held = network.device, list[Tensor]()
        library.packed_size.restype = c_int64
        library.packed_size.argtypes = (c_int64, c_int64)
        library.pack.argtypes = (c_void_p, c_int64, c_int64, c_void_p)
        library.step.argtypes = (c_void_p, c_void_p, c_int64, c_void_p, c_void_p)
        library.read_texts.argtypes = (c_void_p, c_void_p, c_int64, c_void_p, c_void_p, c_void_p)
        self.model = self._model()
        self.columns = int(self.model.output.outputs)

    def _model(self) -> Recurrent:
        config, network = self.config, self.network
        weight, bias = network.parameters_of(0)[:2]
        inputs = weight.t() if network.embedding is None else network.embedding.weight @ weight.t()
        table = self._hold(self._spread((inputs + bias).t()).t())
        self.layers_read = (Layer * config.layers)(*(self._packed_layer(number) for number in range(config.layers)))
        padded = -(-config.hidden // ALIGNED) * ALIGNED
        return Recurrent(
            *(CELL_NUMBERS[config.cell], config.layers, config.hidden, padded, config.vocabulary),
            *(table.data_ptr(), ctypes.addressof(self.layers_read)),
            self._matrix(*padded_to_blocks(network.output.weight, network.output.bias)),
        )

    def _packed_layer(self, number: int) -> Layer:
        weight, bias, recurrent_weight, recurrent_bias = map(self._spread, self.network.parameters_of(number))
        recurrent = self._matrix(recurrent_weight, recurrent_bias)
        return Layer(self._matrix(weight, bias) if number else Matrix(), recurrent)

    def _spread(self, rows: Tensor) -> Tensor:
        """[G·N, ...] -> the same with each gate zero-padded to whole vectors."""
        gates = rows.detach().float().reshape(len(CELLS[self.config.cell].gates), self.config.hidden, *rows.shape[1:])
        missing = -self.config.hidden % ALIGNED
        return torch.cat([gates, gates.new_zeros(len(gates), missing, *gates.shape[2:])], dim=1).flatten(0, 1)

    def _hold(self, tensor: Tensor) -> Tensor:
        """A contiguous float32 tensor that lives as long as this object."""
        self.held.append(tensor.detach().float().contiguous())
        return self.held[-1]

    def _matrix(self, weight: Tensor, bias: Tensor | None) -> Matrix:
        """weight [O, I], bias [O]."""
        weight = weight.detach().float().contiguous()
        outputs, inputs = weight.shape
        packed = self._hold(torch.empty(self.library.packed_size(outputs, inputs)))
        self.library.pack(weight.data_ptr(), outputs, inputs, packed.data_ptr())
        padded = self._hold(torch.zeros(len(packed) // inputs))
        if bias is not None:
            padded[:outputs] = bias.detach()
        return Matrix(packed.data_ptr(), padded.data_ptr(), outputs, inputs)

    @torch.inference_mode()
    def prefill(self, state: RecurrentState, rows: Sequence[int], prompts: Sequence[Prompt]) -> None:
        slots = np.array(rows, dtype=np.int64)
        lengths = np.array([len(p.prefix) - 1 for p in prompts], dtype=np.int64)
        tokens = np.array(list(chain.from_iterable(p.prefix[:-1] for p in prompts)), dtype=np.int64)
        arrays = (array.ctypes.data for array in (slots, lengths, tokens))
        if status := self.library.read_texts(byref(self.model), byref(self._state(state)), len(prompts), *arrays):
            raise_for_status(status, OUT_OF_RANGE)

    def advance(self, state: RecurrentState, tokens: Tensor, shape: StepShape) -> Tensor:
        count, tokens = len(tokens), tokens.long().contiguous()
        logits = torch.empty(count, self.columns)
        addresses = tokens.data_ptr(), logits.data_ptr()
        if status := self.library.step(byref(self.model), byref(self._state(state)), count, *addresses):
            raise_for_status(status, OUT_OF_RANGE)
        return logits

    def _state(self, state: RecurrentState) -> State:
        hidden, memory = state.hidden, state.memory
        assert hidden.is_contiguous() and memory.is_contiguous() and hidden.dtype == torch.float32
        return State(hidden.data_ptr(), memory.data_ptr(), hidden.size(1))
