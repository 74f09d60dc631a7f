"""Two files, line by line, and where two files of unequal length part."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from tests.training.data.corpus_writers import fault, write
from training.data.corpus_files import parting
from training.data.corpus_loading import read_pairs


def sentences(count: int, seed: int) -> list[tuple[str, str]]:
    """Sides with lengths within a tenth of each other, as in translations."""
    generator = random.Random(seed)
    lengths = [generator.randint(5, 120) for _ in range(count)]
    return [("x" * n, "y" * round(n * generator.uniform(1.1, 1.3))) for n in lengths]


def where_they_part(texts: list[str], others: list[str]) -> int:
    return parting(np.array([len(text) for text in texts], int), np.array([len(text) for text in others], int))


def test_every_pair_knows_its_line(tmp_path: Path) -> None:
    source, target = write(tmp_path / "a.de", "eins\n\ndrei\n"), write(tmp_path / "a.en.gz", "one\ntwo\nthree\n")
    result = read_pairs(f"{source},{target}")
    assert list(zip(result.sources, result.targets, strict=True)) == [("eins", "one"), ("drei", "three")]
    assert [result.place(i) for i in range(2)] == [f"{source},{target}:1", f"{source},{target}:3"]
    assert result.report is not None
    assert result.report.as_json()["dropped"] == {
        "empty side": {
            "count": 1,
            "examples": [{"place": f"{source},{target}:2", "source": "", "target": "two"}],
        }
    }


@pytest.mark.parametrize("lost", [0, 1, 57, 300, 498])
@pytest.mark.parametrize("side", [0, 1])
def test_line_lost_in_one_file_is_located(tmp_path: Path, lost: int, side: int) -> None:
    sides = [list(texts) for texts in zip(*sentences(500, seed=lost), strict=True)]
    del sides[side][lost]
    assert abs(where_they_part(*sides) - (lost + 1)) <= 3  # neighbours of similar length are indistinguishable
    files = [write(tmp_path / f"{name}", "\n".join(texts) + "\n") for name, texts in zip("ab", sides, strict=True)]
    counts = f"{files[0]} has {len(sides[0])} lines and {files[1]} has {len(sides[1])}"
    where = (
        "at line 500 at the latest"
        if where_they_part(*sides) == 500
        else f"most likely at line {where_they_part(*sides)}"
    )
    assert fault(f"{files[0]},{files[1]}") == (
        f"{counts}: line n of one must translate line n of the other, and they part {where}."
    )


def test_extra_block_of_lines_is_located() -> None:
    sides = [list(texts) for texts in zip(*sentences(400, seed=9), strict=True)]
    sides[1][250:250] = ["y" * 30] * 12
    assert abs(where_they_part(*sides) - 251) <= 3


def test_extra_blank_line_is_located_exactly() -> None:
    texts, others = ["eins zwei", "drei", "vier fünf sechs"], ["one two", "", "three", "four five six"]
    assert where_they_part(texts, others) == 2


def test_file_that_ends_early_is_located_at_its_end() -> None:
    sides = [list(texts) for texts in zip(*sentences(400, seed=3), strict=True)]
    del sides[0][370:]
    assert where_they_part(*sides) == 371
    assert where_they_part([], ["one", "two"]) == 1


def test_lines_of_one_length_say_nothing_so_the_latest_line_is_named(tmp_path: Path) -> None:
    source, target = write(tmp_path / "a", "x\n" * 3), write(tmp_path / "b", "x\n" * 4)
    assert fault(f"{source},{target}") == (
        f"{source} has 3 lines and {target} has 4: line n of one must translate line n of the other,"
        " and they part at line 4 at the latest."
    )
