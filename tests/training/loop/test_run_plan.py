"""What the rate follows: shapes by hand, plans that bend and do not jump, clocks, and patience that lets it fall."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import pytest

from tests.training.counting import STEP_BY_ONE, Counting, looping
from tests.training.runs import Killed, kill_at
from training.config.overrides import options_of
from training.config.run_config import OptimizerConfig
from training.config.schedules import SCHEDULES
from training.errors import CannotStart
from training.loop import trainer as loops
from training.loop.run_plan import SchedulePlan, learning_rate
from training.loop.trainer import Trainer
from training.progress import Outcome
from training.report.progress_report import read_rows

pytestmark = pytest.mark.usefixtures("no_curves")
LINEAR = replace(STEP_BY_ONE, schedule="linear", final_fraction=0.0)


PEAK = OptimizerConfig(learning_rate=2.0, warmup_updates=4, final_fraction=0.1, decay_fraction=0.25)
# schedule -> the rates of PEAK in update 64, when these fractions of the run are over
FRACTIONS = (0.0, 0.5, 0.75, 0.875, 1.0, 1.5)
CURVES = {
    "constant": (2.0, 2.0, 2.0, 2.0, 2.0, 2.0),
    "inverse_sqrt": (0.5, 0.5, 0.5, 0.5, 0.5, 0.5),
    "cosine": (2.0, 1.1, 0.4636039, 0.2685084, 0.2, 0.2),
    "linear": (2.0, 1.1, 0.65, 0.425, 0.2, 0.2),
    "trapezoid": (2.0, 2.0, 2.0, 1.1, 0.2, 0.2),
    "wsd": (2.0, 2.0, 2.0, 0.7272078, 0.2, 0.2),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_rate_follows_the_curve_of_its_schedule(schedule: str) -> None:
    assert schedule in CURVES, f"give the rates of {schedule} in CURVES of {__file__}"
    rates = [learning_rate(replace(PEAK, schedule=schedule), 64, fraction) for fraction in FRACTIONS]
    assert rates == pytest.approx(CURVES[schedule])
    falls = SCHEDULES[schedule].falls
    assert falls == (rates[0] > rates[-1]), (
        f"falls of {schedule} in SCHEDULES must be {not falls}: its rates are {rates}"
    )


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_parameters_of_a_schedule_are_options_with_a_help_text(schedule: str) -> None:
    options = options_of(OptimizerConfig)
    for name in SCHEDULES[schedule].parameters:
        assert name in options, f"{name} of {schedule} is no option: add it to OptimizerConfig in config/run_config.py"
        assert options[name].description


def test_every_schedule_is_a_choice_of_the_option_and_no_other_name_is() -> None:
    assert get_args(options_of(OptimizerConfig)["schedule"].annotation) == tuple(SCHEDULES)
    with pytest.raises(CannotStart, match="schedule must be one of constant, "):
        replace(PEAK, schedule="none")


def test_plan_is_continuous_where_it_bends() -> None:
    plan = SchedulePlan()
    assert (plan.at(7), plan.remaining(7)) == (0.0, math.inf)
    plan.bend(0, 100)
    assert [plan.at(n) for n in (0, 25, 50)] == pytest.approx([0.0, 0.25, 0.5])
    plan.bend(50, 10)
    assert [plan.at(n) for n in (50, 55, 60, 61)] == pytest.approx([0.5, 0.75, 1.0, 1.0])
    assert plan.remaining(58) == pytest.approx(2.0)
    plan.bend(60, 40)  # it is over and stays so
    assert plan.at(70) == 1.0
    assert plan.remaining(70) == 0.0


class Rates:
    """The rates that a loop's updates have, which are also what its weight moves by."""

    def __init__(self, loop: Trainer) -> None:
        self.seen: list[float] = []
        original = loop.report.step

        def step(update: int, epoch: int, loss: float, tokens: int, now: float, fraction: float) -> None:
            self.seen.append(now)
            original(update, epoch, loss, tokens, now, fraction)

        loop.report.step = step  # type: ignore[method-assign]


def run(loop: Trainer, *, resume: bool = False) -> tuple[list[float], Outcome]:
    rates = Rates(loop)
    outcome = loop.run(resume=resume)
    return rates.seen, outcome


@pytest.mark.parametrize(
    ("schedule", "wanted"),
    [
        ("cosine", [1.0, 0.8535534, 0.5, 0.1464466]),
        ("linear", [1.0, 0.75, 0.5, 0.25]),
        ("trapezoid", [1.0, 1.0, 1.0, 0.5]),
        ("constant", [1.0] * 4),
    ],
)
def test_a_schedule_falls_until_the_last_epoch(schedule: str, wanted: list[float]) -> None:
    optimizer = replace(LINEAR, schedule=schedule, decay_fraction=0.5)
    assert run(looping(Counting(batches=2), optimizer=optimizer, max_epochs=2))[0] == pytest.approx(wanted)


