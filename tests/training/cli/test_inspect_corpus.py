"""`inspect-corpus` says what training would leave out, and trains nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.training.cli.commands import refused
from tests.training.data.corpus_writers import tmx, tsv, write
from training.__main__ import main

ROWS = [
    ("Der Hund schläft.", "The dog is asleep."),
    ("Wo ist die Küche?", "Where is the kitchen?"),
    ("Der Hund schläft.", "The dog sleeps."),
    ("Wo ist die Küche?", "Where is the kitchen?"),
    ("Ein Vogel\u00a0singt laut.", "A bird sings loudly."),
    ("", "Nothing."),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "p.tsv", tsv(ROWS))
    write(tmp_path / "t.tsv", "ein vogel singt laut.\tA bird is singing.\n")
    return tmp_path


def inspected(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["inspect-corpus", *arguments, "--json"]) == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def test_a_single_pair_is_inspected(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "one.tmx", tmx(ROWS[:1], ("DE_de", "EN_us")))
    result = inspected(capsys, "one.tmx", "--source", "de", "--target", "en")
    assert (result["report"]["read"], result["report"]["kept"]) == (1, 1)
    assert result["first"] == {"source": ROWS[0][0], "target": ROWS[0][1]}


def test_report_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = inspected(capsys, "p.tsv", "--test", "t.tsv")
    report = result["report"]
    assert {name: reason["count"] for name, reason in report["dropped"].items()} == {
        "empty side": 1,
        "exact duplicate": 1,
        "in the test set": 1,
    }
    assert report["overlaps"] == {"test": {"pair": 0, "source": 1, "target": 0}}
    assert (report["read"], report["kept"]) == (6, 3)


def test_report_as_page(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect-corpus", "p.tsv", "--test", "t.tsv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "p.tsv: 6 pairs read, 3 left out, 3 kept",
        "          1  empty side",
        "             p.tsv:6  '' | 'Nothing.'",
        "          1  exact duplicate",
        "             p.tsv:4  'Wo ist die Küche?' | 'Where is the kitchen?'",
        "          1  in the test set",
        "             p.tsv:5  'Ein Vogel\\xa0singt laut.' | 'A bird sings loudly.'",
        "  in common with the test set: 0 whole pairs, 1 sources alone, 0 targets alone",
        "first pair, source: 'Der Hund schläft.'",
        "first pair, target: 'The dog is asleep.'",
    ]


def test_inspect_corpus_applies_cleaning_rules(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = inspected(capsys, "p.tsv", "--clean", "off")
    assert result["report"]["kept"] == 5
    assert result["report"]["dropped"].keys() == {"empty side"}


def test_languages_select_columns_of_a_translation_memory(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "m.tmx", tmx(ROWS))
    result = inspected(capsys, "m.tmx", "--source", "en", "--target", "de")
    assert result["first"]["target"] == ROWS[0][0]
    assert "say which with --source and --target" in refused(capsys, "inspect-corpus", "m.tmx")


def test_inspect_corpus_writes_no_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(folder.iterdir())
    inspected(capsys, "p.tsv")
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["missing"], "missing does not exist: give SOURCE,TARGET (two files), "),
        (
            ["missing", "--source", "German", "--target", "en"],
            "--source must be a language code such as de or pt-BR, not 'German', did you mean de?",
        ),
        (["a.de,b.en"], "a.de does not exist."),
        (["p.tsv", "--source", "de"], "Give --source and --target together, or neither."),
        (["p.tsv", "--columns", "3,1"], "p.tsv line 1 has 2 columns; --columns 3,1 asks for column 3."),
        (["p.tsv", "--clean", "colour=on"], "This cannot start: cleaning.colour is no option (--clean)"),
    ],
)
def test_wrong_arguments_are_reported(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], wanted: str
) -> None:
    assert refused(capsys, "inspect-corpus", *arguments).startswith(wanted)


def test_malformed_lines_are_skipped_on_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "pairs.tsv", b"eins\tone\nzwei\ttwo\tthree\ndrei\tthree\nvi\xffer\tfour\n")
    assert main(["inspect-corpus", str(path), "--source", "de", "--target", "en", "--clean", "malformed=skip"]) == 0
    page = capsys.readouterr().out
    assert "4 pairs read, 2 left out, 2 kept" in page
    assert "1  malformed: number of columns" in page
    assert "1  malformed: not UTF-8" in page
