"""The recurrent language model: embeddings or one-hot characters, layers of a cell (`models.networks.cells`), output.

`RecurrentLanguageModel.run` is the network: layer by layer, over a sequence of any length. Decoding runs it over one
token; inspection records the gates of each step. PyTorch's kernels, and ours for GRUs on CPUs
(`models.backends.native.gru_scan`), replace only `scan`, and only if the cell is exactly theirs. To change the network,
edit this file; to change or add a cell, edit `cells.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.exactness import as_written, clause, difference, edits, is_known, is_unreadable, remember
from models.networks import cells, option, rate_problems, size_problems
from models.networks.cells import CELLS, CellKind, Step

FUSED: dict[str, type[nn.RNN] | type[nn.GRU] | type[nn.LSTM]] = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
FUSED_GATES = {"rnn": 1, "gru": 3, "lstm": 4}  # PyTorch's weights have N rows for each
OPERATORS: dict[str, Callable[..., tuple[Tensor, ...]]] = {"rnn": torch.rnn_tanh, "gru": torch.gru, "lstm": torch.lstm}
LayerScan = Callable[[int, Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]
"""The number of a layer, what it reads and its state [B, N] twice -> its outputs [B, T, N] and the state after."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurrentConfig:
    """embedding 0: one-hot characters, computed as a row look-up of the input matrix. Dropout acts in training only."""

    vocabulary: int
    cell: CellKind = "gru"
    embedding: int = option(128, "width of the character embedding; 0: one-hot characters")
    hidden: int = option(256, "width of the hidden state")
    layers: int = 1
    recurrent_bias: bool = option(True, "the second of PyTorch's two bias vectors, which the formulae do without")
    dropout: float = option(0.0, "between layers, before the output and, unless that has its own, on the embedding")
    embedding_dropout: float | None = option(None, "on the embedding; none: dropout")
    recurrent_dropout: float = option(0.0, "on the recurrent matrices (DropConnect; Merity et al. 2017)")
    locked_dropout: bool = option(False, "one dropout mask for all steps of a window (Gal and Ghahramani 2016)")

    def __post_init__(self) -> None:
        problems = [*size_problems(self, ("vocabulary", "hidden", "layers"))]
        if self.cell not in CELLS:
            problems.append(f"cell must be one of {', '.join(CELLS)}, not {self.cell!r}")
        elif self.cell in FUSED and len(CELLS[self.cell].gates) != FUSED_GATES[self.cell]:
            fixed, gates = FUSED_GATES[self.cell], CELLS[self.cell].gates
            problems.append(
                f"cell {self.cell} has {len(gates)} gates in CELLS ({', '.join(gates)}), and its weights are those"
                f" of PyTorch's layer, which has {fixed}: give a cell with other gates a name of its own in CELLS"
            )
        if not isinstance(self.embedding, int) or self.embedding < 0:
            problems.append(f"embedding must be 0 (one-hot) or a width, not {self.embedding!r}")
        rates = ("dropout", "embedding_dropout", "recurrent_dropout")
        problems += rate_problems(self, (name for name in rates if getattr(self, name) is not None))
        if problems:
            raise ValueError("; ".join(problems) + ".")


@dataclass(slots=True)
class RecurrentState:
    """hidden and memory [L, B, N]; memory is the LSTM's c, otherwise the hidden state again or unused."""

    hidden: Tensor
    memory: Tensor


class RecurrentCell(nn.Module):
    """One step of a layer. The weights are in `RecurrentLanguageModel.recurrent`, under PyTorch's names."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, projected: Tensor, hidden: Tensor, memory: Tensor, weight: Tensor, bias: Tensor | None) -> Step:
        """projected [B, G·N]: the input's contribution. weight [G·N, N] and bias act on the hidden state [B, N]."""
        return CELLS[self.kind].step(projected, F.linear(hidden, weight, bias), hidden, memory)


class RecurrentWeights(nn.Module):
    """The weights of a cell that PyTorch lacks, named and initialised as PyTorch does."""

    def __init__(self, gates: int, config: RecurrentConfig) -> None:
        super().__init__()
        rows, width = gates * config.hidden, config.hidden
        for layer in range(config.layers):
            inputs = width if layer else config.embedding or config.vocabulary
            for name, shape in (("ih", (rows, inputs)), ("hh", (rows, width))):
                self.register_parameter(f"weight_{name}_l{layer}", nn.Parameter(torch.empty(shape)))
            for name in ("ih", "hh"):
                self.register_parameter(f"bias_{name}_l{layer}", nn.Parameter(torch.empty(rows)))
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(width**-0.5), width**-0.5)