def test_accumulated_batches_count_as_one_update() -> None:
    rates, _ = run(looping(Counting(batches=4), optimizer=LINEAR, max_epochs=2, gradient_accumulation=2))
    assert rates == pytest.approx([1.0, 0.75, 0.5, 0.25])


def test_more_epochs_at_a_resume_let_the_rate_fall_from_where_it_stood(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        kill_at(patch, 2)  # behind the second of four epochs
        with pytest.raises(Killed):
            run(looping(Counting(), tmp_path, optimizer=LINEAR, max_epochs=4))
    loop, notes = looping(Counting(), tmp_path, optimizer=LINEAR, max_epochs=7), list[str]()
    loop.report.note = notes.append  # type: ignore[method-assign]
    assert run(loop, resume=True)[0] == pytest.approx([0.5, 0.4, 0.3, 0.2, 0.1])
    (note,) = notes
    assert note.startswith("The limits have changed: 50% of the schedule is over, and the learning rate falls from ")


def test_more_epochs_after_the_end_do_not_raise_the_rate_again(tmp_path: Path) -> None:
    optimizer = replace(LINEAR, final_fraction=0.1)
    run(looping(Counting(), tmp_path, optimizer=optimizer, max_epochs=3))
    loop, notes = looping(Counting(), tmp_path, optimizer=optimizer, max_epochs=5), list[str]()
    loop.report.note = notes.append  # type: ignore[method-assign]
    assert run(loop, resume=True)[0] == pytest.approx([0.1, 0.1])
    assert notes == [
        "The limits have changed: 100% of the schedule is over, and the learning rate stays at its lowest."
    ]


class Clock:
    """A clock that only the task moves."""

    def __init__(self, patch: pytest.MonkeyPatch, *, seconds: float = 1.0) -> None:
        self.now, self.seconds = 0.0, seconds
        patch.setattr(loops, "time", SimpleNamespace(monotonic=lambda: self.now))

    def task(self, batches: int = 1000) -> Counting:
        task = Counting(batches=batches)

        def pass_time() -> None:
            self.now += self.seconds

        task.after_loss = pass_time
        return task


def test_a_falling_rate_meets_its_end_at_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    rates, outcome = run(looping(clock.task(), optimizer=LINEAR, max_epochs=10_000, max_minutes=2.0))
    assert outcome.ended_by == "the limit of 2 minutes"
    assert len(rates) == 120
    assert rates[:6] == pytest.approx([1.0] * 6, abs=1e-4)  # nothing is known of the speed yet
    assert rates[6:] == pytest.approx([1 - n / 114 for n in range(114)], abs=1e-4)


def test_a_machine_that_slows_down_lets_the_rate_fall_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    task = clock.task()
    loop = looping(task, optimizer=LINEAR, max_epochs=10_000, max_minutes=10.0)
    rates = Rates(loop)
    step = loop._step

    def slowing(group: list[int]) -> None:
        clock.seconds = 1.0 if len(rates.seen) < 300 else 3.0
        step(group)

    loop._step = slowing  # type: ignore[method-assign, assignment]
    loop.run()
    assert len(rates.seen) == 400
    assert rates.seen[299] == pytest.approx(0.5, abs=0.05)
    assert rates.seen[-1] < 0.05
    assert max(abs(a - b) for a, b in zip(rates.seen, rates.seen[1:], strict=False)) < 0.02


@pytest.mark.parametrize("dies_after", [3, 40, 77, 119])
def test_clock_decisions_survive_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies_after: int) -> None:
    """Snapshots come every 50 seconds; whatever the killed run did after its last one, the resumed one does again.
    `test_clock_and_epochs` resumes on a machine of another speed."""
    monkeypatch.setattr(loops, "SNAPSHOT_EVERY_S", 50.0)
    clock = Clock(monkeypatch)
    whole, _ = run(looping(clock.task(), optimizer=LINEAR, max_epochs=10_000, max_minutes=2.0))
    clock.now = 0.0
    task = clock.task()
    loop = looping(task, tmp_path, optimizer=LINEAR, max_epochs=10_000, max_minutes=2.0)
    rates = Rates(loop)
    step = loop._step

    def dying(group: list[int]) -> None:
        if len(rates.seen) == dies_after:
            raise Killed
        step(group)

    loop._step = dying  # type: ignore[method-assign, assignment]
    with pytest.raises(Killed):
        loop.run()
    assert rates.seen == whole[:dies_after]
    if dies_after < 6:
        assert not (tmp_path / "resume").exists()
        return
    again = clock.task()
    loop = looping(again, tmp_path, optimizer=LINEAR, max_epochs=10_000, max_minutes=2.0)
    resumed, _ = run(loop, resume=True)
    assert resumed == whole[-len(resumed) :]
    assert len(resumed) >= 120 - dies_after


