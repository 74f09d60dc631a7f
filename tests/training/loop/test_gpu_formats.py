"""The number formats of a run on a GPU: what its recurrent layers compute in, and PyTorch's settings for products."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from models import exactness
from models.exactness import state
from models.networks import recurrent
from tests.models import tiny
from tests.training.small import lyricist
from training.data.batches import TextBatch
from training.loop.mixed_precision import MixedPrecision, set_gpu_products
from training.loop.tasks import LyricsTask

CUDA = torch.device("cuda")


@contextmanager
def autocast_on_a_gpu(dtype: torch.dtype) -> Iterator[None]:
    """`torch.autocast("cuda", dtype)`, which turns itself off where there is no GPU. On a CPU's tensors it has no
    effect but for `cudnn`."""
    torch.set_autocast_enabled("cuda", True)
    before = torch.get_autocast_dtype("cuda")
    torch.set_autocast_dtype("cuda", dtype)
    try:
        yield
    finally:
        torch.set_autocast_enabled("cuda", False)
        torch.set_autocast_dtype("cuda", before)


def cudnn(monkeypatch: pytest.MonkeyPatch, cell: str) -> list[torch.dtype]:
    """Lets PyTorch's recurrent operator do what autocast makes of it with cuDNN: fp16, whatever format is asked for
    (aten/src/ATen/cudnn/AutocastRNN.cpp). Returns the formats of its inputs, call by call."""
    name, formats = {"rnn": "rnn_tanh"}.get(cell, cell), list[torch.dtype]()
    original = getattr(torch, name)

    def fp16(part: Any) -> Any:
        if isinstance(part, tuple | list):
            return [fp16(each) for each in part]
        return part.half() if isinstance(part, Tensor) and torch.is_autocast_enabled("cuda") else part

    def call(features: Tensor, state: Any, weights: list[Tensor], *options: Any, **named: Any) -> Any:
        features, state, weights = map(fp16, (features, state, weights))
        formats.append(features.dtype)
        assert {part.dtype for part in weights} == {features.dtype}
        # autocast would cast for whatever comes next
        return tuple(part.float() for part in original(features, state, weights, *options, **named))

    monkeypatch.setitem(recurrent.OPERATORS, cell, call)
    monkeypatch.setattr(torch._VF, name, call)
    monkeypatch.setitem(exactness.IMPORTED, f"torch.{name}", state(call))  # the one that counts is no edit of a network
    return formats


@pytest.mark.parametrize("options", [{}, {"locked_dropout": True, "dropout": 0.2}])
@pytest.mark.parametrize("cell", tiny.FUSED_CELLS)
def test_recurrent_layers_under_bf16_are_not_in_fp16(
    cell: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARLANCE_NATIVE", "none")
    monkeypatch.setattr("training.kernels.training_backend.gru_layers", lambda network: (None, "it is on a GPU"))
    network = tiny.recurrent(cell=cell, **options).train()
    formats = cudnn(monkeypatch, cell)
    tokens = tiny.ids((3, 9), 5, high=tiny.TARGET)
    task = LyricsTask(network, tokens.flatten(), None, lyricist())
    with autocast_on_a_gpu(torch.bfloat16):
        loss, _ = task.loss(TextBatch(tokens[:, :-1], tokens[:, 1:], carry=False))
    assert set(formats) == {torch.float32}
    loss.backward()  # type: ignore[no-untyped-call]
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in network.recurrent.parameters())
    formats.clear()
    with autocast_on_a_gpu(torch.float16):  # as asked for, with a loss scale
        task.loss(TextBatch(tokens[:, :-1], tokens[:, 1:], carry=False))
    assert set(formats) == {torch.float16}


def test_an_fp32_layer_computes_what_the_network_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two layers, each in one call, against all layers in one call."""
    monkeypatch.setattr("training.kernels.training_backend.gru_layers", lambda network: (None, "it is on a GPU"))
    network = tiny.recurrent(cell="gru").eval()
    tokens = tiny.ids((3, 9), 5, high=tiny.TARGET)
    task = LyricsTask(network, tokens.flatten(), None, lyricist())
    expected, state = network(tokens)
    with autocast_on_a_gpu(torch.bfloat16):
        assert task.backend.scan is not None
        logits, after = network(tokens, None, task.backend.scan)
    torch.testing.assert_close(logits, expected)
    torch.testing.assert_close(after.hidden, state.hidden)
    assert task.backend.scan is None


@pytest.fixture
def _own_settings() -> Iterator[None]:
    matmul = torch.backends.cuda.matmul
    before = (
        torch.get_float32_matmul_precision(),
        torch.backends.cudnn.allow_tf32,
        matmul.allow_bf16_reduced_precision_reduction,
        matmul.allow_fp16_reduced_precision_reduction,
    )
    yield
    torch.set_float32_matmul_precision(before[0])
    torch.backends.cudnn.allow_tf32 = before[1]
    matmul.allow_bf16_reduced_precision_reduction = before[2]
    matmul.allow_fp16_reduced_precision_reduction = before[3]


@pytest.mark.usefixtures("_own_settings")
@pytest.mark.parametrize(("wanted", "tf32"), [("fp32", False), ("bf16", True), ("fp16", True)])
def test_fp32_products_are_in_tf32_unless_fp32_was_asked_for(wanted: Any, tf32: bool) -> None:
    set_gpu_products(wanted)
    matmul = torch.backends.cuda.matmul
    assert (matmul.allow_tf32, torch.backends.cudnn.allow_tf32) == (tf32, tf32)
    assert not matmul.allow_bf16_reduced_precision_reduction
    assert not matmul.allow_fp16_reduced_precision_reduction


@pytest.mark.usefixtures("_own_settings")
def test_a_cpu_keeps_pytorchs_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_float32_matmul_precision()
    monkeypatch.setattr("training.loop.mixed_precision.set_gpu_products", lambda number_format: pytest.fail("set"))
    precision = MixedPrecision(torch.device("cpu"), "bf16", nn.Linear(1, 1), "")
    assert (precision.fp32_products, torch.get_float32_matmul_precision()) == ("fp32", before)
