"""The recurrent language model stepped one token at a time, its weights in any precision."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.backends.top_k import padded_to_blocks
from models.backends.torch.cuda_graph import StepShape
from models.backends.torch.products import MakeProduct, product
from models.backends.torch.scripted_cells import CellLayer, advance
from models.backends.torch.scripted_layers import compiled
from models.interface import Prompt

if TYPE_CHECKING:
    from models.networks.recurrent import RecurrentLanguageModel


@dataclass(slots=True)
class RecurrentState:
    """hidden and memory [L, slots, N]; memory is the LSTM's c and otherwise unused."""

    hidden: Tensor
    memory: Tensor


class Advance(Protocol):
    """`models.backends.torch.scripted_cells.advance`, in Python or compiled."""

    def __call__(
        self, cell: str, layers: list[CellLayer], looked_up: Tensor, hidden: list[Tensor], memory: list[Tensor]
    ) -> Tensor: ...


class EagerRecurrent:
    """A `Decodable`: `network` with products of the kind that `make` makes.

    What the first layer gets from its input depends on the token alone and is looked up: the product of every
    embedding with the input matrix is computed once.
    """

    def __init__(self, network: RecurrentLanguageModel, make: MakeProduct) -> None:
        self.network, self.config = network, network.config
        self.reader = copy.copy(network.recurrent)  # the same weights, read without dropout even while they are trained
        self.reader.training = False
        weight, bias = network.parameters_of(0)[:2]
        inputs = weight.t() if network.embedding is None else network.embedding.weight @ weight.t()
        self.table = (inputs + bias).detach().contiguous()
        self.layers = [self._layer(layer, make) for layer in range(network.config.layers)]
        self.output = make(*padded_to_blocks(network.output.weight, network.output.bias))
        self.device = network.device
        self.run = function(self.device.type)

    def _layer(self, number: int, make: MakeProduct) -> CellLayer:
        """Of the first layer the input product is never used: the table stands for it."""
        weight, bias, recurrent_weight, recurrent_bias = self.network.parameters_of(number)
        return CellLayer(make(weight, bias), make(recurrent_weight, recurrent_bias))

    def allocate(self, slots: int, source_length: int, target_length: int) -> RecurrentState:
        return self.network.zeros(slots)

    @torch.inference_mode()
    def prefill(self, state: RecurrentState, rows: Sequence[int], prompts: Sequence[Prompt]) -> None:
        index = torch.tensor(rows, device=self.device)
        state.hidden[:, index] = 0
        state.memory[:, index] = 0
        read = [(row, p.prefix[:-1]) for row, p in zip(rows, prompts, strict=True) if len(p.prefix) > 1]
        if not read:
            return
        sequences = [self._inputs(torch.tensor(prefix, device=self.device)) for _, prefix in read]
        packed = nn.utils.rnn.pack_sequence(sequences, enforce_sorted=False)
        last: Any = self.reader(packed)[1]
        hidden, memory = last if self.config.cell == "lstm" else (last, last)
        index = torch.tensor([row for row, _ in read], device=self.device)
        state.hidden[:, index] = hidden
        state.memory[:, index] = memory

    def _inputs(self, tokens: Tensor) -> Tensor:
        embedding = self.network.embedding
        if embedding is None:
            return F.one_hot(tokens, self.config.vocabulary).to(self.table.dtype)
        return F.embedding(tokens, embedding.weight)

    def step(self, state: RecurrentState, tokens: Tensor, group: int = 1) -> Tensor:
        return self.advance(state, tokens, StepShape(len(tokens), 1, 0, 0))

    def shape(self, state: RecurrentState, rows: int, group: int) -> StepShape:
        """Of the next step of so many rows: a recurrent state has no length."""
        return StepShape(rows, 1, 0, 0)

    def stepped(self, state: RecurrentState, rows: int) -> None:
        """The host has nothing to count."""

    @torch.inference_mode()
    def advance(self, state: RecurrentState, tokens: Tensor, shape: StepShape) -> Tensor:
        """What a step does on the device: a CUDA graph can hold it."""
        features = self.run(
            self.config.cell,
            self.layers,
            F.embedding(tokens, self.table),
            list(state.hidden[:, : shape.rows].unbind(0)),
            list(state.memory[:, : shape.rows].unbind(0)),
        )
        return product(self.output, features).float()

    @torch.inference_mode()
    def copy(
        self,
        state: RecurrentState,
        sources: Sequence[int],
        destinations: Sequence[int],
        since: Sequence[int] | None = None,
    ) -> None:
        index, onto = torch.tensor([list(sources), list(destinations)], device=self.device).unbind(0)
        for part in (state.hidden, state.memory):
            part.index_copy_(1, onto, part.index_select(1, index))


@cache
def function(device_type: str) -> Advance:
    """`advance` as it runs best on such a device: once a process."""
    return compiled(advance) if device_type == "cpu" else advance
