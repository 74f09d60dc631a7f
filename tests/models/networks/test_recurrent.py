"""RNN, GRU and LSTM: three paths that are one function, and the formulae they stand for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from models.backends import select
from models.networks import cells
from models.networks.recurrent import FUSED, RecurrentConfig, RecurrentLanguageModel, RecurrentState
from tests.models import tiny

EACH_CELL = pytest.mark.parametrize("cell", tiny.ALL_CELLS)
EACH_FUSED_CELL = pytest.mark.parametrize("cell", tiny.FUSED_CELLS)
EMBEDDINGS = pytest.mark.parametrize("embedding", [0, 6], ids=["one-hot", "embedded"])
LAYERS = pytest.mark.parametrize("layers", [1, 2])
TOLERANCE = {"rtol": 0, "atol": 1e-5}


def a_state(network: RecurrentLanguageModel, rows: int, seed: int = 5) -> RecurrentState:
    generator = torch.Generator().manual_seed(seed)
    shape = network.zeros(rows).hidden.shape
    return RecurrentState(torch.randn(shape, generator=generator).tanh(), torch.randn(shape, generator=generator))


def same_state(network: RecurrentLanguageModel, a: RecurrentState, b: RecurrentState) -> None:
    torch.testing.assert_close(a.hidden, b.hidden, **TOLERANCE)
    if cells.CELLS[network.config.cell].remembers:
        torch.testing.assert_close(a.memory, b.memory, **TOLERANCE)


def test_config_error_lists_all_problems() -> None:
    with pytest.raises(ValueError) as excinfo:
        RecurrentConfig(vocabulary=0, cell="qrnn", embedding=-1, hidden=1.5, layers="2", dropout=1.0)  # type: ignore[arg-type]
    assert str(excinfo.value) == (
        "vocabulary must be a whole number of at least 1, not 0; "
        "hidden must be a whole number of at least 1, not 1.5; "
        "layers must be a whole number of at least 1, not '2'; "
        f"cell must be one of {', '.join(tiny.ALL_CELLS)}, not 'qrnn'; "
        "embedding must be 0 (one-hot) or a width, not -1; "
        "dropout must lie in [0, 1), not 1.0."
    )


def test_another_gate_of_pytorchs_cells_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    gru = cells.CELLS["gru"]
    monkeypatch.setitem(cells.CELLS, "gru", replace(gru, gates={**gru.gates, "s": cells.SIGMOID}))
    with pytest.raises(ValueError) as excinfo:
        RecurrentConfig(vocabulary=9)
    assert str(excinfo.value) == (
        "cell gru has 4 gates in CELLS (r, z, n, s), and its weights are those of PyTorch's layer, which has 3:"
        " give a cell with other gates a name of its own in CELLS."
    )
    monkeypatch.setitem(cells.CELLS, "wider", cells.CELLS["gru"])
    assert RecurrentLanguageModel(RecurrentConfig(vocabulary=9, cell="wider")).parameters_of(0)[2].shape == (1024, 256)


@EACH_FUSED_CELL
def test_pytorchs_cells_have_the_gates_of_its_layers(cell: str) -> None:
    network = RecurrentLanguageModel(RecurrentConfig(vocabulary=9, cell=cell, hidden=5))
    assert len(network.parameters_of(0)[2]) == 5 * len(cells.CELLS[cell].gates)


# Formulae -----------------------------------------------------------------------------------------------


def sigmoid(x: Tensor) -> Tensor:
    return 1 / (1 + torch.exp(-x))


def by_hand(
    cell: str, x: Tensor, h: Tensor, c: Tensor, W: Tensor, U: Tensor, b: Tensor, d: Tensor
) -> dict[str, Tensor]:
    """Every quantity of one step, gate by gate: x·W + b from the input, h·U + d from the hidden state."""
    n = h.size(-1)

    def of(gate: int) -> tuple[Tensor, Tensor]:
        rows = slice(gate * n, (gate + 1) * n)
        return x @ W[rows].T + b[rows], h @ U[rows].T + d[rows]

    if cell == "rnn":
        new = torch.tanh(sum(of(0), torch.zeros(())))
        return {"n": new, "h": new}
    if cell == "gru":
        r, z = sigmoid(sum(of(0), torch.zeros(()))), sigmoid(sum(of(1), torch.zeros(())))
        from_input, from_hidden = of(2)
        new = torch.tanh(from_input + r * from_hidden)
        return {"r": r, "z": z, "n": new, "h": (1 - z) * new + z * h}
    i, f, o = (sigmoid(sum(of(gate), torch.zeros(()))) for gate in (0, 1, 3))
    g = torch.tanh(sum(of(2), torch.zeros(())))
    memory = f * c + i * g
    return {"i": i, "f": f, "g": g, "o": o, "c": memory, "h": o * torch.tanh(memory)}


@EACH_FUSED_CELL
def test_cells_equal_the_formulas(cell: Any) -> None:
    torch.manual_seed(1)
    size = len(cells.CELLS[cell].gates) * 5
    x, h, c = torch.randn(3, 4), torch.randn(3, 5), torch.randn(3, 5)
    W, U, b, d = torch.randn(size, 4), torch.randn(size, 5), torch.randn(size), torch.randn(size)
    expected = by_hand(cell, x, h, c, W, U, b, d)
    result = cells.CELLS[cell].step(F.linear(x, W, b), F.linear(h, U, d), h, c)
    torch.testing.assert_close(result.hidden, expected["h"], rtol=0, atol=2e-6)
    torch.testing.assert_close(result.memory, expected.get("c", expected["h"]), rtol=0, atol=2e-6)
    assert tuple(result.gates) == tuple(cells.CELLS[cell].gates)
    for name, gate in result.gates.items():
        torch.testing.assert_close(gate, expected[name], rtol=0, atol=2e-6)


def test_update_gate_of_1_keeps_the_state() -> None:
    bias = torch.tensor([0.0, 0.0, 60.0, 60.0, 0.0, 0.0])  # r, z, n
    hidden = torch.tensor([[0.25, -0.5]])
    kept = cells.gru(torch.ones(1, 6), bias[None], hidden, hidden)
    assert torch.equal(kept.hidden, hidden)
    replaced = cells.gru(torch.ones(1, 6), -bias[None], hidden, hidden)
    assert torch.equal(replaced.hidden, torch.ones(1, 2).tanh())


def test_lstm_gate_order() -> None:
    """i, f, g, o: forget nothing, let nothing in."""
    bias = torch.tensor([-60.0, 60.0, 3.0, 60.0])
    result = cells.lstm(torch.zeros(1, 4), bias[None], torch.zeros(1, 1), torch.tensor([[0.7]]))
    assert result.memory.item() == pytest.approx(0.7, abs=1e-7)
    assert result.hidden.item() == pytest.approx(torch.tensor(0.7).tanh().item(), abs=1e-7)


# Three paths --------------------------------------------------------------------------------------------


@pytest.mark.every_value
@LAYERS
@EMBEDDINGS
@EACH_CELL
@torch.no_grad()
def test_fused_scan_and_step_agree(cell: str, embedding: int, layers: int) -> None:
    network = tiny.recurrent(cell=cell, embedding=embedding, layers=layers)
    tokens, begin = tiny.ids((4, 12), 2, high=tiny.TARGET), a_state(network, 4)
    fused, after_fused = network.sequence(tokens, begin)
    scan, after_scan = network.run(tokens, begin, network.scan)
    torch.testing.assert_close(scan, fused, **TOLERANCE)
    same_state(network, after_scan, after_fused)
    logits, after = network(tokens, begin)
    decodable = select.decodable(network)
    stepping = RecurrentState(begin.hidden.clone(), begin.memory.clone())
    for number in range(12):
        result = decodable.step(stepping, tokens[:, number])
        torch.testing.assert_close(result, logits[:, number], **TOLERANCE)
    same_state(network, stepping, after)
    assert logits.std() > 0.1


@EACH_FUSED_CELL
@torch.no_grad()
def test_one_hot_input_equals_pytorch(cell: str) -> None:
    network = tiny.recurrent(cell=cell, embedding=0)
    theirs = FUSED[cell](tiny.TARGET, 10, 2, batch_first=True)  # type: ignore[index]
    theirs.load_state_dict(network.recurrent.state_dict())
    tokens = tiny.ids((3, 9), 4, high=tiny.TARGET)
    expected, _ = theirs(F.one_hot(tokens, tiny.TARGET).float())
    result, _ = network.run(tokens, network.zeros(3), network.scan)
    torch.testing.assert_close(result, expected, **TOLERANCE)
    torch.testing.assert_close(network(tokens)[0], network.output(expected), **TOLERANCE)


@EACH_CELL
@torch.no_grad()
def test_state_continues_a_text(cell: str) -> None:
    network = tiny.recurrent(cell=cell)
    tokens = tiny.ids((2, 10), 4)
    whole, last = network(tokens)
    first, state = network(tokens[:, :4])
    second, end = network(tokens[:, 4:], state)
    torch.testing.assert_close(torch.cat([first, second], dim=1), whole, **TOLERANCE)
    same_state(network, end, last)


@EMBEDDINGS
@EACH_CELL
def test_scan_gradients_equal_fused_gradients(cell: str, embedding: int) -> None:
    network = tiny.recurrent(cell=cell, embedding=embedding)
    tokens, gradients = tiny.ids((3, 7), 6), []
    for scan in (None, network.scan):
        network.zero_grad()
        features, _ = network.sequence(tokens, a_state(network, 3), scan)
        (network.output(features).log_softmax(dim=-1)[..., 3].sum()).backward()
        gradients.append({name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None})
    assert len(gradients[0]) == len(list(network.parameters()))
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, rtol=1e-5, atol=2e-5, msg=name)


@EACH_CELL
def test_absent_recurrent_bias_stays_0(cell: str) -> None:
    torch.manual_seed(0)
    network = RecurrentLanguageModel(
        RecurrentConfig(vocabulary=9, cell=cell, embedding=4, hidden=5, layers=2, recurrent_bias=False)  # type: ignore[arg-type]
    )
    biases = [p for name, p in network.named_parameters() if "bias_hh" in name]
    assert len(biases) == 2
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.1, weight_decay=0.1)
    before = network.output.weight.clone()
    for _ in range(3):
        optimizer.zero_grad()
        network(tiny.ids((2, 6), 1, high=9))[0].logsumexp(dim=-1).sum().backward()
        optimizer.step()
    assert all((bias == 0).all() and not bias.requires_grad for bias in biases)
    assert not torch.equal(before, network.output.weight)


def test_dropout_is_active_in_training_only() -> None:
    network = tiny.recurrent(dropout=0.5)
    tokens = tiny.ids((2, 6), 1)
    assert torch.equal(network(tokens)[0], network(tokens)[0])
    network.train()
    assert not torch.equal(network(tokens)[0], network(tokens)[0])
