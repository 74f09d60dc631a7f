"""A falling rate with a time limit, over many short epochs: what no snapshot holds, no clock may have decided."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.training.counting import STEP_BY_ONE, Counting, looping
from tests.training.runs import Killed
from training import snapshot
from training.loop import trainer as loops
from training.loop.trainer import Trainer

LINEAR = replace(STEP_BY_ONE, schedule="linear", final_fraction=0.0)


class Timed:
    """A loop of two minutes in epochs of four updates of `seconds` each, and its rates."""

    def __init__(self, patch: pytest.MonkeyPatch, folder: Path | None, seconds: float, dies_after: int = -1) -> None:
        now, self.rates = [0.0], list[float]()
        patch.setattr(loops, "time", SimpleNamespace(monotonic=lambda: now[0]))
        patch.setattr(loops, "SNAPSHOT_EVERY_S", 50.0)
        task = Counting(batches=4)

        def after_loss() -> None:
            if len(self.rates) == dies_after:
                raise Killed
            now[0] += seconds

        task.after_loss = after_loss
        self.loop: Trainer = looping(task, folder, optimizer=LINEAR, max_epochs=10_000, max_minutes=2.0)
        self.loop.report.step = lambda *said: self.rates.append(said[4])  # type: ignore[method-assign]

    def run(self, *, resume: bool = False) -> list[float]:
        self.loop.run(resume=resume)
        return self.rates


@pytest.mark.every_value
@pytest.mark.parametrize("dies_after", [9, 43, 91, 117])
@pytest.mark.parametrize("seconds", [0.98, 1.0, 1.02])
def test_resume_at_another_speed_repeats_the_learning_rates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies_after: int, seconds: float
) -> None:
    """One that is not so far from the first that the schedule must follow it."""
    killed = Timed(monkeypatch, tmp_path, 1.0, dies_after)
    with pytest.raises(Killed):
        killed.run()
    lost = killed.rates[snapshot.load(tmp_path)["progress"]["update"] :]
    assert len(lost) > 2
    again = Timed(monkeypatch, tmp_path, seconds).run(resume=True)
    assert again[: len(lost)] == lost


def test_schedule_ends_at_the_time_limit_over_any_number_of_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = Timed(monkeypatch, None, 1.0).run()
    assert len(rates) == 120
    gone = 6 / 40_000  # the updates that were left before the first reading of the clock
    assert rates[6:] == pytest.approx([(1 - gone) * (1 - n / 114) for n in range(114)])
