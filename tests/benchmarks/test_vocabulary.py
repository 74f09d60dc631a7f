"""The race over a large vocabulary: how many sentences CTranslate2 has at once, its vocabulary map, and the goals."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import vocabulary
from benchmarks.peers.ctranslate2 import CTranslate2
from benchmarks.processes import Work
from benchmarks.race import Turns
from benchmarks.sentences import natural_cells
from tests.tiny import write_translator

CELLS = ("greedy, 1 at once", "greedy, 8 at once", "greedy, 32 at once", "beam 4, 1 at once", "beam 4, 8 at once")


class Recorder:
    def __init__(self, *_: Any, **__: Any) -> None:
        self.calls: list[tuple[int, int]] = []

    def translate_batch(self, sources: Sequence[Any], *, max_batch_size: int, **_: Any) -> list[Any]:
        self.calls.append((len(sources), max_batch_size))
        return [SimpleNamespace(hypotheses=[source]) for source in sources]


@pytest.mark.parametrize(
    ("translators", "at_once", "calls"),
    [(1, 1, [(5, 1)]), (2, 1, [(1, 1)] * 5), (2, 4, [(5, 2)]), (4, 2, [(2, 1), (2, 1), (1, 1)])],
)
def test_ctranslate2_works_on_no_more_sentences_at_once_than_we(
    monkeypatch: pytest.MonkeyPatch, translators: int, at_once: int, calls: list[tuple[int, int]]
) -> None:
    monkeypatch.setitem(sys.modules, "ctranslate2", SimpleNamespace(Translator=Recorder))
    setting = CTranslate2("folder", "int8", translators, 1)
    engine, work = setting.open(), Work(((4,), (5,), (6,), (7,), (8,)), (9,) * 5, 1, at_once)
    assert setting.tokens(engine.translate(work)) == [[4], [5], [6], [7], [8]]
    assert engine.translator.calls == calls


def test_the_map_has_what_occurs_with_a_token_and_what_occurs_most(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    checkpoint = write_translator(tmp_path / "words", "de", "en")
    lines = ["ich bin müde", "ich bin hier"]
    work = next(iter(natural_cells(checkpoint, lines, [1], []).values()))
    first, second = (set(source) for source in work.sources)

    class Crews:
        def __enter__(self) -> Crews:
            return self

        def __exit__(self, *_: object) -> None: ...

        def of(self, setting: Any) -> Crews:
            return self

        def translate(self, work: Work) -> tuple[float, list[list[int]]]:
            return 0.0, [[20, 21], [20, 22]]

    monkeypatch.setattr(vocabulary, "Crews", Crews)
    monkeypatch.setattr(vocabulary, "OWN_CANDIDATES", 1)
    monkeypatch.setattr(vocabulary, "COMMON_CANDIDATES", 1)
    vocabulary.write_map(checkpoint, lines, tmp_path)
    rows = dict(line.split("\t") for line in (tmp_path / "vmap.txt").read_text(encoding="utf-8").splitlines())
    expected = dict.fromkeys(first & second, "t20")  # the most frequent one is common, and written once
    expected |= dict.fromkeys(first - second, "t21 t20") | dict.fromkeys(second - first, "t22 t20")
    assert rows == {f"t{token}": candidates for token, candidates in expected.items()}


def test_the_faster_finalist_of_each_system_counts() -> None:
    """The scan had the other one first."""
    seconds = {"a": [4.0, 1.0, 4.0], "b": [2.0, 2.0, 2.0], "c": [9.0, 9.0, 9.0], "d": [6.0, 8.0, 7.0]}
    turns: Any = {setting: Turns(times, 14) for setting, times in seconds.items()}
    finalists: Any = {"ours": ["a", "b"], "ctranslate2": ["c", "d"]}
    row = vocabulary.row_of(finalists, turns)
    assert (row["ours"], row["ctranslate2"], row["ctranslate2_tokens_per_second"]) == ("b", "d", 2.0)
    assert (row["ratio"], row["range_to_ctranslate2"]) == (3.5, [3.0, 4.0])


def test_goals_are_those_of_the_cells() -> None:
    rows: list[dict[str, Any]] = [{"network": "trained", "cell": cell, "ratio": 4.0} for cell in CELLS]
    rows += [{"network": "random", "cell": "beam 4 × 8", "ratio": 3.6}]
    rows += [
        {"equal_to_all_logits": "ours", "beam": 1, "of": 2000, "equal": 1999},
        {"equal_to_all_logits": "ctranslate2_map", "beam": 1, "of": 2000, "equal": 1500},
    ]
    goals = vocabulary.goals(rows)
    assert [goal["met"] for goal in goals] == [False, True, True, True, True, True, False]
    assert [goal["name"].split(", ", 1)[1] for goal in goals[:5]] == list(CELLS)
