"""The loop: its limits, and the best weights."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from torch import Tensor

from tests.training.counting import Counting, looping
from training import snapshot
from training.errors import TrainingError
from training.loop import trainer as loops
from training.loop.weight_selection import MovingAverage
from training.progress import Outcome

pytestmark = pytest.mark.usefixtures("no_curves")


def weight(outcome: Outcome) -> float:
    return outcome.weights["weight"].item()


def test_the_best_weights_are_kept_and_not_the_last() -> None:
    task = Counting([3.0, 1.0, 2.0, 1.5])
    outcome = looping(task, max_epochs=4).run()
    assert task.seen == [1.0, 2.0, 3.0, 4.0]
    assert (weight(outcome), outcome.progress.best_loss, outcome.progress.best_update) == (2.0, 1.0, 2)
    assert task.network.weight.item() == 4.0
    assert outcome.ended_by == "the limit of 4 epochs"


def test_equal_validation_loss_is_no_gain() -> None:
    assert weight(looping(Counting([1.0, 1.0, 1.0]), max_epochs=3).run()) == 1.0


def test_patience_counts_validations_without_a_gain() -> None:
    task = Counting([3.0, 1.0, 2.0, 1.0, 0.5, 2.0, 2.0, 2.0, 0.1])
    outcome = looping(task, max_epochs=50, patience=3).run()
    assert outcome.ended_by == "3 validations without a gain"
    assert (outcome.progress.epoch, outcome.progress.best_update, weight(outcome)) == (8, 5, 5.0)


def test_without_validation_the_last_weights_are_kept() -> None:
    assert weight(looping(Counting(), max_epochs=3, patience=1).run()) == 3.0


def test_nan_validation_is_no_gain() -> None:
    outcome = looping(Counting([2.0, float("nan"), 1.0, float("nan")]), max_epochs=4).run()
    assert (weight(outcome), outcome.progress.without_gain) == (3.0, 1)


def test_validation_uses_the_moving_average_and_training_does_not() -> None:
    task = Counting([3.0, 1.0, 2.0])
    outcome = looping(task, max_epochs=3, ema_decay=0.25).run()
    first = 9 / 11  # 2/11 of 0, the rest of 1
    second = 0.25 * first + 0.75 * 2
    assert task.seen == pytest.approx([first, second, 0.25 * second + 0.75 * 3])
    assert weight(outcome) == pytest.approx(second)
    assert task.network.weight.item() == 3.0


def test_validation_interval_in_epochs_and_at_the_end() -> None:
    task = Counting([1.0] * 9)
    looping(task, max_epochs=7, validate_every_epochs=3).run()
    assert task.seen == [3.0, 6.0, 7.0]


def test_minutes_end_a_run_in_the_middle_of_an_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(loops, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    task = Counting([5.0, 4.0, 3.0, 2.0, 1.0], batches=4)

    def ten_seconds() -> None:
        clock[0] += 10

    task.after_loss = ten_seconds
    outcome = looping(task, max_epochs=10_000, max_minutes=1.0).run()
    assert outcome.ended_by == "the limit of 1 minute"
    assert (outcome.progress.update, outcome.progress.epoch, outcome.progress.batch) == (6, 1, 2)
    assert task.seen == [2.0, 3.0, 4.0, 5.0, 6.0]  # five, of which one ends an epoch and one the run
    assert weight(outcome) == 6.0


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nan_loss_ends_the_run_and_spares_the_snapshot(tmp_path: Path, value: float) -> None:
    class Diverging(Counting):
        def loss(self, batch: int) -> tuple[Tensor, int]:
            loss, tokens = super().loss(batch)
            return (loss * value if self.state.item() == 3 else loss), tokens

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loops, "SNAPSHOT_EVERY_S", 0.0)
        with pytest.raises(TrainingError, match=r"^The loss became -?(nan|inf) at update 3: lower the learning rate"):
            looping(Diverging(), tmp_path, max_epochs=9).run()
    assert snapshot.load(tmp_path)["network"]["weight"].item() == 2.0


def test_a_corpus_too_small_for_one_batch() -> None:
    with pytest.raises(TrainingError, match=r"^This corpus is too small for a single batch"):
        looping(Counting(batches=0)).run()


def test_a_snapshot_keeps_the_best_weights_as_they_were(tmp_path: Path) -> None:
    looping(Counting([1.0, 2.0]), tmp_path, max_epochs=2).run()
    state = snapshot.load(tmp_path)
    best = snapshot.read(tmp_path / "resume" / "best-1.pt")
    assert (state["network"]["weight"].item(), state["best"], best["weight"].item()) == (2.0, [(1.0, 1)], 1.0)
    again = Counting([3.0, 0.5])
    outcome = looping(again, tmp_path, max_epochs=3).run(resume=True)
    assert (again.seen, weight(outcome), again.state.item()) == ([3.0], 1.0, 3.0)
    outcome = looping(Counting([0.5]), tmp_path, max_epochs=4).run(resume=True)
    assert (weight(outcome), outcome.progress.best_update) == (4.0, 4)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nan_gradient_ends_the_run_before_the_step(tmp_path: Path, value: float) -> None:
    class Steep(Counting):
        def loss(self, batch: int) -> tuple[Tensor, int]:
            loss, tokens = super().loss(batch)
            if self.state.item() == 3:
                loss.register_hook(lambda gradient: gradient * value)
            return loss, tokens

    task = Steep()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loops, "SNAPSHOT_EVERY_S", 0.0)
        with pytest.raises(TrainingError, match=r"^The gradient became (nan|inf) at update 3: lower the learning rate"):
            looping(task, tmp_path, max_epochs=9).run()
    assert task.network.weight.item() == 2.0
    assert snapshot.load(tmp_path)["network"]["weight"].item() == 2.0


def test_nan_weights_are_never_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However they came to be so."""
    task = Counting()
    average = MovingAverage.update

    def breaking(self: MovingAverage, number: int) -> None:
        average(self, number)
        if number == 3:
            task.network.weight.data.fill_(float("nan"))

    monkeypatch.setattr(loops, "SNAPSHOT_EVERY_S", 0.0)
    monkeypatch.setattr(MovingAverage, "update", breaking)
    with pytest.raises(TrainingError, match=r"^The weights are no numbers any more at update 3: lower"):
        looping(task, tmp_path, max_epochs=9).run()
    assert snapshot.load(tmp_path)["network"]["weight"].item() == 2.0
