"""Validation pairs out of the training pairs."""

from __future__ import annotations

import pytest

from training.data.cleaning import hold_out
from training.data.sentence_pairs import Pairs, collect_pairs


def test_held_out_pairs_are_not_in_training() -> None:
    # every target stands under four sources, every tenth source twice
    sources = [f"s{i - i % 10 if i % 10 == 1 else i}" for i in range(1000)]
    given = Pairs(sources, [f"t{i % 250}" for i in range(1000)], "file")
    train, valid = hold_out(given, seed=3)
    assert valid is not None
    assert len(valid) == 100
    assert not set(train.sources) & set(valid.sources)
    assert not set(train.targets) & set(valid.targets)
    together = set(zip(given.sources, given.targets, strict=True))
    assert set(zip(train.sources, train.targets, strict=True)) <= together
    assert set(zip(valid.sources, valid.targets, strict=True)) <= together
    # at most: 100 targets with four sources each, and the twins of these
    assert 1000 - 100 * 4 * 2 <= len(train) <= 900
    assert train.origin == "file"
    assert valid.origin == "100 pairs held out of file"


def test_hold_out_is_decided_by_the_seed_alone() -> None:
    given = Pairs([f"s{i}" for i in range(500)], [f"t{i}" for i in range(500)])
    assert hold_out(given, 1) == hold_out(given, 1)
    assert hold_out(given, 1) != hold_out(given, 2)


@pytest.mark.parametrize(
    ("count", "held_out"), [(99, 0), (100, 10), (2000, 200), (5000, 500), (24_999, 500), (29_000, 580), (60_000, 1000)]
)
def test_how_many_pairs_are_held_out(count: int, held_out: int) -> None:
    train, valid = hold_out(Pairs([f"s{i}" for i in range(count)], [f"t{i}" for i in range(count)]), 1)
    assert (len(train), len(valid) if valid else 0) == (count - held_out, held_out)


def test_hold_out_of_identical_pairs_is_none() -> None:
    given = Pairs([f"s{i}" for i in range(200)], ["yes"] * 200)
    assert hold_out(given, 1) == (given, None)


def test_near_duplicates_are_held_out_together() -> None:
    sources = [f"Ein Hund {i}" for i in range(100)] + [f"ein  HUND {i}" for i in range(100)]
    train, valid = hold_out(Pairs(sources, [f"t{i}" for i in range(200)], "file"), seed=1)
    assert valid is not None
    held = {" ".join(source.lower().split()) for source in valid.sources}
    assert not held & {" ".join(source.lower().split()) for source in train.sources}


def test_held_out_pairs_keep_their_places() -> None:
    given = collect_pairs([(2 * i + 7, f"s{i}", f"t{i}") for i in range(200)], "file")
    train, valid = hold_out(given, seed=1)
    assert valid is not None
    for part in (train, valid):
        assert [part.place(i) for i in range(len(part))] == [f"file:{2 * int(s[1:]) + 7}" for s in part.sources]


def test_the_report_accounts_for_every_pair() -> None:
    given = collect_pairs([(i, f"s{i // 2}", f"t{i}") for i in range(1000)], "file")  # every source stands twice
    train, valid = hold_out(given, seed=1)
    assert valid is not None
    assert train.report is not None
    assert given.report is not None
    twins = len(set(valid.sources)) * 2 - len(valid)
    assert twins > 0
    assert train.report.held_out == len(valid) == 100
    assert {name: reason.count for name, reason in train.report.dropped.items()} == {
        "shares a side with a held-out pair": twins
    }
    assert train.report.kept == len(train) == 1000 - 100 - twins
    assert given.report.left_out == 0  # the report of the whole corpus stays as it was
    line = next(train.report.lines())
    assert line == f"file: 1,000 pairs read, {twins} left out, 100 held out, {900 - twins} kept"


def test_a_small_held_out_set_is_named_with_its_uncertainty() -> None:
    train, _ = hold_out(Pairs([f"s{i}" for i in range(2000)], [f"t{i}" for i in range(2000)]), 1)
    assert train.report is not None
    [note] = train.report.notes
    assert note == (
        "only 200 pairs are held out, so that a BLEU on them is uncertain by about ± 3.4 (95 % interval); --valid FILE"
        " takes 500 or more pairs of your own"
    )
    train, _ = hold_out(Pairs([f"s{i}" for i in range(5000)], [f"t{i}" for i in range(5000)]), 1)
    assert train.report is not None
    assert train.report.notes == []
