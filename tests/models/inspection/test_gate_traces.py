"""Gates of a text: against PyTorch's own cells, the formulae and the cells that serve; units and summaries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from models.backends import select
from models.inspection.gate_traces import gate_trace
from models.inspection.selection import GateSelection, SelectionError
from models.interface import Prompt
from models.networks.cells import CELLS, Step, gru
from models.networks.recurrent import RecurrentLanguageModel
from tests.models import tiny
from tests.models.networks.test_recurrent import EACH_CELL, EACH_FUSED_CELL, EMBEDDINGS

pytestmark = pytest.mark.usefixtures("kernels")
TOKENS = (3, 9, 4, 4, 12, 7, 1, 18, 2, 9, 15)
LAYERS = pytest.mark.parametrize("layers", [1, 3])
ALL = GateSelection(units=10)
EXACT = {"rtol": 0, "atol": 1e-6}


def loud(**options: Any) -> RecurrentLanguageModel:
    """Weights so large that many gates are near their ends."""
    network = tiny.recurrent(**options)
    with torch.no_grad():
        for parameter in network.recurrent.parameters():
            parameter.mul_(4)
    return network


def first_inputs(network: RecurrentLanguageModel) -> Tensor:
    """What PyTorch's first layer reads, [1, T, E]; the network itself looks one-hot tokens up."""
    inputs = network.inputs(torch.tensor([TOKENS]))
    return inputs if network.embedding is not None else F.one_hot(inputs, network.config.vocabulary).float()


def in_order(network: RecurrentLanguageModel, **selection: Any) -> Any:
    """All units by their numbers."""
    return gate_trace(network, TOKENS, GateSelection(units=tuple(range(network.config.hidden)), **selection))


def test_gate_names_of_each_cell() -> None:
    for kind, cell in CELLS.items():
        states = {"lstm": ("c", "h")}.get(kind, ("h",))
        assert tuple(cell.shown) == (*cell.gates, *states)


@pytest.mark.every_value
@EACH_FUSED_CELL
@EMBEDDINGS
@LAYERS
def test_states_equal_pytorch(cell: str, embedding: int, layers: int) -> None:
    network = loud(cell=cell, embedding=embedding, layers=layers)
    result = in_order(network)
    with torch.inference_mode():
        outputs, last = network.recurrent(first_inputs(network))
    hidden, memory = last if cell == "lstm" else (last, None)
    torch.testing.assert_close(result.values["h"][-1], outputs[0], **EXACT)
    torch.testing.assert_close(result.values["h"][:, -1], hidden[:, 0], **EXACT)
    if memory is not None:
        torch.testing.assert_close(result.values["c"][:, -1], memory[:, 0], rtol=0, atol=2e-6)
    torch.testing.assert_close(result.features, outputs[0], **EXACT)


@pytest.mark.parametrize("layer", [0, 1, 2])
@EMBEDDINGS
def test_gru_gates_equal_the_formulas(embedding: int, layer: int) -> None:
    """h' = (1 - z) n + z h, so that z = 1 keeps; every gate from PyTorch's states and weights alone."""
    network = loud(cell="gru", embedding=embedding, layers=3)
    result = {name: value[layer].double() for name, value in in_order(network).values.items()}
    inputs = first_inputs(network)[0] if layer == 0 else in_order(network).values["h"][layer - 1]
    w, b, u, d = (parameter.detach().double() for parameter in network.parameters_of(layer))
    before = torch.cat([torch.zeros(1, 10, dtype=torch.float64), result["h"][:-1]])
    x, y = inputs.detach().double() @ w.T + b, before @ u.T + d
    r, z = torch.sigmoid(x[:, :10] + y[:, :10]), torch.sigmoid(x[:, 10:20] + y[:, 10:20])
    n = torch.tanh(x[:, 20:] + r * y[:, 20:])
    for name, expected in {"r": r, "z": z, "n": n, "h": (1 - z) * n + z * before}.items():
        torch.testing.assert_close(result[name], expected, rtol=0, atol=2e-6)
    assert (z > 0.9).any()
    assert (z < 0.1).any()


