"""R-Drop and word dropout against arithmetic done by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from models.transformer import Transformer
from models.transformer_config import TransformerConfig
from tests.training.test_loss import SOURCES, TARGETS, by_hand, translation_task
from training.batches import pair_batch
from training.r_drop import ROWS, smoothed_and_pulled, symmetric_divergence
from training.regularisers import Regularisers, drop_words
from training.translation import TranslationTask


def divergence_by_hand(first: Tensor, second: Tensor) -> float:
    def probabilities(logits: Tensor) -> list[float]:
        weights = [math.exp(float(value)) for value in logits.detach()]
        return [weight / sum(weights) for weight in weights]

    p, q = probabilities(first), probabilities(second)
    return sum(a * math.log(a / b) + b * math.log(b / a) for a, b in zip(p, q, strict=True))


def test_the_symmetric_divergence_of_three_tokens() -> None:
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(6, 5, generator=generator) * 2
    wanted = sum(divergence_by_hand(logits[i], logits[3 + i]) for i in range(3))
    assert symmetric_divergence(logits).item() == pytest.approx(wanted, rel=1e-5)
    assert symmetric_divergence(torch.cat([logits, logits])[:6].repeat(2, 1)).item() == 0.0
    two = torch.tensor([[0.0, math.log(3.0)], [math.log(3.0), 0.0]])  # (1/4, 3/4) and (3/4, 1/4)
    assert symmetric_divergence(two).item() == pytest.approx(math.log(3.0), rel=1e-6)


@pytest.mark.parametrize("tokens", [1, ROWS, 2 * ROWS + 3])
@pytest.mark.parametrize("alpha", [0.7, 5.0])
def test_the_gradient_written_out_is_that_of_the_formula(tokens: int, alpha: float) -> None:
    generator = torch.Generator().manual_seed(tokens)
    features, weight, bias = (
        torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in ((2 * tokens, 6), (11, 6), (11,))
    )
    wanted = torch.randint(11, (tokens,), generator=generator).repeat(2)
    exact = [part.clone().requires_grad_() for part in (features, weight, bias)]
    written = [part.float().requires_grad_() for part in (features, weight, bias)]
    totals = [smoothed_and_pulled(*parts, wanted, 0.1, alpha) for parts in (exact, written)]
    assert totals[1].item() == pytest.approx(totals[0].item(), rel=1e-6)
    for total in totals:
        (total / tokens).backward()
    for a, b in zip(exact, written, strict=True):
        assert a.grad is not None
        assert b.grad is not None
        torch.testing.assert_close(b.grad.double(), a.grad, rtol=1e-5, atol=1e-6)


def dropping(**options: float) -> TranslationTask:
    torch.manual_seed(0)
    network = Transformer(
        TransformerConfig(
            source_vocabulary=8,
            target_vocabulary=8,
            d_model=8,
            heads=2,
            head_width=4,
            d_ff=16,
            encoder_layers=1,
            decoder_layers=1,
            embedding_dropout=0.3,
            residual_dropout=0.3,
        )
    ).train()
    data = (SOURCES, TARGETS)
    regularisers = Regularisers(**options)
    return TranslationTask(
        network, data, data, label_smoothing=0.1, tokens_per_batch=99, seed=1, regularisers=regularisers
    )


def test_r_drop_is_the_mean_loss_of_two_passes_and_a_quarter_of_alpha_times_their_divergence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task, alpha = dropping(r_drop=5.0), 5.0
    monkeypatch.setattr(task.network, "_kernels", lambda: None)  # which draw otherwise than the whole forward pass
    batch = pair_batch(SOURCES, TARGETS, 0)
    twice = [torch.cat([part, part]) for part in batch]
    torch.manual_seed(7)
    logits = task.network(twice[0], twice[1])
    torch.manual_seed(7)
    loss, tokens = task.loss(batch)
    assert tokens == 11  # each counts once
    wanted = 0.0
    for row, target in enumerate(TARGETS):
        for position, token in enumerate(target[1:]):
            first, second = logits[row, position], logits[len(TARGETS) + row, position]
            wanted += (by_hand(first, token, 0.1) + by_hand(second, token, 0.1)) / 2
            wanted += alpha / 4 * divergence_by_hand(first, second)
    assert loss.item() == pytest.approx(wanted / 11, rel=1e-5)


def test_without_dropout_r_drop_changes_nothing() -> None:
    batch = pair_batch(SOURCES, TARGETS, 0)
    plain, pulled = translation_task(0.1), translation_task(0.1, regularisers=Regularisers(r_drop=5.0))
    losses = [task.loss(batch) for task in (plain, pulled)]
    assert losses[1][0].item() == pytest.approx(losses[0][0].item(), rel=1e-6)
    assert losses[1][1] == losses[0][1] == 11
    for loss, _ in losses:
        loss.backward()
    for a, b in zip(plain.network.parameters(), pulled.network.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-6)


def test_r_drop_may_leave_the_first_epochs_out() -> None:
    task = dropping(r_drop=2.0, r_drop_after_epochs=3)
    doubled, features = [], task.network.counted_features

    def counted(source: Tensor, target: Tensor, real: Tensor) -> Tensor:
        doubled.append(len(source) == 2 * len(SOURCES))
        return features(source, target, real)

    task.network.counted_features = counted  # type: ignore[method-assign]
    for epoch in (0, 2, 3, 4, 1):
        (batch,) = task.batches(epoch)
        assert task.loss(batch)[1] == 11
    assert doubled == [False, False, True, True, False]


def test_words_are_dropped_as_often_as_asked_and_special_tokens_never() -> None:
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
def test_word_dropout_reads_the_unknown_word_on_its_side_and_leaves_the_wanted_tokens(
    side: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = dropping(**{f"{side}_word_dropout": 0.5})
    seen = {}

    def features(source: Tensor, inputs: Tensor, counted: Tensor) -> Tensor:
        seen.update(source=source, target=inputs)
        return torch.zeros(int(counted.sum()), 8)

    monkeypatch.setattr(task.network, "counted_features", features)
    batch = pair_batch(SOURCES, TARGETS, 0)
    loss, tokens = task.loss(batch)
    given = {"source": batch.source, "target": batch.inputs}
    for name, ids in given.items():
        assert bool((seen[name] == 1).any()) == (name == side)
        assert torch.equal(seen[name][seen[name] != 1], ids[seen[name] != 1])
    assert (loss.item(), tokens) == (pytest.approx(math.log(8)), 11)  # zero features: every token equally likely


def test_validation_is_without_noise() -> None:
    noisy = dropping(r_drop=3.0, source_word_dropout=0.5, target_word_dropout=0.5)
    plain = dropping()
    with torch.inference_mode():
        for task in (noisy, plain):
            task.network.eval()
        assert noisy.validate() == plain.validate()
