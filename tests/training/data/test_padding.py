"""How much of a batch is padding, on a corpus with the lengths of Multi30k; and a loss of three tokens by hand."""

from __future__ import annotations

import math
import random

import pytest
import torch

from benchmarks.training_race import waste
from models.networks.transformer import Transformer, TransformerConfig
from training.config.recipes import TRANSLATORS
from training.data.batches import PairBatch, batches_by_length, pair_batch
from training.kernels import training_backend
from training.kernels.training_backend import TranslatorBackend


def multi30k_like(pairs: int) -> list[tuple[int, int]]:
    """Lengths of both sides in tokens: log-normal, means of 15 to 16, correlated as translations are."""
    draws, lengths = random.Random(4), []
    for _ in range(pairs):
        common = draws.gauss(0, 0.28)
        sides = (math.exp(2.68 + common + draws.gauss(0, 0.16)) for _ in range(2))
        lengths.append(tuple(max(3, min(60, round(side))) for side in sides))
    return [(source, target) for source, target in lengths]


def test_at_most_a_tenth_of_computed_tokens_is_padding() -> None:
    lengths = multi30k_like(29_000)
    means = [sum(side) / len(lengths) for side in zip(*lengths, strict=True)]
    assert all(14 < mean < 17 for mean in means)
    groups = batches_by_length(lengths, TRANSLATORS["tiny"].config.tokens_per_batch, seed=1, epoch=0)
    assert sorted(index for group in groups for index in group) == list(range(len(lengths)))
    batches = [pair_batch([[5] * lengths[i][0] for i in g], [[5] * (lengths[i][1] + 1) for i in g], 0) for g in groups]
    assert waste(batches, 0)["both"] < 0.10


def test_waste_is_the_share_of_padding() -> None:
    source, target = torch.tensor([[5, 5, 5, 5], [5, 0, 0, 0]]), torch.tensor([[5, 5], [5, 0]])
    assert waste([PairBatch(source, target, target)], 0) == {"source": 0.375, "target": 0.25, "both": 0.3333}


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_loss_of_three_tokens_equals_manual_computation(
    native: bool, smoothing: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logits ln 1, ln 2, ln 5: probabilities 1/8, 2/8, 5/8."""
    if not native:
        monkeypatch.setattr(training_backend, "training_library", lambda: None)
    config = TransformerConfig(
        *(), source_vocabulary=3, target_vocabulary=3, d_model=1, heads=1, head_width=1, d_ff=1, tied="output"
    )
    network = Transformer(config)
    with torch.no_grad():
        network.target_embedding.weight.copy_(torch.tensor([[1.0], [2.0], [5.0]]).log())
    features = torch.ones(3, 1, requires_grad=True)
    loss = TranslatorBackend(network).cross_entropy(features, torch.tensor([2, 0, 1]), smoothing)
    logs = [math.log(p) for p in (1 / 8, 2 / 8, 5 / 8)]
    wanted = sum(-(1 - smoothing) * log - smoothing * sum(logs) / 3 for log in logs)
    assert loss.item() == pytest.approx(wanted, rel=1e-6)
    loss.backward()  # type: ignore[no-untyped-call]
    assert features.grad is not None
    expected = (2 * math.log(2) + 5 * math.log(5)) / 8  # of the logits, as the model has it
    each = [(1 - smoothing) * math.log(weight) + smoothing * math.log(10) / 3 for weight in (5, 1, 2)]
    assert features.grad.flatten().tolist() == pytest.approx([expected - mean for mean in each], rel=1e-5)
