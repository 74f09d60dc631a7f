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


def test_goals_are_of_the_shapes_that_ran_and_say_why_where_nothing_was_measured() -> None:
    rows = [
        {"network": "tiny", "cell": "greedy 1", "ratio": 9.0},
        {"network": "base", "cell": "greedy 8", "ratio": 1.9},
        {"network": "base", "cell": "greedy 32", "failed": "no answer"},
        {"network": "base", "cell": "greedy 64", "ratio": 2.0, "int8_share": 0.7},
        {"network": "base", "cell": "beam 4 × 32", "ratio": 1.5, "missing": []},
        {"network": "my-model, natural length", "cell": "greedy 1", "ratio": 1.0},
        {"network": "base", "equal_outputs_in_fp32": "ctranslate2", "of": 8, "equal": 8},
    ]
    ratios = [goal for goal in goals(rows) if goal["unit"] == "× CTranslate2"]
    assert [(goal["name"], goal["met"], goal.get("why")) for goal in ratios] == [
        ("tiny, greedy 1", True, None),
        ("base, greedy 8", False, None),
        ("base, greedy 32", None, "no answer"),
        ("base, greedy 64", True, None),
        ("base, beam 4 × 32", False, None),
    ]
    (share,) = [goal for goal in goals(rows) if goal["unit"] == "of the int8 peak"]
    assert (share["name"], share["value"], share["met"]) == ("base, greedy 64", 0.7, False)
