"""The best validated weights: which are kept, their files, and their mean."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.training.counting import Counting, looping
from tests.training.runs import Killed, assert_same_run, kill_at, translate
from training import snapshot
from training.config.run_config import LoopConfig
from training.errors import TrainingError
from training.loop.trainer import Trainer
from training.loop.weight_selection import BestWeights, Weights
from training.progress import Validation

pytestmark = pytest.mark.usefixtures("no_curves")


def weights(value: float) -> Weights:
    return {"weight": torch.tensor([float(value)]), "count": torch.tensor(int(value))}


def offer(candidates: BestWeights, *costs: float) -> list[bool]:
    """Offers weights with these values in turn, as of updates 1, 2, ..."""
    return [candidates.offer(cost, n, lambda n=n: weights(n)) for n, cost in enumerate(costs, start=1)]  # type: ignore[misc]


def test_the_loss_decides_among_validations_with_a_bleu_of_zero(tmp_path: Path) -> None:
    results = [Validation(7.1, 0.0), Validation(6.5, 0.0), Validation(6.8, 0.0), Validation(9.0, 0.1)]
    candidates = BestWeights(tmp_path, 2)
    assert offer(candidates, *(result.cost("bleu") for result in results)) == [True, True, False, True]


def scripted(*results: tuple[float, float]) -> Trainer:
    """A run with these losses and BLEUs, chosen by BLEU."""
    task, bleus = Counting([loss for loss, _ in results]), iter(bleu for _, bleu in results)
    options = {"max_epochs": len(results), "choose_by": "bleu", "patience": 3}
    return looping(task, validator=lambda loss: Validation(loss, next(bleus)), **options)


def test_the_loss_decides_among_equal_bleus() -> None:
    outcome = scripted((0.5, 99.0), (0.4, 100.0), (0.1, 100.0), (0.2, 100.0)).run()
    assert outcome.chosen == "the weights of update 3"
    assert outcome.validation == (0.1, 100.0, (), None)


def test_an_equal_bleu_is_no_gain() -> None:
    outcome = scripted((0.5, 100.0), (0.4, 100.0), (0.3, 100.0), (0.2, 100.0), (0.1, 100.0)).run()
    assert outcome.ended_by.startswith("3 validations without a gain")
    assert outcome.chosen == "the weights of update 4"


@pytest.mark.parametrize("on_disk", [True, False])
def test_best_weights_are_kept_best_first(tmp_path: Path, on_disk: bool) -> None:
    candidates = BestWeights(tmp_path if on_disk else None, 3)
    best = offer(candidates, 5.0, 3.0, 4.0, 3.0, float("nan"), 1.0, 9.0)
    assert [n for n, is_best in enumerate(best, start=1) if is_best] == [1, 2, 6]
    assert candidates.kept == [(1.0, 6), (3.0, 2), (3.0, 4)]
    first = candidates.best()
    assert first is not None
    assert first["weight"].item() == 6.0
    mean = candidates.mean()
    assert (mean["weight"].item(), mean["count"].item()) == (4.0, 6)
    assert mean["weight"].dtype == torch.float32


def test_weights_that_are_not_among_the_best_are_not_copied() -> None:
    candidates = BestWeights(None, 1)
    offer(candidates, 1.0)

    def unwanted() -> Weights:
        raise AssertionError

    assert not candidates.offer(2.0, 2, unwanted)


def test_files_are_removed_once_a_snapshot_no_longer_lists_them(tmp_path: Path) -> None:
    def files() -> list[str]:
        return sorted(path.name for path in (tmp_path / "resume").iterdir())

    candidates = BestWeights(tmp_path, 2)
    offer(candidates, 3.0, 2.0, 1.0)
    (tmp_path / "resume" / "best-9.pt.new").touch()  # a kill in the middle of one
    assert files() == ["best-1.pt", "best-2.pt", "best-3.pt", "best-9.pt.new"]
    candidates.sweep()
    assert files() == ["best-2.pt", "best-3.pt"]


def test_missing_weights_file_is_named(tmp_path: Path) -> None:
    looping(Counting([1.0]), tmp_path, max_epochs=1).run()
    (tmp_path / "resume" / "best-1.pt").unlink()
    with pytest.raises(TrainingError, match=r"best-1\.pt cannot be read \(no such file or directory\): restore it"):
        looping(Counting([1.0]), tmp_path, max_epochs=2).run(resume=True)


def test_mean_of_best_weights_is_chosen_if_it_validates_better() -> None:
    """Four epochs with the weights 1 to 4; by the scripted losses the best two are 2 and 3."""
    task = Counting([9.0, 2.0, 1.0, 3.0, 0.5])
    outcome = looping(task, max_epochs=4, average_best=2).run()
    assert task.seen == [1.0, 2.0, 3.0, 4.0, 2.5]
    assert outcome.weights["weight"].item() == 2.5
    assert outcome.chosen == "the mean of the 2 best validated weights (updates 2, 3)"
    assert outcome.validation is not None
    assert outcome.validation.loss == 0.5
    assert task.network.weight.item() == 4.0


def test_best_weights_are_chosen_if_their_mean_is_no_better() -> None:
    task = Counting([9.0, 2.0, 1.0, 3.0, 1.0])
    outcome = looping(task, max_epochs=4, average_best=3).run()
    assert task.seen[-1] == 3.0  # of 2, 3 and 4
    assert outcome.weights["weight"].item() == 3.0
    assert outcome.chosen == "the weights of update 3"
    assert outcome.validation is not None
    assert outcome.validation.loss == 1.0


@pytest.mark.slow
def test_best_weights_survive_a_kill(tmp_path: Path) -> None:
    loop = LoopConfig(ema_decay=0.9, average_best=3, validate_every_updates=3)
    translate(tmp_path / "whole", loop=loop)
    kept = snapshot.load(tmp_path / "whole")["best"]
    assert len(kept) == 3
    for number in (4, 9):
        out = tmp_path / f"parts{number}"
        with pytest.MonkeyPatch.context() as patch:
            kill_at(patch, number)
            with pytest.raises(Killed):
                translate(out, loop=loop)
        translate(out, loop=loop, resume=True)
        assert_same_run(tmp_path / "whole", out)
        names = {path.name for path in (out / "resume").iterdir()}
        assert names == {"state.pt", *(f"best-{update}.pt" for _, update in kept)}
