"""Several batches in one update are one large batch, whatever their sizes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from models.networks.transformer import Transformer, TransformerConfig
from tests.training.counting import Counting, looping
from tests.training.small import translator
from training.config.run_config import OptimizerConfig
from training.data.batches import pair_batch
from training.loop.tasks import TranslationTask

# of one to seven tokens, so that a mean of means would be another mean
SOURCES = [[4, 5, 3], [6, 3], [7, 8, 9, 4, 3], [5, 3], [9, 9, 3], [4, 3]]
TARGETS = [[2, 5, 3], [2, 6, 7, 8, 9, 4, 5, 3], [2, 7, 3], [2, 3], [2, 8, 8, 8, 3], [2, 9, 4, 3]]
# epsilon: the bias of attention's keys has no gradient but rounding, of which Adam must not make whole steps
ADAM = OptimizerConfig(name="adamw", learning_rate=1e-2, weight_decay=0.1, clip_norm=0.5, epsilon=1e-3)


class Given(TranslationTask):
    """The same batches every epoch."""

    groups: list[list[int]]

    def batches(self, epoch: int) -> Any:
        sources, targets = self.train
        return [pair_batch([sources[i] for i in g], [targets[i] for i in g], 0) for g in self.groups]


def trained(groups: list[list[int]], accumulate: int, optimizer: OptimizerConfig = ADAM) -> dict[str, Tensor]:
    torch.manual_seed(3)
    shape = {**translator().network, "embedding_dropout": 0.0, "residual_dropout": 0.0}
    network = Transformer(TransformerConfig(source_vocabulary=10, target_vocabulary=10, **shape))
    task = Given(network, (SOURCES, TARGETS), None, translator(label_smoothing=0.1, tokens_per_batch=99))
    task.groups = groups
    outcome = looping(task, optimizer=optimizer, max_epochs=4, gradient_accumulation=accumulate).run()
    assert outcome.progress.update == 4 * -(-len(groups) // accumulate)
    return outcome.weights


@pytest.mark.parametrize("name", ["adamw", "sgd", "muon"])
def test_accumulated_batches_equal_one_large_batch(name: str) -> None:
    optimizer = replace(ADAM, name=name)  # type: ignore[arg-type]
    large = trained([[0, 1, 2, 3, 4, 5]], 1, optimizer)
    small = trained([[0], [1, 2], [3, 4, 5]], 3, optimizer)
    for key, value in large.items():
        torch.testing.assert_close(small[key], value, rtol=0, atol=1e-6, msg=key)


def test_batches_weigh_by_their_tokens() -> None:
    """The test above can fail: these batches' means do not average to the mean of all."""

    class Unequal(Counting):
        def loss(self, batch: int) -> tuple[Tensor, int]:
            return self.network.weight.sum() * (4.0 if batch else 0.0), 1 if batch else 3

    task = Unequal(batches=2)
    looping(task, max_epochs=1, gradient_accumulation=2).run()
    assert task.network.weight.item() == -1.0  # 4 of one token in four, not 2


def test_last_accumulation_of_an_epoch_may_have_fewer_batches() -> None:
    task = Counting(batches=5)
    outcome = looping(task, max_epochs=2, gradient_accumulation=2).run()
    assert (outcome.progress.update, task.network.weight.item()) == (6, 6.0)
    assert outcome.progress.last_epoch_loss == pytest.approx(-(3 * 2 + 4 * 2 + 5 * 1) / 5)
