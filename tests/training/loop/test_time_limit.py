"""What a time limit covers: at least five validations, and what follows the last update."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.training.counting import Counting, looping
from tests.training.runs import Killed
from training import snapshot
from training.config.run_config import LoopConfig
from training.loop import trainer as loops
from training.report.progress_report import read_rows


def timed(
    patch: pytest.MonkeyPatch, folder: Path | None, *, closing_s: float = 0.0, elapsed_s: float = 0.0, dies: int = 0
) -> tuple[loops.Trainer, Counting]:
    """A loop of at most 100 s in one endless epoch: updates of a second each, validations of two. dies: the number of
    the validation in which it is killed."""
    now = [1000.0]
    patch.setattr(loops, "time", SimpleNamespace(monotonic=lambda: now[0]))
    task = Counting([float(n) for n in range(99)], batches=10_000)

    def after_loss() -> None:
        now[0] += 1.0

    validate = task.validate

    def slow() -> float | None:
        if len(task.seen) + 1 == dies:
            raise Killed
        now[0] += 2.0
        return validate()

    task.after_loss, task.validate = after_loss, slow  # type: ignore[method-assign]
    loop = looping(task, folder, max_epochs=10_000, max_minutes=100 / 60)
    loop.elapsed_s, loop.closing = elapsed_s, lambda validation_s: closing_s
    return loop, task


def test_an_epoch_longer_than_the_limit_has_five_validations(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, task = timed(monkeypatch, None)
    outcome = loop.run()
    assert task.seen == [20, 38, 56, 74, 92]  # evenly spaced: four of them take eight seconds
    assert outcome.progress.validations == 5


def test_reading_and_scoring_count_in_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, task = timed(monkeypatch, None, closing_s=30.0, elapsed_s=10.0)
    notes: list[str] = []
    monkeypatch.setattr(loop.report, "note", notes.append)
    outcome = loop.run()
    assert len(task.seen) == 5
    assert outcome.progress.update == 100 - 30 - 10 - 4 * 2
    assert notes == ["Training has ended; scoring and publishing take about 28 s."]


def test_scoring_takes_at_most_half_of_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, _ = timed(monkeypatch, None, closing_s=1000.0)
    notes: list[str] = []
    monkeypatch.setattr(loop.report, "note", notes.append)
    progress = loop.run().progress
    assert 40 <= progress.update <= 50
    beyond = progress.seconds + 998 - 100
    assert f"take about 998 s, which end about {beyond:.0f} s after the time limit." in notes[-1]


def test_a_validation_by_the_clock_is_repeated_after_a_kill(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        loop, _ = timed(patch, tmp_path, dies=2)
        with pytest.raises(Killed):
            loop.run()
    assert snapshot.load(tmp_path)["progress"]["update"] == 38
    with pytest.MonkeyPatch.context() as patch:
        loop, task = timed(patch, tmp_path)
        loop.run(resume=True)
    assert task.seen[0] == 38
    rows = [row["update"] for row in read_rows(tmp_path / "metrics.jsonl") if "valid_loss" in row]
    assert rows == sorted(set(rows))
    assert rows[:2] == [20, 38]
    assert len(rows) == 5


def test_short_epochs_are_validated_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, task = timed(monkeypatch, None)
    task.count = 10
    loop.run()
    assert task.seen[:6] == [10, 20, 30, 40, 50, 60]


def test_reading_for_long_does_not_validate_an_untrained_network(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, task = timed(monkeypatch, None, elapsed_s=50.0)
    loop.run()
    assert task.seen == [10, 18, 26, 34, 42]


@pytest.mark.parametrize(("minutes", "sentences"), [(None, 2000), (0.5, 100), (2, 200), (15, 1500), (60, 2000)])
def test_short_runs_validate_on_fewer_sentences(minutes: float | None, sentences: int) -> None:
    assert LoopConfig(max_minutes=minutes).sentences_to_validate() == sentences
