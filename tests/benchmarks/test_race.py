"""The race's own arithmetic, and its processes, with a contender that can be looked through."""

from __future__ import annotations

import os

import pytest

from benchmarks.decoding import goals
from benchmarks.processes import ContenderError, Crew, Work
from benchmarks.race import interleave, ratio
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


def test_ratio_is_the_median_of_the_ratios_per_round() -> None:
    assert ratio([1.0, 2.0, 4.0], [2.0, 2.0, 12.0]) == (2.0, 1.0, 3.0)


def test_goals_come_from_the_base_shape_and_say_why_where_nothing_was_measured() -> None:
    rows = [
        {"network": "tiny", "cell": "greedy 1", "ratio": 9.0},
        {"network": "base", "cell": "greedy 8", "ratio": 0.79},
        {"network": "base", "cell": "greedy 32", "failed": "no answer"},
        {"network": "base", "cell": "beam 4 × 32", "ratio": 1.5},
    ]
    result = {goal["name"]: (goal["value"], goal["met"], goal.get("why")) for goal in goals(rows)}
    assert result["base, greedy 1"] == (None, None, "this cell was not run")
    assert result["base, greedy 8"] == (0.79, False, None)
    assert result["base, greedy 32"] == (None, None, "no answer")
    assert result["base, beam 4 × 32"] == (1.5, True, None)
