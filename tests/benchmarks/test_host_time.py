"""The benchmark of the host's time counts all of it, once, and its device computes nothing."""

from __future__ import annotations

import json

import pytest

from benchmarks import host_time
from benchmarks.host_time import PHASES, Batch, ExclusiveClock, measure


@pytest.mark.parametrize("kind", host_time.KINDS)
def test_the_phases_of_a_step_add_up_to_it(kind: str) -> None:
    taken = measure(Batch(kind, 3), steps=12)
    assert len(taken) == 12
    for step in taken:
        assert all(step[phase] > 0 for phase in PHASES)
        assert sum(step[phase] for phase in PHASES) <= step["step"]


def test_time_counts_for_the_innermost_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def pass_seconds(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr("benchmarks.host_time.time.perf_counter", lambda: now)
    clock = ExclusiveClock()
    inner = clock.wrapped(lambda: pass_seconds(2), "inner")

    def work() -> None:
        inner()
        pass_seconds(1)
        inner()

    clock.wrapped(work, "outer")()
    assert clock.seconds == {"inner": 4, "outer": 1}


def test_every_batch_has_its_goal(capsys: pytest.CaptureFixture[str]) -> None:
    host_time.main(["--json", "--rounds", "1", "--steps", "2"])
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    goals = {goal["name"].removeprefix("host time of a step, "): goal["goal"] for goal in result["goals"]}
    assert goals["greedy, batch 1"] == goals["sampling, batch 32"] == goals["beam 4, batch 128"] == 60
    assert goals["greedy, batch 512"] == goals["sampling, batch 512"] == 120
    assert len(result["rows"]) > len(goals)  # streamed batches have none
