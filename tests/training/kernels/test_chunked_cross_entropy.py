"""The loss in chunks of rows: the loss and gradients of the whole, without logits of the whole."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from models.networks.transformer import Transformer
from tests.cuda_simulator import simulated_cuda
from tests.training.kernels.test_packed_transformer import VOCABULARY, network
from training.kernels.chunked_cross_entropy import chunk_loss, chunked_cross_entropy
from training.kernels.training_backend import TranslatorBackend, plain_cross_entropy

ROWS = 26
Result = tuple[float, list[Tensor]]


def inputs(made: Transformer, rows: int = ROWS) -> tuple[Tensor, Tensor]:
    torch.manual_seed(2)
    width = made.config.d_model
    return 2 * torch.randn(rows, width, requires_grad=True), torch.randint(0, VOCABULARY, (rows,))


def result(made: Transformer, features: Tensor, loss: Tensor) -> Result:
    """The loss and the gradients of features and output."""
    parts = [features, made.output_weight, *([] if made.output_bias is None else [made.output_bias])]
    return loss.item(), list(torch.autograd.grad(3.0 * loss, parts))


def assert_same(found: Result, expected: Result, rtol: float = 1e-5) -> None:
    assert found[0] == pytest.approx(expected[0], rel=rtol)
    for a, b in zip(found[1], expected[1], strict=True):
        assert a.dtype == b.dtype
        assert float((a - b).norm()) <= rtol * float(b.norm())


@pytest.mark.every_value
@pytest.mark.parametrize("rows", [1, 5, 13, 1000])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("changes", [{}, {"tied": "none", "output_bias": True}])
def test_loss_and_gradients_equal_those_of_whole_logits(changes: dict[str, Any], smoothing: float, rows: int) -> None:
    made = network(**changes)
    features, targets = inputs(made)
    expected = result(made, features, plain_cross_entropy(made, features, targets, smoothing))
    loss = chunked_cross_entropy(features, targets, made.output_weight, made.output_bias, smoothing, chunk_loss, rows)
    assert_same(result(made, features, loss), expected)


def test_loss_and_gradient_of_one_row_equal_manual_computation() -> None:
    """Logits ln 1, ln 2, ln 5; smoothing 0.3 spreads 0.1 over each piece."""
    loss, gradient = chunk_loss(torch.tensor([[1.0, 2.0, 5.0]]).log(), torch.tensor([2]), 0.3)
    assert loss.item() == pytest.approx(-0.1 * math.log(1 / 8) - 0.1 * math.log(2 / 8) - 0.8 * math.log(5 / 8))
    assert gradient[0].tolist() == pytest.approx([1 / 8 - 0.1, 2 / 8 - 0.1, 5 / 8 - 0.8], rel=1e-5)


def test_products_are_in_autocasts_format_and_gradients_in_fp32() -> None:
    """No further from the gradients in fp32 than those of whole logits under autocast are."""
    made = network(output_bias=True)
    features, targets = inputs(made, 400)
    exact = result(made, features, plain_cross_entropy(made, features, targets, 0.1))
    errors = []
    for chunked in (False, True):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            if chunked:
                arguments = features, targets, made.output_weight, made.output_bias
                loss = chunked_cross_entropy(*arguments, 0.1, chunk_loss, 50)
            else:
                loss = plain_cross_entropy(made, features, targets, 0.1)
        found = result(made, features, loss)
        assert found[0] == pytest.approx(exact[0], rel=1e-2)
        assert found[0] != exact[0]
        assert {gradient.dtype for gradient in found[1]} == {torch.float32}
        errors.append([float((a - b).norm() / b.norm()) for a, b in zip(found[1], exact[1], strict=True)])
    assert all(ours < 0.02 and ours < 1.2 * theirs for theirs, ours in zip(*errors, strict=True))


class Largest(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The number of elements of the largest tensor that an operator returned."""

    size = 0

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        returned = function(*arguments, **(options or {}))
        for part in returned if isinstance(returned, tuple | list) else [returned]:
            self.size = max(self.size, part.numel() if isinstance(part, Tensor) else 0)
        return returned


@pytest.mark.parametrize("learns", [True, False])
def test_logits_of_one_chunk_are_the_largest_tensor(learns: bool) -> None:
    made = network()
    features, targets = inputs(made, 400)
    largest = Largest()  # type: ignore[no-untyped-call]
    with largest, torch.set_grad_enabled(learns):
        loss = chunked_cross_entropy(features, targets, made.output_weight, None, 0.1, chunk_loss, 160)
        if learns:
            loss.backward()  # type: ignore[no-untyped-call]
    assert largest.size == 160 * VOCABULARY
    assert loss.requires_grad == learns


def test_a_second_backward_pass_is_refused() -> None:
    made = network()
    features, targets = inputs(made)
    loss = chunked_cross_entropy(features, targets, made.output_weight, None, 0.1)
    loss.backward(retain_graph=True)  # type: ignore[no-untyped-call]
    with pytest.raises(RuntimeError, match=r"differentiated once already.*compute it anew\."):
        loss.backward()  # type: ignore[no-untyped-call]


class OnGpu:
    """A tensor as far as the choice of a loss reads it."""

    device = torch.device("cuda")


def chooses_chunks(made: Transformer) -> bool:
    return TranslatorBackend(made)._chunks(OnGpu())  # type: ignore[arg-type]


def test_an_edited_projection_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    assert chooses_chunks(network())
    assert chooses_chunks(network(tied="none", output_bias=True))
    assert not TranslatorBackend(network())._chunks(torch.zeros(1)), "on a CPU"
    hooked = network(tied="none")
    assert hooked.output is not None
    hooked.output.register_forward_hook(lambda module, read, logits: 2 * logits)
    assert not chooses_chunks(hooked)
    other = network(tied="none")
    other.output = nn.Sequential(nn.Linear(32, VOCABULARY))  # type: ignore[assignment]
    assert not chooses_chunks(other)
    monkeypatch.setattr(Transformer, "project", lambda self, features: features)
    assert not chooses_chunks(network())


def test_fp16_has_whole_logits_for_its_loss_scale() -> None:
    torch.set_autocast_enabled("cuda", True)
    try:
        assert not chooses_chunks(network())  # autocast's format for CUDA is fp16 unless set
    finally:
        torch.set_autocast_enabled("cuda", False)


def test_on_a_gpu_the_loss_is_computed_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a simulated one, where autograd's engine does not run: the loss alone."""
    monkeypatch.setattr("training.kernels.chunked_cross_entropy.CHUNK_BYTES", 4 * VOCABULARY * 10)
    made = network()
    features, targets = inputs(made)
    expected = plain_cross_entropy(made, features, targets, 0.1).item()
    sizes = list[int]()

    def counted(logits: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
        sizes.append(len(logits))
        return chunk_loss(logits, *others)

    monkeypatch.setattr("training.kernels.training_backend.chunk_loss", counted)
    with simulated_cuda(), torch.no_grad():
        loss = TranslatorBackend(made.to("cuda:0")).cross_entropy(features.to("cuda"), targets.to("cuda"), 0.1)
        assert loss.item() == pytest.approx(expected, rel=1e-5)
    assert sizes == [10, 10, 6]
