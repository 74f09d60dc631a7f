"""R-Drop and word dropout against arithmetic done by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tests.training.loop.test_task_losses import SOURCES, TARGETS, by_hand, eight_words, translation_task
from tests.training.small import translator
from training.data.batches import pair_batch
from training.kernels import training_backend
from training.kernels.training_backend import TranslatorBackend
from training.loop.tasks import TranslationTask, drop_words


def divergence_by_hand(first: Tensor, second: Tensor) -> float:
    def probabilities(logits: Tensor) -> list[float]:
        weights = [math.exp(float(value)) for value in logits.detach()]
        return [weight / sum(weights) for weight in weights]

    p, q = probabilities(first), probabilities(second)
    return sum(a * math.log(a / b) + b * math.log(b / a) for a, b in zip(p, q, strict=True))


@pytest.mark.parametrize("kernels", [True, False])
def test_r_drop_divergence_of_three_tokens_equals_the_formula(kernels: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether kernels or PyTorch compute it."""
    network = dropping().network
    if not kernels:
        monkeypatch.setattr(training_backend, "training_library", lambda: None)
    features = torch.randn(6, 8, generator=torch.Generator().manual_seed(3)).requires_grad_()
    expected = torch.tensor([4, 6, 5, 4, 6, 5])
    logits = network.project(features)
    for smoothing, pull in ((0.0, 1.0), (0.1, 5.0)):
        pairs = [divergence_by_hand(logits[i], logits[3 + i]) for i in range(3)]
        total = sum(by_hand(logits[i], int(expected[i]), smoothing) for i in range(6)) + pull / 2 * sum(pairs)
        assert TranslatorBackend(network).cross_entropy(features, expected, smoothing, pull).item() == pytest.approx(
            total, rel=1e-5
        )


def dropping(**options: float) -> TranslationTask:
    network, data = eight_words(embedding_dropout=0.3, residual_dropout=0.3).train(), (SOURCES, TARGETS)
    return TranslationTask(network, data, data, translator(label_smoothing=0.1, tokens_per_batch=99, **options))


def test_r_drop_is_the_mean_loss_of_two_passes_and_a_quarter_of_alpha_times_their_divergence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task, alpha = dropping(r_drop=5.0), 5.0
    monkeypatch.setattr(
        training_backend, "training_library", lambda: None
    )  # kernels draw otherwise than the whole forward pass
    batch = pair_batch(SOURCES, TARGETS, 0)
    twice = [torch.cat([part, part]) for part in batch]
    torch.manual_seed(7)
    logits = task.network(twice[0], twice[1])
    torch.manual_seed(7)
    loss, tokens = task.loss(batch)
    assert tokens == 11  # each counts once
    expected = 0.0
    for row, target in enumerate(TARGETS):
        for position, token in enumerate(target[1:]):
            first, second = logits[row, position], logits[len(TARGETS) + row, position]
            expected += (by_hand(first, token, 0.1) + by_hand(second, token, 0.1)) / 2
            expected += alpha / 4 * divergence_by_hand(first, second)
    assert loss.item() == pytest.approx(expected / 11, rel=1e-5)


def test_without_dropout_r_drop_changes_nothing() -> None:
    batch = pair_batch(SOURCES, TARGETS, 0)
    plain, pulled = translation_task(0.1), translation_task(0.1, r_drop=5.0)
    losses = [task.loss(batch) for task in (plain, pulled)]
    assert losses[1][0].item() == pytest.approx(losses[0][0].item(), rel=1e-6)
    assert losses[1][1] == losses[0][1] == 11
    for loss, _ in losses:
        loss.backward()
    for a, b in zip(plain.network.parameters(), pulled.network.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-6)


def test_r_drop_may_leave_the_first_epochs_out() -> None:
    task = dropping(r_drop=2.0, r_drop_after_epochs=3)
    doubled, features = [], task.backend.counted_features

    def counted(source: Tensor, target: Tensor, real: Tensor) -> Tensor:
        doubled.append(len(source) == 2 * len(SOURCES))
        return features(source, target, real)

    task.backend.counted_features = counted  # type: ignore[method-assign]
    for epoch in (0, 2, 3, 4, 1):
        (batch,) = task.batches(epoch)
        assert task.loss(batch)[1] == 11
    assert doubled == [False, False, True, True, False]


def test_word_dropout_has_its_rate_and_spares_special_tokens() -> None:
    torch.manual_seed(0)
    words = torch.randint(4, 1000, (100, 100))
    ids = words.clone()
    ids[:, ::4] = torch.tensor([0, 1, 2, 3]).repeat(100, 7)[:, :25]
    dropped = drop_words(ids, 0.2)
    special = ids < 4
    assert torch.equal(dropped[special], ids[special])
    changed = dropped != ids
    assert (dropped[changed] == 1).all()
    assert int(changed.sum()) / int((~special).sum()) == pytest.approx(0.2, abs=0.015)
    assert drop_words(ids, 0.0) is ids


@pytest.mark.parametrize("side", ["source", "target"])
def test_word_dropout_changes_inputs_and_no_targets(side: str, monkeypatch: pytest.MonkeyPatch) -> None:
    task = dropping(**{f"{side}_word_dropout": 0.5})
    seen = {}

    def features(source: Tensor, inputs: Tensor, counted: Tensor) -> Tensor:
        seen.update(source=source, target=inputs)
        return torch.zeros(int(counted.sum()), 8)

    monkeypatch.setattr(task.backend, "counted_features", features)
    batch = pair_batch(SOURCES, TARGETS, 0)
    loss, tokens = task.loss(batch)
    given = {"source": batch.source, "target": batch.inputs}
    for name, ids in given.items():
        assert bool((seen[name] == 1).any()) == (name == side)
        assert torch.equal(seen[name][seen[name] != 1], ids[seen[name] != 1])
    assert (loss.item(), tokens) == (pytest.approx(math.log(8)), 11)  # zero features: every token equally likely


def test_validation_has_no_dropout() -> None:
    noisy = dropping(r_drop=3.0, source_word_dropout=0.5, target_word_dropout=0.5)
    plain = dropping()
    with torch.inference_mode():
        for task in (noisy, plain):
            task.network.eval()
        assert noisy.validate() == plain.validate()
