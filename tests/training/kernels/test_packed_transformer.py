"""The kernels of training against the layers that they stand for: features, losses and all gradients."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from models.backends.native import build
from models.backends.native.build import NONE, TRAINING
from models.networks.transformer import Transformer, TransformerConfig
from tests.models.kernels import compiled, needs
from training.kernels import training_backend
from training.kernels.training_backend import TranslatorBackend

VOCABULARY = 90
SHAPES: tuple[dict[str, Any], ...] = (
    {},
    {"norm": "post"},
    {"d_model": 20, "heads": 3, "head_width": 7, "d_ff": 37, "tied": "output", "output_bias": True},
    {"d_model": 128, "head_width": 32, "attention_bias": False, "tied": "none"},
    {"d_model": 70, "norm": "post", "heads": 2, "head_width": 40, "attention_scale": 0.3},
)


def network(dtype: torch.dtype = torch.float32, **changes: Any) -> Transformer:
    torch.manual_seed(0)
    options = {"d_model": 32, "heads": 4, "head_width": 8, "d_ff": 48, "encoder_layers": 2, "decoder_layers": 2}
    options |= {"norm": "pre", "tied": "all", "embedding_dropout": 0.0, "residual_dropout": 0.0}
    config = TransformerConfig(source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY, **{**options, **changes})
    made = Transformer(config)
    for parameter in made.parameters():
        if parameter.dim() < 2:  # as they start, some would hide a mistake: zeros and ones
            nn.init.normal_(parameter, 0.5, 0.3)
    return made.to(dtype)


def batch(rows: int = 23, source: int = 40, target: int = 33) -> tuple[Tensor, Tensor, Tensor]:
    """Sentences of 0 to 40 tokens, one with padding in its middle -> source, inputs, outputs."""
    torch.manual_seed(1)
    sources, targets = torch.randint(1, VOCABULARY, (rows, source)), torch.randint(1, VOCABULARY, (rows, target))
    for row in range(rows):
        sources[row, torch.randint(source + 1, ()) :] = 0
        targets[row, torch.randint(2, target + 1, ()) :] = 0
    sources[0], sources[1, 3] = 0, 0
    return sources, targets[:, :-1], targets[:, 1:]


@contextmanager
def kernels(library: ctypes.CDLL | None) -> Iterator[None]:
    before = training_backend.training_library
    training_backend.training_library = lambda: library
    try:
        yield
    finally:
        training_backend.training_library = before


def variant(name: str) -> ctypes.CDLL:
    result = next(each for each in TRAINING if each.name == name)
    needs(result)
    return compiled(build.first_loadable([result], "training"))


def learnt(made: Transformer, parts: tuple[Tensor, ...], smoothing: float = 0.1) -> tuple[float, dict[str, Tensor]]:
    """The mean loss and the gradients."""
    source, inputs, outputs = parts
    counted = outputs != 0
    made.zero_grad()
    features = TranslatorBackend(made).counted_features(source, inputs, counted)
    loss = TranslatorBackend(made).cross_entropy(features, outputs[counted], smoothing) / counted.sum()
    loss.backward()  # type: ignore[no-untyped-call]
    return loss.item(), {name: p.grad for name, p in made.named_parameters() if p.grad is not None}


def assert_close(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> None:
    """Within 1e-5 of each gradient's norm; of one that is next to nothing, of the largest one's."""
    assert found.keys() == wanted.keys()
    most = max(float(each.norm()) for each in wanted.values())
    for name, each in wanted.items():
        allowed = 1e-5 * max(float(each.norm()), 1e-2 * most)
        assert float((found[name] - each).norm()) <= allowed, name


@pytest.mark.every_value
@pytest.mark.parametrize("changes", SHAPES)
@pytest.mark.parametrize("name", [each.name for each in TRAINING])
def test_losses_and_gradients_equal_the_formula(name: str, changes: dict[str, Any]) -> None:
    with kernels(variant(name)):
        loss, gradients = learnt(network(**changes), batch())
    with kernels(None):
        expected, formula = learnt(network(torch.float64, **changes), batch())
    assert loss == pytest.approx(expected, rel=1e-6)
    assert_close(gradients, {each: gradient.float() for each, gradient in formula.items()})


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_validation_computes_the_same_loss_without_gradients(smoothing: float) -> None:
    library, made, (source, inputs, outputs) = variant(TRAINING[-1].name), network().eval(), batch()
    counted = outputs != 0
    results = []
    for each in (library, None):
        with kernels(each), torch.inference_mode():
            features = TranslatorBackend(made).counted_features(source, inputs, counted)
            results.append(TranslatorBackend(made).cross_entropy(features, outputs[counted], smoothing).item())
    assert results[0] == pytest.approx(results[1], rel=1e-6)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("name", [each.name for each in TRAINING])
def test_two_predictions_are_pulled_together_as_the_formula_has_it(name: str, bias: bool) -> None:
    """On more tokens than a call keeps at a time, and in a vocabulary that fills no vector."""
    library, made = variant(name), network(output_bias=bias)
    torch.manual_seed(2)
    features, targets = torch.randn(2, 500, 32) * 2, torch.randint(VOCABULARY, (500,)).repeat(2)
    features[1] = features[0] + 0.3 * features[1]  # as two passes with other dropout are alike
    results: list[tuple[float, dict[str, Tensor]]] = []
    for each, dtype in ((library, torch.float32), (None, torch.float64)):
        copy = network(dtype, output_bias=bias)
        copy.load_state_dict(made.state_dict())
        read = features.flatten(0, 1).to(dtype).requires_grad_()
        with kernels(each):
            loss = TranslatorBackend(copy).cross_entropy(read, targets, 0.1)
        loss.backward()  # type: ignore[no-untyped-call]
        gradients = {n: p.grad.float() for n, p in copy.named_parameters() if p.grad is not None}
        assert read.grad is not None
        results.append((loss.item(), {**gradients, "features": read.grad.float()}))
    (value, gradients), (expected, formula) = results
    assert value == pytest.approx(expected, rel=1e-6)
    assert_close(gradients, formula)


@pytest.mark.parametrize("part", [name for name, p in network().named_parameters() if p.dim() == 2])
def test_nan_weight_gives_a_nan_loss(part: str) -> None:
    made = network()
    with torch.no_grad():
        made.get_parameter(part)[3, 5] = float("nan")
    with kernels(variant(TRAINING[-1].name)):
        loss, _ = learnt(made, batch())
    assert loss != loss


def test_loss_mask_may_have_gaps() -> None:
    library, made, (source, inputs, outputs) = variant(TRAINING[-1].name), network(), batch()
    counted = (outputs != 0) & (torch.arange(outputs.size(1)) % 3 == 1)
    with kernels(library):
        features = TranslatorBackend(made).counted_features(source, inputs, counted)
    torch.testing.assert_close(features, made.features(source, inputs)[counted], rtol=1e-4, atol=1e-5)


def test_threads_do_not_change_a_bit() -> None:
    library, made = variant(TRAINING[-1].name), network(residual_dropout=0.2, attention_dropout=0.1)
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            torch.manual_seed(5)
            with kernels(library):
                results.append(learnt(made, batch()))
    finally:
        torch.set_num_threads(before)
    for loss, gradients in results[1:]:
        assert loss == results[0][0]
        assert all(torch.equal(gradients[name], result) for name, result in results[0][1].items())


def test_a_token_outside_the_vocabulary_is_refused() -> None:
    made, (source, inputs, outputs) = network(), batch()
    counted = outputs != 0
    with kernels(variant(TRAINING[-1].name)):
        features = TranslatorBackend(made).counted_features(source, inputs, counted)
        with pytest.raises(IndexError, match="not in the vocabulary"):
            TranslatorBackend(made).counted_features(source + VOCABULARY, inputs, counted)
        with pytest.raises(IndexError, match="not in the vocabulary"):
            TranslatorBackend(made).cross_entropy(features, outputs[counted] + VOCABULARY)


def test_training_kernels_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARLANCE_NATIVE", NONE)
    assert training_backend.training_library() is None
