"""A run shorter than its recipe's warm-up notes it once, as soon as its length is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.training.counting import STEP_BY_ONE, Counting, looping
from tests.training.loop.test_run_plan import Clock
from training.loop.trainer import Trainer

pytestmark = pytest.mark.usefixtures("no_curves")
WARM = replace(STEP_BY_ONE, schedule="cosine", warmup_updates=30)


def notes_of(loop: Trainer) -> tuple[list[tuple[int, str]], list[float]]:
    """(update, note), and the rates."""
    notes, rates = list[tuple[int, str]](), list[float]()
    loop.report.note = lambda note: notes.append((loop.progress.update, note))  # type: ignore[method-assign]
    loop.report.step = lambda *step: rates.append(step[4])  # type: ignore[method-assign]
    loop.run()
    return notes, rates


@pytest.mark.parametrize(("schedule", "peak"), [("cosine", 0.861), ("inverse_sqrt", 1.0), ("constant", 1.0)])
def test_warm_up_longer_than_a_quarter_is_noted(schedule: str, peak: float) -> None:
    optimizer = replace(WARM, schedule=schedule)  # type: ignore[arg-type]
    notes, rates = notes_of(looping(Counting(batches=20), optimizer=optimizer, max_epochs=4))
    sentence = "The learning rate warms up over 20 updates, a quarter of this run, and not over 30"
    assert notes == [(0, f"{sentence} (optimizer.warmup_updates).")]
    assert (rates[10], rates[20]) == (pytest.approx(0.5), pytest.approx(peak, abs=1e-3))


def test_warm_up_that_fits_is_not_noted() -> None:
    assert notes_of(looping(Counting(batches=20), optimizer=WARM, max_epochs=6))[0] == []
    assert notes_of(looping(Counting(batches=20), optimizer=STEP_BY_ONE, max_epochs=1))[0] == []


def test_note_says_1_update_in_the_singular() -> None:
    ((_, note),) = notes_of(looping(Counting(batches=4), optimizer=WARM, max_epochs=1))[0]
    assert note.startswith("The learning rate warms up over 1 update, a quarter of this run, and not over 30 ")


@pytest.mark.parametrize("schedule", ["cosine", "inverse_sqrt"])
def test_short_time_limit_notes_its_warm_up(monkeypatch: pytest.MonkeyPatch, schedule: str) -> None:
    clock = Clock(monkeypatch)
    optimizer = replace(WARM, schedule=schedule, warmup_updates=60)  # type: ignore[arg-type]
    notes, rates = notes_of(looping(clock.task(), optimizer=optimizer, max_epochs=10_000, max_minutes=2.0))
    (note,) = notes
    assert 0 < note[0] <= 10
    assert note[1].startswith("The learning rate warms up over about ")
    assert " updates, a quarter of this run, and not over 60" in note[1]
    assert len(rates) == 120
    assert max(rates) > 0.8  # it has reached its peak, from which a cosine has fallen a little by then