class RecurrentLanguageModel(nn.Module):
    """A recurrent language model: predicts the next token from the previous ones."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.embedding) if config.embedding else None
        self.recurrent = (
            FUSED[config.cell](
                config.embedding or config.vocabulary,
                config.hidden,
                config.layers,
                batch_first=True,
                dropout=config.dropout if config.layers > 1 else 0.0,
            )
            if config.cell in FUSED
            else RecurrentWeights(len(CELLS[config.cell].gates), config)
        )
        if not config.recurrent_bias:
            for layer in range(config.layers):
                bias = self.parameters_of(layer)[3]
                nn.init.zeros_(bias).requires_grad_(False)
        self.output = nn.Linear(config.hidden, config.vocabulary)
        self.cells = nn.ModuleList(RecurrentCell(config.cell) for _ in range(config.layers))

    def parameters_of(self, layer: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Input weight [G·N, I], input bias, recurrent weight [G·N, N], recurrent bias."""
        names = ("weight_ih_l", "bias_ih_l", "weight_hh_l", "bias_hh_l")
        a, b, c, d = (getattr(self.recurrent, f"{name}{layer}") for name in names)  # may be parametrized
        return a, b, c, d

    def zeros(self, rows: int) -> RecurrentState:
        shape = (self.config.layers, rows, self.config.hidden)
        weight = next(self.parameters())
        return RecurrentState(weight.new_zeros(shape), weight.new_zeros(shape))

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def forward(
        self, tokens: Tensor, state: RecurrentState | None = None, scan: LayerScan | None = None
    ) -> tuple[Tensor, RecurrentState]:
        """tokens [B, T], state (None: zeros) -> next-token logits [B, T, V], final state. scan: see `sequence`."""
        features, state = self.sequence(tokens, state or self.zeros(len(tokens)), scan)
        return self.project(self.dropped(features)), state

    def sequence(
        self, tokens: Tensor, state: RecurrentState, scan: LayerScan | None = None
    ) -> tuple[Tensor, RecurrentState]:
        """`run` on the fastest kernels: tokens [B, T] -> features [B, T, N]. scan: the caller's kernels for one layer;
        None: PyTorch's, if they compute this network and T > 1. PyTorch's kernels for all layers at once support
        neither locked nor recurrent dropout."""
        if scan is None and tokens.size(1) > 1 and self.embedding is not None and cell_difference(self) is None:
            if not (self.training and (self.config.locked_dropout or self.config.recurrent_dropout > 0)):
                return self._all_layers(self.inputs(tokens), state)
            scan = self.fused_layer
        return self.run(tokens, state, scan or self.scan)

    def run(self, tokens: Tensor, state: RecurrentState, scan: LayerScan) -> tuple[Tensor, RecurrentState]:
        """The network: tokens [B, T] -> features [B, T, N]."""
        features, hidden, memory = self.inputs(tokens), [], []
        for number in range(self.config.layers):
            if number:
                features = self.dropped(features)
            features, h, c = scan(number, features, state.hidden[number], state.memory[number])
            hidden.append(h)
            memory.append(c)
        return features, RecurrentState(torch.stack(hidden), torch.stack(memory))

    def inputs(self, tokens: Tensor) -> Tensor:
        """The first layer's input: embeddings [B, T, E], or for one-hot input the tokens themselves."""
        config = self.config
        if self.embedding is None:
            return tokens
        rate = config.dropout if config.embedding_dropout is None else config.embedding_dropout
        return dropped(self.embedding(tokens), rate, locked=config.locked_dropout, training=self.training)

    def dropped(self, features: Tensor) -> Tensor:
        """Dropout of features [B, T, N] between layers or before the output."""
        return dropped(features, self.config.dropout, locked=self.config.locked_dropout, training=self.training)

    def scan(
        self,
        number: int,
        features: Tensor,
        h: Tensor,
        c: Tensor,
        watch: Callable[[int, Step], object] | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One layer, step by step. features: [B, T, I], or one-hot tokens [B, T]. watch: called with layer and step."""
        projected, outputs = self.project_inputs(number, features), []
        weight, bias = self.recurrent_weight(number), self.parameters_of(number)[3]
        for inputs in projected.unbind(1):
            step = self.cells[number](inputs, h, c, weight, bias)
            h, c = step.hidden, step.memory
            outputs.append(h)
            if watch is not None:
                watch(number, step)
        return torch.stack(outputs, dim=1), h, c

    def project_inputs(self, number: int, features: Tensor) -> Tensor:
        """The input's contribution to a layer's gates, [B, T, G·N]; a look-up for one-hot input."""
        weight, bias = self.parameters_of(number)[:2]
        if number == 0 and self.embedding is None:
            return F.embedding(features, weight.t()) + bias
        return F.linear(features, weight, bias)

    def recurrent_weight(self, layer: int) -> Tensor:
        """[G·N, N], with a new DropConnect mask in training."""
        return F.dropout(self.parameters_of(layer)[2], self.config.recurrent_dropout, self.training)

    def fused_layer(self, number: int, features: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """`scan` on PyTorch's kernels."""
        weight, bias, _, recurrent_bias = self.parameters_of(number)
        parameters = [weight, self.recurrent_weight(number), bias, recurrent_bias]
        state = (h[None], c[None]) if self.config.cell == "lstm" else h[None]
        options = {"has_biases": True, "num_layers": 1, "dropout": 0.0, "train": True, "bidirectional": False}
        features, *last = OPERATORS[self.config.cell](features, state, parameters, **options, batch_first=True)
        return features, last[0][0], last[-1][0]

    def _all_layers(self, inputs: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """`run` on PyTorch's kernels, which apply the dropout between layers."""
        if self.config.cell == "lstm":
            features, (hidden, memory) = self.recurrent(inputs, (state.hidden, state.memory))
        else:
            features, hidden = self.recurrent(inputs, state.hidden)
            memory = hidden
        return features, RecurrentState(hidden, memory)

    def features(self, source: Tensor, target: Tensor) -> Tensor:
        """See `models.interface.TeacherForced`; the source is ignored."""
        return self.dropped(self.sequence(target, self.zeros(len(target)))[0])

    def project(self, features: Tensor) -> Tensor:
        """[..., N] -> logits [..., V]."""
        return self.output(features)  # type: ignore[no-any-return]

    @torch.inference_mode()
    def gates(self, tokens: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        """tokens [T], from a zero state -> name -> [L, T, N] after each token, named as the cell's `shown`; and the
        features [T, N] that feed the output projection."""
        assert not self.training, "dropout would show"
        steps: list[list[dict[str, Tensor]]] = [[] for _ in range(self.config.layers)]

        def watch(number: int, step: Step) -> None:
            steps[number].append({**step.gates, "c": step.memory, "h": step.hidden})

        features, _ = self.run(tokens[None], self.zeros(1), lambda number, x, h, c: self.scan(number, x, h, c, watch))
        names = CELLS[self.config.cell].shown
        shown = {name: torch.stack([torch.cat([step[name] for step in layer]) for layer in steps]) for name in names}
        return shown, self.dropped(features)[0]


def dropped(features: Tensor, rate: float, *, locked: bool, training: bool) -> Tensor:
    """Dropout of features [B, T, N]; locked: one mask for all T steps of a row (Gal and Ghahramani 2016)."""
    if not locked or not training or not rate:
        return F.dropout(features, rate, training)
    rows, _, width = features.shape
    mask = features.new_empty(rows, 1, width).bernoulli_(1 - rate)
    return features * mask.div_(1 - rate)


def edits_of_cell(kind: str) -> list[str]:
    """The definitions of a cell of `cells.py` that are not those that the kernels compute."""
    own = [label for label in edits(cells.__name__) if label.partition(".")[0] in (kind, "Step")]
    return own if CELLS[kind].step is getattr(cells, kind, None) else [*own, kind]


LAYERS = ("run", "scan", "project_inputs", "recurrent_weight", "dropped", "parameters_of")


def cell_difference(network: RecurrentLanguageModel) -> str | None:
    """Why kernels for PyTorch's three cells cannot compute the network's layers; None if they can."""
    kind = network.config.cell
    if kind not in FUSED:
        return f"its cell is {kind}"
    if is_unreadable(cells.__name__):
        return clause(cells.__name__)
    if edits_of_cell(kind):
        return f"the cell {kind} was edited"
    if not is_known(network, *LAYERS):
        edited = next((name for name in LAYERS if not is_known(network, name)), LAYERS[0])
        return f"RecurrentLanguageModel.{edited} was edited"
    plain = as_written(network, RecurrentLanguageModel)
    for part in ("cells", "recurrent"):
        if changed := difference(network.get_submodule(part), plain.get_submodule(part), part):
            return changed
    mode = network.recurrent.mode
    return None if mode == ("RNN_TANH" if kind == "rnn" else kind.upper()) else f"recurrent is a {mode}"


remember(cells.__name__)
remember(__name__)
