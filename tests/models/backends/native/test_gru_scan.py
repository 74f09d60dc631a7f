"""The GRU that is written out by hand, held against PyTorch's own."""

from __future__ import annotations

import ctypes

import pytest
import torch
from torch import Tensor, nn

from models.backends.native import build, gru_scan
from models.backends.native.build import fp32_runnable
from models.backends.native.cpu import cpu_flags
from models.networks.recurrent import dropped
from tests.models import tiny
from tests.models.kernels import compiled

BEST, *OTHERS = fp32_runnable("", cpu_flags())
AVAILABLE = [BEST, *(pytest.param(each, marks=pytest.mark.slow) for each in OTHERS)]


@pytest.fixture(scope="module", params=AVAILABLE, ids=lambda variant: variant.name)
def library(request: pytest.FixtureRequest) -> ctypes.CDLL:
    """For every instruction set that this machine has."""
    return compiled(build.first_loadable([request.param], "fp32"))


def drawn(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).requires_grad_()


@pytest.mark.parametrize("width", [5, 16, 37])
def test_states_and_gradients_equal_pytorch(library: ctypes.CDLL, width: int) -> None:
    """Of every input and parameter, in a sequence long enough to carry an error on; widths off a whole vector too."""
    torch.manual_seed(2)
    theirs = nn.GRU(7, width)
    features, hidden = drawn(11, 3, 7, seed=3), drawn(3, width, seed=4)
    weigh = drawn(11, 3, width, seed=5).detach()
    inputs = [features, hidden, *theirs.parameters()]
    expected = theirs(features, hidden[None])[0]
    weight, recurrent, bias, recurrent_bias = theirs.parameters()
    result = gru_scan.GruScan.apply(library, features @ weight.t() + bias, hidden, recurrent, recurrent_bias)  # type: ignore[no-untyped-call]
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-6)
    gradients = torch.autograd.grad((result * weigh).sum(), inputs)
    for ours, other in zip(gradients, torch.autograd.grad((expected * weigh).sum(), inputs), strict=True):
        torch.testing.assert_close(ours, other, rtol=1e-5, atol=1e-5)
        assert other.abs().max() > 0.1


def test_saturated_gates_have_finite_gradients(library: ctypes.CDLL) -> None:
    """Where e^x overflows, the gates are 0 and 1 and nothing is left to learn through them."""
    projected = torch.full((2, 1, 12), 500.0)
    projected[..., 4:8] = -500.0  # z = 0: the new state is tanh(500)
    projected.requires_grad_()
    states = gru_scan.GruScan.apply(library, projected, torch.zeros(1, 4), torch.zeros(12, 4), torch.zeros(12))  # type: ignore[no-untyped-call]
    torch.testing.assert_close(states, torch.ones(2, 1, 4), rtol=0, atol=1e-6)
    (gradient,) = torch.autograd.grad(states.sum(), projected)
    torch.testing.assert_close(gradient, torch.zeros(2, 1, 12), rtol=0, atol=1e-30)


@pytest.mark.parametrize("cell", tiny.FUSED_CELLS)
def test_layer_by_layer_pass_equals_pytorch(library: ctypes.CDLL, cell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What locked masks need, with masks that drop nothing, with our kernels and without."""
    network = tiny.recurrent(cell=cell, locked_dropout=True)
    tokens = tiny.ids((3, 9), 4, high=tiny.TARGET)
    begin = network.zeros(3)
    begin.hidden.copy_(drawn(2, 3, 10, seed=6).detach().tanh())
    begin.memory.copy_(drawn(2, 3, 10, seed=7).detach())
    packed = (begin.hidden, begin.memory) if cell == "lstm" else begin.hidden
    expected, last = network.recurrent(network.inputs(tokens), packed)
    hidden, memory = last if cell == "lstm" else (last, last)
    network.train()
    for kernels in (library, None):
        monkeypatch.setattr(gru_scan, "kernels", lambda tensor, kernels=kernels: kernels)
        features, after = network.sequence(tokens, begin, gru_scan.gru_layers(network)[0])
        torch.testing.assert_close(features, expected, rtol=0, atol=1e-6)
        torch.testing.assert_close(after.hidden, hidden, rtol=0, atol=1e-6)
        torch.testing.assert_close(after.memory, memory, rtol=0, atol=1e-6)


def test_only_plain_floats_on_a_cpu_take_our_kernels() -> None:
    assert gru_scan.kernels(torch.zeros(1, dtype=torch.bfloat16)) is None
    assert gru_scan.kernels(torch.zeros(1, device="meta")) is None
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert gru_scan.kernels(torch.zeros(1)) is None


# Regularisers -------------------------------------------------------------------------------------------


def test_a_locked_mask_is_one_for_all_steps_and_another_for_each_row() -> None:
    torch.manual_seed(1)
    result = dropped(torch.ones(4, 50, 64), 0.25, locked=True, training=True)
    assert torch.equal(result, result[:, :1].expand(-1, 50, -1))
    torch.testing.assert_close(result.unique(), torch.tensor([0, 1 / 0.75]))
    assert 0.15 < (result == 0).float().mean() < 0.35
    assert not torch.equal(result[0], result[1])


def test_a_mask_of_its_own_for_each_step_without_lock() -> None:
    torch.manual_seed(1)
    result = dropped(torch.ones(4, 50, 64), 0.25, locked=False, training=True)
    assert not torch.equal(result[:, 0], result[:, 1])
    assert 0.2 < (result == 0).float().mean() < 0.3


@pytest.mark.parametrize("locked", [True, False])
def test_no_dropout_in_evaluation(locked: bool) -> None:
    features = drawn(2, 3, 4, seed=1)
    assert torch.equal(dropped(features, 0.9, locked=locked, training=False), features)


@pytest.mark.parametrize("embedding", [0, 6], ids=["one-hot", "embedded"])
def test_weights_of_recurrent_matrices_are_dropped_in_training_alone(embedding: int) -> None:
    network = tiny.recurrent(cell="gru", embedding=embedding, recurrent_dropout=0.5)
    plain = tiny.recurrent(cell="gru", embedding=embedding)
    tokens = tiny.ids((2, 6), 4, high=tiny.TARGET)
    assert torch.equal(network(tokens)[0], plain(tokens)[0])
    network.train()
    torch.manual_seed(3)
    masked = torch.nn.functional.dropout(network.parameters_of(0)[2], 0.5)
    assert ((masked == 0).float().mean() - 0.5).abs() < 0.15
    torch.manual_seed(3)
    assert torch.equal(network.recurrent_weight(0), masked)
    first, second = network(tokens)[0], network(tokens)[0]
    assert (first - second).abs().max() > 1e-3
