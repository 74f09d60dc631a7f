from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.backends.native import build
from models.backends.native.fp32_recurrent import NativeRecurrent
from models.backends.select import prepared
from models.backends.torch.recurrent_step import EagerRecurrent, RecurrentState
from models.inspection.gate_traces import GateShape
from models.interface import Decodable, Precision
from models.networks import cells
from models.networks.cells import CellKind
from training.kernels import gru_scan


def dropped(features: Tensor, rate: float, *, locked: bool, training: bool) -> Tensor:
    """features [B, T, N]; locked: one mask for all T steps of a row (Gal and Ghahramani 2016)."""
    if not locked or not training or not rate:
        return F.dropout(features, rate, training)
    rows, _, width = features.shape
    mask = features.new_empty(rows, 1, width).bernoulli_(1 - rate)
    return features * mask.div_(1 - rate)


Weights = tuple[Tensor, Tensor, Tensor, Tensor]  # input [G·N, I], its bias, recurrent [G·N, N], its bias
PYTORCH: dict[CellKind, Callable[..., Any]] = {"rnn": torch.rnn_tanh, "gru": torch.gru, "lstm": torch.lstm}


def fused_layer(
    cell: CellKind, features: Tensor, hidden: Tensor, memory: Tensor, weights: Weights
) -> tuple[Tensor, Tensor, Tensor]:
    """features [B, T, I] from the state [B, N] -> features [B, T, N], the hidden state and the memory after."""
    library = gru_scan.kernels(features) if cell == "gru" else None
    if library is None:
        return _pytorch_layer(cell, features, hidden, memory, weights)
    weight, bias, recurrent, recurrent_bias = weights
    projected = F.linear(features.transpose(0, 1), weight, bias)  # time first: a step is then in one piece
    states = gru_scan.gru(library, projected, hidden, recurrent, recurrent_bias)
    return states.transpose(0, 1), states[-1], states[-1]


def _pytorch_layer(
    cell: CellKind, features: Tensor, hidden: Tensor, memory: Tensor, weights: Weights
) -> tuple[Tensor, Tensor, Tensor]:
    weight, bias, recurrent, recurrent_bias = weights
    packed = (hidden[None], memory[None]) if cell == "lstm" else hidden[None]
    parameters = [weight, recurrent, bias, recurrent_bias]
    options = {"has_biases": True, "num_layers": 1, "dropout": 0.0, "train": True, "bidirectional": False}
    features, *last = PYTORCH[cell](features, packed, parameters, **options, batch_first=True)
    return features, last[0][0], last[-1][0]


FUSED: dict[cells.CellKind, Callable[..., nn.RNNBase]] = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurrentConfig:
    """embedding 0 feeds one-hot characters: their product with the input matrix is a row look-up, and is done as one.
    Dropout of every kind acts in training alone."""

    vocabulary: int
    cell: cells.CellKind = "gru"
    embedding: int = field(default=128, metadata={"help": "width of the character embedding; 0: one-hot characters"})
    hidden: int = field(default=256, metadata={"help": "width of the hidden state"})
    layers: int = 1
    recurrent_bias: bool = field(
        default=True, metadata={"help": "the second of PyTorch's two bias vectors, which the formulae do without"}
    )
    dropout: float = field(
        default=0.0,
        metadata={"help": "between layers, before the output and, unless that has its own, on the embedding"},
    )
    embedding_dropout: float | None = field(default=None, metadata={"help": "on the embedding; none: dropout"})
    recurrent_dropout: float = field(
        default=0.0, metadata={"help": "on the recurrent matrices (DropConnect; Merity et al. 2017)"}
    )
    locked_dropout: bool = field(
        default=False, metadata={"help": "one dropout mask for all steps of a window (Gal and Ghahramani 2016)"}
    )

    def __post_init__(self) -> None:
        problems = [
            f"{name} must be a whole number of at least 1, not {getattr(self, name)!r}"
            for name in ("vocabulary", "hidden", "layers")
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 1
        ]
        if self.cell not in FUSED:
            problems.append(f"cell must be one of {', '.join(FUSED)}, not {self.cell!r}")
        if not isinstance(self.embedding, int) or self.embedding < 0:
            problems.append(f"embedding must be 0 (one-hot) or a width, not {self.embedding!r}")
        problems += [
            f"{name} must lie in [0, 1), not {rate}"
            for name in ("dropout", "embedding_dropout", "recurrent_dropout")
            if (rate := getattr(self, name)) is not None and not 0 <= rate < 1
        ]
        if problems:
            raise ValueError("; ".join(problems) + ".")