def test_patience_lets_a_high_rate_fall_from_the_best_weights_before_it_ends_the_run(tmp_path: Path) -> None:
    """The best of 20 epochs is the 8th; two more without a gain, then 0.3 of 10 updates to cool down, in which the 11th
    is better still."""
    task = Counting([9.0 - n for n in range(8)] + [5.0, 5.0, 0.5, 5.0])
    loop = looping(task, tmp_path, optimizer=LINEAR, max_epochs=20, patience=2, cooldown=0.3)
    rates, outcome = run(loop)
    events = [row for row in read_rows(tmp_path / "metrics.jsonl") if "event" in row]
    assert [(row["event"], row["update"], row["epoch"]) for row in events] == [("cool-down", 10, 10), ("end", 13, 13)]
    assert events[0]["from_update"] == 8
    assert events[0]["reason"].startswith("2 validations without a gain: back to the weights of update 8")
    assert outcome.ended_by == "2 validations without a gain, and a cool-down"
    assert rates[:10] == pytest.approx([1 - n / 20 for n in range(10)])
    assert rates[10:] == pytest.approx([1 / 2, 1 / 3, 1 / 6])
    assert (outcome.progress.best_update, outcome.progress.update) == (11, 13)
    assert task.seen[:10] == pytest.approx([sum(rates[:n]) for n in range(1, 11)])
    assert task.seen[10:] == pytest.approx([sum(rates[:8]) + sum(rates[10:n]) for n in (11, 12, 13)])


def test_the_moving_average_goes_back_to_the_best_weights_too() -> None:
    task = Counting([1.0, 2.0, 2.0, 2.0])
    loop = looping(task, optimizer=LINEAR, max_epochs=20, patience=2, cooldown=1 / 3, ema_decay=0.5)
    rates, _ = run(loop)
    best = 9 / 11 * rates[0]  # the average of update 1, with a decay of 2/11
    assert len(rates) == 4
    decay = (1 + 4) / (10 + 4)
    assert task.seen[0] == pytest.approx(best)
    assert task.seen[3] == pytest.approx(best + (1 - decay) * rates[3])


@pytest.mark.parametrize("options", [{"cooldown": 0.0}, {"schedule": "constant"}, {"schedule": "inverse_sqrt"}])
def test_patience_ends_a_run_at_once_under_a_constant_rate(options: dict[str, object]) -> None:
    optimizer = replace(LINEAR, schedule=options.get("schedule", "linear"))  # type: ignore[arg-type]
    task = Counting([1.0] * 20)
    _, outcome = run(
        looping(task, optimizer=optimizer, max_epochs=20, patience=3, cooldown=options.get("cooldown", 0.2))
    )
    assert (outcome.ended_by, outcome.progress.update) == ("3 validations without a gain", 4)


def test_a_cool_down_goes_on_after_a_kill(tmp_path: Path) -> None:
    options = {"optimizer": LINEAR, "max_epochs": 20, "patience": 2, "cooldown": 0.5}
    whole, _ = run(looping(Counting([1.0] + [2.0] * 19), **options))  # type: ignore[arg-type]
    with pytest.MonkeyPatch.context() as patch:
        kill_at(patch, 4)
        with pytest.raises(Killed):
            run(looping(Counting([1.0] + [2.0] * 19), tmp_path, **options))  # type: ignore[arg-type]
    rest, outcome = run(looping(Counting([2.0] * 19), tmp_path, **options), resume=True)  # type: ignore[arg-type]
    assert len(whole) == 5  # three, and a cool-down of half as many
    assert rest == whole[4:]
    assert outcome.ended_by == "2 validations without a gain, and a cool-down"
    again, outcome = run(looping(Counting([2.0] * 19), tmp_path, **options), resume=True)  # type: ignore[arg-type]
    assert (again, outcome.ended_by) == ([], "2 validations without a gain, and a cool-down")


def test_a_cool_down_never_outlasts_the_plan() -> None:
    task = Counting([1.0] + [2.0] * 19)
    rates, outcome = run(looping(task, optimizer=LINEAR, max_epochs=5, patience=3, cooldown=1.0))
    assert rates == pytest.approx([1.0, 0.8, 0.6, 0.4, 0.2])
    assert outcome.progress.update == 5


def test_patience_that_ends_with_the_plan_leaves_nothing_to_cool_down(tmp_path: Path) -> None:
    """More epochs at a resume do not train at the last rate for ever."""
    options = {"optimizer": LINEAR, "patience": 2, "cooldown": 0.5}
    task = Counting([1.0, 2.0, 3.0])
    rates, outcome = run(looping(task, tmp_path, max_epochs=3, **options))
    assert (len(rates), outcome.ended_by) == (3, "the limit of 3 epochs")
    rates, outcome = run(looping(Counting([4.0] * 9), tmp_path, max_epochs=9, **options), resume=True)
    assert (rates, outcome.ended_by) == ([], "2 validations without a gain, and a cool-down")
