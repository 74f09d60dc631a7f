"""A run whose loss rises: told from overfitting, from a slow start and from noise."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.training.counting import Counting, looping
from tests.training.small import CPU, pairs, translator
from training.config.run_config import LoopConfig, OptimizerConfig
from training.errors import TrainingError
from training.training_run import TrainingRun
from training.translator_run import train_translator

VOCABULARY = 100  # log: 4.6 nats
RISES = "The loss rises: {:.2f} nats per held-out token at update {}, and {:.2f} in the best validation; lower the "


class Scripted(Counting):
    """Epochs of one update, with these losses of training and of validation behind each."""

    def __init__(self, training: list[float], validation: list[float]) -> None:
        super().__init__(validation)
        self.training = iter(training)
        self.network.config = SimpleNamespace(target_vocabulary=VOCABULARY)  # type: ignore[assignment]

    def loss(self, batch: int) -> Any:
        loss, tokens = super().loss(batch)
        return loss - loss.detach() + next(self.training), tokens


def ended(training: list[float], validation: list[float], folder: Path | None = None, **options: Any) -> Any:
    return looping(Scripted(training, validation), folder, max_epochs=len(training), **options).run()


@pytest.mark.parametrize(
    ("validation", "update"),
    [
        ([4.7, 5.4, 6.0, 7.0, 8.0], 4),  # above chance
        ([9.0, 9.1, 9.1, 9.2, 9.2], 4),  # and never below it
    ],
)
def test_loss_that_rises_above_chance_ends_the_run(validation: list[float], update: int) -> None:
    with pytest.raises(TrainingError) as refused:
        ended(validation, validation)
    assert str(refused.value).startswith(RISES.format(validation[update - 1], update, validation[0]))


def test_loss_that_rises_after_good_weights_keeps_these() -> None:
    losses = [4.0, 2.0, 4.5, 4.6, 4.4, 4.3, 4.2]
    outcome = ended(losses, losses)
    assert outcome.ended_by.startswith("a loss that has risen for 3 validations: lower the learning rate")
    assert outcome.progress.update == 5
    assert outcome.chosen == "the weights of update 2"


@pytest.mark.parametrize(
    ("training", "validation"),
    [
        ([4.0, 2.0, 1.0, 0.5, 0.2, 0.1, 0.1], [4.0, 3.0, 5.5, 6.0, 6.5, 7.0, 8.0]),  # overfitting
        ([9.0, 8.0, 7.5, 7.0, 6.9, 6.8, 6.7], [9.0, 8.5, 8.0, 7.5, 7.4, 7.3, 7.2]),  # a slow start
        ([4.7, 4.8, 4.7, 4.8, 4.7, 4.8, 4.7], [4.7, 4.9, 4.8, 4.9, 5.0, 4.8, 4.9]),  # nothing learnt yet
        ([9.0, 9.0, 9.0, 2.0, 9.0, 9.0, 2.0], [4.0, 9.0, 9.0, 3.0, 9.0, 9.0, 3.0]),  # peaks
    ],
)
def test_other_losses_do_not_end_a_run(training: list[float], validation: list[float]) -> None:
    assert ended(training, validation).ended_by == "the limit of 7 epochs"


def test_warmup_is_not_judged() -> None:
    losses = [9.0, 9.1, 9.2, 9.3, 9.4, 4.0]
    rate = OptimizerConfig(name="sgd", learning_rate=1.0, clip_norm=0.0, schedule="cosine", warmup_updates=100)
    task = Scripted(losses * 10, losses * 10)
    outcome = looping(task, None, rate, max_epochs=40).run()  # a quarter of the run, 10 updates, warms up
    assert outcome.ended_by.startswith("a loss that has risen")
    assert outcome.progress.update == 15


def test_rise_is_counted_across_a_resume(tmp_path: Path) -> None:
    losses = [4.7, 5.4, 6.0, 7.0]
    looping(Scripted(losses[:3], losses[:3]), tmp_path, max_epochs=3).run()
    with pytest.raises(TrainingError, match=r"The loss rises: 7\.00 nats per held-out token at update 4"):
        looping(Scripted(losses[3:], losses[3:]), tmp_path, max_epochs=4).run(resume=True)


def test_learning_rate_that_destroys_a_translator_is_named(tmp_path: Path) -> None:
    rate = OptimizerConfig(learning_rate=1.5)
    config = translator(optimizer=rate, loop=LoopConfig(max_epochs=20, ema_decay=0.0))
    with pytest.raises(TrainingError, match=r"The loss rises: .* start anew \(the rate's peak is 1.5\)"):
        train_translator(config, pairs(40), pairs(10, seed=1), TrainingRun(out=tmp_path / "m", device=CPU, quiet=True))