@LAYERS
def test_lstm_gates_equal_the_formulas(layers: int) -> None:
    network = loud(cell="lstm", embedding=0, layers=layers)
    result = {name: value[0].double() for name, value in in_order(network).values.items()}
    w, b, u, d = (parameter.detach().double() for parameter in network.parameters_of(0))
    zero = torch.zeros(1, 10, dtype=torch.float64)
    h, c = torch.cat([zero, result["h"][:-1]]), torch.cat([zero, result["c"][:-1]])
    i, f, g, o = (w.T[list(TOKENS)] + b + h @ u.T + d).chunk(4, dim=1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    for name, expected in {"i": i, "f": f, "g": g, "o": o, "c": f * c + i * g}.items():
        torch.testing.assert_close(result[name], expected, rtol=0, atol=2e-6)
    torch.testing.assert_close(result["h"], o * result["c"].tanh(), rtol=0, atol=2e-6)


@pytest.mark.every_value
@EACH_CELL
@EMBEDDINGS
@LAYERS
def test_states_equal_served_states(cell: str, embedding: int, layers: int) -> None:
    network = loud(cell=cell, embedding=embedding, layers=layers)
    result, decodable = in_order(network), select.decodable(network)
    state = decodable.allocate(2, 1, len(TOKENS))
    decodable.prefill(state, [0, 1], [Prompt((), (TOKENS[0],)), Prompt((), (5, 6))])
    with torch.inference_mode():
        expected = network.project(result.features)
    for place, token in enumerate(TOKENS):
        logits = decodable.step(state, torch.tensor([token, 7]))[0, : network.config.vocabulary]
        torch.testing.assert_close(state.hidden[:, 0], result.values["h"][:, place], rtol=0, atol=1e-5)
        torch.testing.assert_close(logits, expected[place], rtol=0, atol=1e-5)


def test_the_most_varied_units_are_chosen_in_each_layer_by_their_states() -> None:
    network = loud(layers=2)
    whole = in_order(network)
    result = gate_trace(network, TOKENS, GateSelection(gates=("h", "z"), layers=(-1, 0), units=3))
    assert result.layers == (1, 0)
    assert list(result.values) == ["z", "h"]
    for place, layer in enumerate((1, 0)):
        variance = whole.values["h"][layer].double().var(dim=0, correction=0)
        chosen = list(result.units[place])
        assert variance[chosen].tolist() == sorted(variance.tolist(), reverse=True)[:3]
        for name in ("z", "h"):
            assert torch.equal(result.values[name][place], whole.values[name][layer][:, chosen])
    assert result.units[0] != result.units[1]


def test_chosen_units_come_in_the_order_in_which_they_were_chosen() -> None:
    network = loud(layers=2)
    result = gate_trace(network, TOKENS, GateSelection(units=(7, -1, 0, 7)))
    assert result.units == ((7, 9, 0), (7, 9, 0))
    assert torch.equal(result.values["r"], in_order(network).values["r"][:, :, [7, 9, 0]])
    assert len(gate_trace(network, TOKENS, GateSelection(units=64)).units[0]) == 10


def test_summaries_cover_all_units() -> None:
    network = loud(cell="lstm", layers=2)
    whole = in_order(network).values
    (result,) = gate_trace(network, TOKENS, GateSelection(gates=("f",), layers=(1,), units=1)).summaries
    assert list(result.mean) == ["i", "f", "g", "o", "c", "h"]
    assert list(result.low) == list(result.high) == ["i", "f", "g", "o", "h"]  # c has no bounds
    for name in result.mean:
        torch.testing.assert_close(torch.tensor(result.mean[name]), whole[name][1].mean(dim=1))
    for t in range(len(TOKENS)):
        forgets, writes, hidden = (whole[name][1, t].tolist() for name in ("f", "g", "h"))
        assert result.low["f"][t] == pytest.approx(sum(value < 0.1 for value in forgets) / 10)
        assert result.high["f"][t] == pytest.approx(sum(value > 0.9 for value in forgets) / 10)
        assert result.low["g"][t] == pytest.approx(sum(value < -0.9 for value in writes) / 10)
        before = whole["h"][1, t - 1].tolist() if t else [0.0] * 10
        change = sum(abs(a - b) for a, b in zip(hidden, before, strict=True)) / 10
        assert result.hidden_change[t] == pytest.approx(change, abs=1e-6)
    assert max(result.high["f"]) > 0
    assert max(result.low["g"]) > 0


def test_gate_that_leaves_the_bounds_of_its_cell_has_no_shares_at_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """As an edited formula may, where the entry in CELLS still has the old bounds; with others it has them."""

    def doubled(projected: Tensor, recurrent: Tensor, hidden: Tensor, memory: Tensor) -> Step:
        step = gru(projected, recurrent, hidden, memory)
        return step._replace(gates={**step.gates, "z": 2 * step.gates["z"]})

    network, cell = loud(cell="gru"), CELLS["gru"]
    monkeypatch.setitem(CELLS, "gru", replace(cell, step=doubled))
    summary, *_ = gate_trace(network, TOKENS, GateSelection()).summaries
    assert list(summary.low) == list(summary.high) == ["r", "n", "h"]
    assert max(summary.mean["z"]) > 1
    monkeypatch.setitem(CELLS, "gru", replace(cell, step=doubled, gates={**cell.gates, "z": (0.0, 2.0)}))
    summary, *_ = gate_trace(network, TOKENS, GateSelection()).summaries
    assert list(summary.high) == ["r", "z", "n", "h"]


@pytest.mark.parametrize(
    ("selection", "field", "says"),
    [
        (
            GateSelection(gates=("r", "f")),
            "gates",
            "There is no gate f in this model: the gates of its gru are r, z, n, h.",
        ),
        (GateSelection(layers=(2,)), "layers", r"There is no layer 2: this model has 2 \(layers 0 to 1\)."),
        (GateSelection(units=(0, 10)), "units", r"There is no unit 10: this model has 10 \(units 0 to 9\)."),
    ],
)
def test_missing_layers_and_units_are_refused(selection: GateSelection, field: str, says: str) -> None:
    with pytest.raises(SelectionError, match=says) as excinfo:
        gate_trace(tiny.recurrent(), TOKENS, selection)
    assert excinfo.value.field == field


def test_trace_leaves_the_network_unchanged() -> None:
    network = loud()
    first, held = in_order(network), {name: set(vars(module)) for name, module in network.named_modules()}
    gate_trace(network, (5, 6), ALL)
    assert {name: set(vars(module)) for name, module in network.named_modules()} == held
    assert torch.equal(first.values["h"], in_order(network).values["h"])
    with pytest.raises(AssertionError, match="dropout"):
        gate_trace(network.train(), TOKENS, ALL)
