"""The race's own arithmetic, and its processes, with a contender that can be looked through."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from benchmarks import race
from benchmarks.decoding import goals
from benchmarks.processes import ContenderError, Crew, Work
from benchmarks.race import in_turns, interleave, ratio, scan
from tests.benchmarks.echo import Echo

WORK = Work(tuple((n, n) for n in range(7)), (2,) * 7, 1, 7, forced=True)


def test_work_is_split_between_processes_and_comes_back_in_order() -> None:
    with Crew(Echo(2)) as crew:
        seconds, tokens = crew.translate(WORK)
        one = crew.translate(Work(((5,),), (1,), 1, 1))[1]  # less work than processes
    assert tokens == [[n, n] for n in range(7)]
    assert one == [[5]]
    assert seconds > 0
    assert WORK.part(1, 2) == Work(((1, 1), (3, 3), (5, 5)), (2, 2, 2), 1, 4, forced=True)


@pytest.mark.parametrize(("question", "why"), [("sleep", "no answer"), ("die", "ended")])
def test_a_contender_that_hangs_or_dies_is_reported_and_leaves_no_process(question: str, why: str) -> None:
    crew = Crew(Echo())
    pid = crew.ask("pid", 30)
    with pytest.raises(ContenderError, match=why):
        crew.ask(question, 0.2 if question == "sleep" else 30)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_an_exception_of_a_contender_is_its_first_line() -> None:
    with Crew(Echo()) as crew, pytest.raises(ContenderError, match=r"^ValueError: thirteen$"):
        crew.translate(Work(((1,),), (1,), 13, 1))


def test_turns_are_taken_and_what_was_forced_must_be_written() -> None:
    with Crew(Echo()) as one, Crew(Echo(forgets=True)) as other:
        turns = interleave([one, one], WORK, rounds=3, pause_s=0)
        with pytest.raises(ContenderError, match="12 tokens and not 14"):
            interleave([one, other], WORK, rounds=1, pause_s=0)
    assert [len(t.seconds) for t in turns] == [3, 3]
    assert turns[0].tokens == 14


def test_every_other_round_is_in_the_reverse_order() -> None:
    order: list[str] = []
    turns = {name: lambda number, name=name: order.append(name) or float(number) for name in "ab"}
    assert in_turns(3, turns) == {"a": [0.0, 1.0, 2.0], "b": [0.0, 1.0, 2.0]}
    assert "".join(order) == "baabba"


def test_ratio_is_the_median_of_the_ratios_per_round() -> None:
    assert ratio([1.0, 2.0, 4.0], [2.0, 2.0, 12.0]) == (2.0, 1.0, 3.0)
    assert ratio([6.0, 2.0, 4.0], [2.0, 2.0, 2.0], rates=True) == (2.0, 1.0, 3.0)


def test_goals_are_of_cells_and_say_why_where_nothing_was_measured() -> None:
    rows = [
        {"processor": "x"},
        {"network": "base", "equal_outputs_in_fp32": 8, "of": 8},
        {"network": "tiny", "cell": "greedy 1", "ratio": 9.0},
        {"network": "base", "cell": "greedy 8", "ratio": 1.9},
        {"network": "base", "cell": "greedy 32", "failed": "no answer"},
    ]
    assert [(goal["name"], goal["met"], goal.get("why")) for goal in goals(rows)] == [
        ("tiny, greedy 1", True, None),
        ("base, greedy 8", False, None),
        ("base, greedy 32", None, "no answer"),
    ]


def test_scan_leaves_out_settings_that_fail_in_a_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(race, "PAUSE_S", 0.0)
    settings = [Echo(), Echo(2)]
    found = scan(settings, {"fine": WORK, "failing": replace(WORK, beam=13), "again": WORK})
    assert found["failing"] == []
    assert set(found["fine"]) == set(found["again"]) == set(settings)
