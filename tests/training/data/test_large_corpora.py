"""Corpora whose texts lie in files: the same pairs, reports, batches and weights as in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.training.small import pairs
from training.config.run_config import CleaningConfig
from training.data import sentence_pairs
from training.data.cleaning import repeated_pairs
from training.data.corpus_loading import read_run_corpora
from training.data.sentence_pairs import Pairs
from training.data.text_array import TextArray, TextWriter, blocks


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRAINING_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def large(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """From 50 pairs on a corpus is large."""
    monkeypatch.setattr(sentence_pairs, "LARGE_PAIRS", 50)
    monkeypatch.setattr(sentence_pairs, "WRITTEN_PAIRS", 7)
    return cache


TEXTS = [f"Zeile {i} " + "äß字😀"[i % 4] * (i % 5) for i in range(101)] + ["", "last"]


@pytest.mark.usefixtures("cache")
def test_a_text_array_is_a_sequence_of_its_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("training.data.text_array.BLOCK_TEXTS", 10)
    writer = TextWriter()
    writer.extend(TEXTS[:40])
    writer.extend(iter(TEXTS[40:]))
    texts = writer.finish()
    assert len(texts) == 103
    assert list(texts) == TEXTS
    assert texts == TEXTS
    assert texts != [*TEXTS[:-1], "other"]
    assert [texts[0], texts[-1], texts[57]] == [TEXTS[0], "last", TEXTS[57]]
    assert texts[90:300:4] == TEXTS[90:300:4]
    assert [text for block in blocks(texts, 8) for text in block] == TEXTS
    some = texts.select([0, 3, 57, 101, 102])
    assert isinstance(some, TextArray)
    assert list(some) == [TEXTS[i] for i in (0, 3, 57, 101, 102)]
    with pytest.raises(IndexError):
        texts[103]


def write(path: Path, given: Pairs) -> Path:
    path.write_text("".join(f"{s}\t{t}\n" for s, t in zip(given.sources, given.targets, strict=True)))
    return path


def corpora(folder: Path) -> dict[str, Any]:
    """Two files with duplicates, empty sides, and pairs of the test set."""
    one, two = pairs(120), pairs(90, seed=1)
    one = Pairs([*one.sources, *one.sources[:30], ""], [*one.targets, *one.targets[:30], "x"])
    test = Pairs(one.sources[5:9], one.targets[5:9])
    files = [write(folder / f"{name}.tsv", given) for name, given in (("one", one), ("two", two), ("test", test))]
    return {"train": [str(files[0]), str(files[1])], "test": str(files[2])}


def test_a_large_corpus_is_cleaned_and_held_out_as_a_small_one(tmp_path: Path, large: Path) -> None:
    data = corpora(tmp_path)
    spilled = read_run_corpora(data, ("aa", "bb"), CleaningConfig(), seed=3)
    assert isinstance(spilled[0].sources, TextArray)
    assert not list(large.glob("*.part*"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sentence_pairs, "LARGE_PAIRS", 10**6)
        inside = read_run_corpora(data, ("aa", "bb"), CleaningConfig(), seed=3)
    for large_part, small_part in zip(spilled, inside, strict=True):
        assert large_part is not None and small_part is not None
        assert list(large_part.sources) == small_part.sources
        assert list(large_part.targets) == small_part.targets
        assert [large_part.place(i) for i in range(len(large_part))] == [
            small_part.place(i) for i in range(len(small_part))
        ]
        assert large_part.reported() == small_part.reported()
    dropped = spilled[0].reported().dropped
    assert dropped["exact duplicate"].count >= 30
    assert dropped["in the test set"].count >= 4


def test_equal_hashes_of_other_texts_drop_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    given = Pairs(list("abcabdd"), list("xyzxyxx"))
    expected = [False, False, False, True, True, False, True]
    assert repeated_pairs(given).tolist() == expected
    monkeypatch.setattr("training.data.text_array.hash", lambda _: 7, raising=False)
    assert repeated_pairs(given).tolist() == expected
    assert repeated_pairs(Pairs([], [])).tolist() == []