class RecurrentLanguageModel(nn.Module):
    """Predicts the next token from the tokens so far."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.embedding) if config.embedding else None
        self.recurrent = FUSED[config.cell](
            config.embedding or config.vocabulary,
            config.hidden,
            config.layers,
            batch_first=True,
            dropout=config.dropout if config.layers > 1 else 0.0,
        )
        if not config.recurrent_bias:
            for layer in range(config.layers):
                bias = self.parameters_of(layer)[3]
                nn.init.zeros_(bias).requires_grad_(False)
        self.output = nn.Linear(config.hidden, config.vocabulary)

    def parameters_of(self, layer: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Input weight [G·N, I], input bias, recurrent weight [G·N, N], recurrent bias."""
        named = dict(self.recurrent.named_parameters())
        names = ("weight_ih_l", "bias_ih_l", "weight_hh_l", "bias_hh_l")
        a, b, c, d = (named[f"{name}{layer}"] for name in names)
        return a, b, c, d

    def zeros(self, rows: int) -> RecurrentState:
        shape = (self.config.layers, rows, self.config.hidden)
        return RecurrentState(self.output.weight.new_zeros(shape), self.output.weight.new_zeros(shape))

    @property
    def kernels(self) -> str:
        """Those that train it in fp32, down to their version: others add in another order. "": PyTorch's."""
        ours = self.config.cell == "gru" and self.embedding is not None
        return build.name_of(gru_scan.kernels(self.output.weight) if ours else None)

    def forward(self, tokens: Tensor, state: RecurrentState | None = None) -> tuple[Tensor, RecurrentState]:
        """tokens [B, T] from `state` (None: zeros) -> logits [B, T, V] of what comes next, and the state after."""
        state = state or self.zeros(len(tokens))
        features, state = self.fused(tokens, state) if self.embedding is not None else self.scan(tokens, state)
        return self.output(self.dropped(features)), state

    def dropped(self, features: Tensor) -> Tensor:
        """features [B, T, N] between layers or before the output."""
        return dropped(features, self.config.dropout, locked=self.config.locked_dropout, training=self.training)

    def recurrent_weight(self, layer: int) -> Tensor:
        """[G·N, N], in training with a fresh mask over its weights."""
        return F.dropout(self.parameters_of(layer)[2], self.config.recurrent_dropout, self.training)

    def inputs(self, tokens: Tensor) -> Tensor:
        """What the first layer reads, [B, T, E]."""
        if self.embedding is None:
            return F.one_hot(tokens, self.config.vocabulary).to(self.output.weight.dtype)
        config = self.config
        rate = config.dropout if config.embedding_dropout is None else config.embedding_dropout
        return dropped(self.embedding(tokens), rate, locked=config.locked_dropout, training=self.training)

    def fused(self, tokens: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """Kernels over whole sequences: [B, T] -> features [B, T, N]. PyTorch's of all layers at once know neither
        locked masks nor masked weights."""
        config = self.config
        regularised = self.training and (config.locked_dropout or config.recurrent_dropout > 0)
        if not regularised and (config.cell != "gru" or gru_scan.kernels(self.output.weight) is None):
            features, last = self.recurrent(self.inputs(tokens), self._packed(state))
            return features, self._unpacked(last)
        features, hidden, memory = self.inputs(tokens), [], []
        for number in range(config.layers):
            weight, bias, _, recurrent_bias = self.parameters_of(number)
            weights = weight, bias, self.recurrent_weight(number), recurrent_bias
            features = self.dropped(features) if number else features
            features, h, c = fused_layer(config.cell, features, state.hidden[number], state.memory[number], weights)
            hidden.append(h)
            memory.append(c)
        return features, RecurrentState(torch.stack(hidden), torch.stack(memory))

    def _packed(self, state: RecurrentState) -> Tensor | tuple[Tensor, Tensor]:
        return (state.hidden, state.memory) if self.config.cell == "lstm" else state.hidden

    def _unpacked(self, last: Tensor | tuple[Tensor, Tensor]) -> RecurrentState:
        return RecurrentState(last, last) if isinstance(last, Tensor) else RecurrentState(*last)

    def scan(self, tokens: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """The same function as `fused`, one cell step after another: [B, T] -> features [B, T, N]."""
        features, hidden, memory = None, [], []
        for layer in range(self.config.layers):
            projected = self._project(layer, tokens, features)
            weight, bias = self.recurrent_weight(layer), self.parameters_of(layer)[3]
            h, c, outputs = state.hidden[layer], state.memory[layer], []
            for inputs in projected.unbind(1):
                h, c, _ = cells.step(self.config.cell, inputs, h, c, weight, bias)
                outputs.append(h)
            features = torch.stack(outputs, dim=1)
            hidden.append(h)
            memory.append(c)
            if layer + 1 < self.config.layers:
                features = self.dropped(features)
        assert features is not None
        return features, RecurrentState(torch.stack(hidden), torch.stack(memory))

    def _project(self, layer: int, tokens: Tensor, features: Tensor | None) -> Tensor:
        """What the input contributes to a layer's gates, [..., G·N]; for one-hot input the look-up."""
        weight, bias = self.parameters_of(layer)[:2]
        if layer > 0:
            assert features is not None
            return F.linear(features, weight, bias)
        if self.embedding is None:
            return F.embedding(tokens, weight.t()) + bias
        return F.linear(self.inputs(tokens), weight, bias)

    def features(self, source: Tensor, target: Tensor) -> Tensor:
        """As `models.interface.TeacherForced` says; there is no source to read."""
        state = self.zeros(len(target))
        return (self.fused(target, state) if self.embedding is not None else self.scan(target, state))[0]

    def project(self, features: Tensor) -> Tensor:
        """[..., N] -> logits [..., V]."""
        return self.output(features)  # type: ignore[no-any-return]

    @property
    def gate_shape(self) -> GateShape:
        return GateShape(self.config.cell, self.config.layers, self.config.hidden)

    @torch.inference_mode()
    def gates(self, tokens: Tensor) -> dict[str, Tensor]:
        """As `models.inspection.gate_traces.Gated` says, one cell step after another: tokens [T] -> name -> [L, T,
        N]."""
        assert not self.training, "dropout would show"
        state, features, layers = self.zeros(1), None, []
        for layer in range(self.config.layers):
            h, c = state.hidden[layer], state.memory[layer]
            weight, bias = self.parameters_of(layer)[2:]
            steps = []
            for inputs in self._project(layer, tokens[None], features).unbind(1):
                h, c, gates = cells.step(self.config.cell, inputs, h, c, weight, bias)
                steps.append({**gates, "c": c, "h": h})
            names = [*cells.GATES[self.config.cell], *(["c"] if self.config.cell == "lstm" else []), "h"]
            layers.append({name: torch.cat([step[name] for step in steps]) for name in names})
            features = layers[-1]["h"][None]
        return {name: torch.stack([layer[name] for layer in layers]) for name in layers[0]}

    @property
    def device(self) -> torch.device:
        return self.output.weight.device

    def decodable(self, precision: Precision = "fp32") -> Decodable:
        """As `models.interface.Network` says."""
        network, make = prepared(self, precision)
        library = build.fp32_library() if precision == "fp32" and self.device.type == "cpu" else None
        return EagerRecurrent(network, make) if library is None else NativeRecurrent(network, library)
