"""Lines that cannot be read: refused, or with `malformed=skip` left out and counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.training.data.corpus_writers import fault
from training.config.run_config import CleaningConfig
from training.data.corpus_loading import read_pairs
from training.data.run_corpora import read_run_corpora
from training.data.sentence_pairs import LeftOutRow, Pairs, collect_pairs


def skipped(argument: str, languages: tuple[str, str] | None = None) -> tuple[Pairs, dict[str, list[str]]]:
    """The pairs, and the places of what was left out, by reason."""
    pairs = read_pairs(argument, languages, skip_malformed=True)
    report = pairs.reported()
    assert report.read == len(pairs) + report.left_out
    return pairs, {name: [example.place for example in reason.examples] for name, reason in report.dropped.items()}


def test_malformed_lines_of_a_table_are_left_out_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_bytes(b"only one\neins\tone\nzw\xffei\ttwo\ndrei\tthree\textra\nv\x00ier\tfour\n\nf\xc3\xbcnf\tfive")
    assert fault(str(path)).startswith(f"{path} line 1 has 1 column; a pair is two texts with one tab between;")
    pairs, places = skipped(str(path))
    assert list(zip(pairs.sources, pairs.targets, strict=True)) == [("eins", "one"), ("fünf", "five")]
    assert places == {
        "malformed: number of columns": [f"{path}:1", f"{path}:4"],
        "malformed: not UTF-8": [f"{path}:3"],
        "malformed: NUL character": [f"{path}:5"],
    }
    assert [pairs.place(i) for i in range(2)] == [f"{path}:2", f"{path}:7"]


def test_malformed_records_are_left_out_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_bytes(
        b'{"de": "eins", "en": "one"}\n{"de": "zwei"\n[1]\n{"de": "drei"}\n{"de": "\\ud800", "en": "x"}\n\xff\n'
        b'{"de": 4, "en": "four"}\n'
    )
    pairs, places = skipped(str(path), ("de", "en"))
    assert pairs.sources == ["eins"]
    assert places == {
        "malformed: no JSON object": [f"{path}:2", f"{path}:3"],
        "malformed: no pair of texts": [f"{path}:4", f"{path}:5", f"{path}:7"],
        "malformed: not UTF-8": [f"{path}:6"],
    }


def test_a_malformed_line_of_one_parallel_file_takes_its_partner_with_it(tmp_path: Path) -> None:
    source, target = tmp_path / "a.de", tmp_path / "a.en"
    source.write_bytes(b"eins\nzw\xffei\ndrei\nvier\n")
    target.write_bytes(b"one\ntwo\nth\x00ree\nfour\n")
    pairs, places = skipped(f"{source},{target}")
    assert (pairs.sources, pairs.targets) == (["eins", "vier"], ["one", "four"])
    assert places == {
        "malformed: not UTF-8": [f"{source},{target}:2"],
        "malformed: NUL character": [f"{source},{target}:3"],
    }
    target.write_bytes(b"one\ntwo\nth\x00ree\n")
    with pytest.raises(ValueError, match=r"has 4 lines and .* has 3: line n of one must translate line n of the other"):
        skipped(f"{source},{target}")


def test_a_file_without_a_readable_line_names_the_first_problem(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_bytes(b"one\ntwo\n")
    with pytest.raises(ValueError, match=r"holds no pair .* the first: .* line 1 has 1 column; a pair is two texts"):
        skipped(str(path))


def test_a_run_skips_malformed_training_pairs_alone(tmp_path: Path) -> None:
    train, valid = tmp_path / "train.tsv", tmp_path / "valid.tsv"
    train.write_bytes(b"eins\tone\nzw\xffei\ttwo\ndrei\tthree\n")
    valid.write_bytes(b"vier\tfour\nf\xffnf\tfive\n")
    skip = CleaningConfig(malformed="skip")
    pairs, _, _ = read_run_corpora({"train": [str(train)]}, ("de", "en"), skip, seed=1)
    assert pairs.sources == ["eins", "drei"]
    assert pairs.reported().dropped["malformed: not UTF-8"].count == 1
    for cleaning, data in (
        (skip, {"train": str(train), "valid": str(valid)}),
        (CleaningConfig(), {"train": str(train)}),
    ):
        with pytest.raises(ValueError, match=r"is not valid UTF-8: line 2 has a broken character"):
            read_run_corpora(data, ("de", "en"), cleaning, seed=1)


def test_a_reader_leaves_a_row_out_for_a_reason_of_its_own() -> None:
    rows = [(1, "eins", "one"), LeftOutRow(2, "fuzzy", "zwei"), (3, "drei", "three")]
    report = collect_pairs(rows, "memory.po").reported()
    assert (report.read, report.left_out) == (3, 1)
    assert [(name, reason.examples[0].place) for name, reason in report.dropped.items()] == [("fuzzy", "memory.po:2")]
    with pytest.raises(ValueError, match=r"^memory.po holds no pair of sentences\.$"):
        collect_pairs(rows[1:2], "memory.po")
