"""`inspect-corpus` describes a corpus and trains nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.training.cli.commands import refused
from tests.training.data.corpus_writers import tmx, tsv, write
from training.__main__ import main
from training.cli.inspect_command import is_text

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
    write(tmp_path / "s.txt", "la la\nla la\n\nlü\u200b\n" * 20 + "Ende")
    return tmp_path


def inspected(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["inspect-corpus", *arguments, "--json"]) == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def test_a_single_pair_is_inspected(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "one.tmx", tmx(ROWS[:1], ("DE_de", "EN_us")))
    result = inspected(capsys, "one.tmx", "--source", "de", "--target", "en")
    assert (result["report"]["read"], result["report"]["kept"]) == (1, 1)
    assert result["lengths"]["words"]["source"]["mean"] == 3


def test_pair_statistics_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = inspected(capsys, "p.tsv", "--test", "t.tsv")
    report = result["report"]
    assert {name: reason["count"] for name, reason in report["dropped"].items()} == {
        "empty side": 1,
        "exact duplicate": 1,
        "in the test set": 1,
    }
    assert report["overlaps"] == {"test": {"pair": 0, "source": 1, "target": 0}}
    assert (report["read"], report["kept"]) == (6, 3)
    words = result["lengths"]["words"]
    assert {side: (v["mean"], v["least"], v["most"]) for side, v in words.items()} == {
        "source": (3.33, 3, 4),
        "target": (3.67, 3, 4),
    }
    assert words["source"]["histogram"][3:] == [{"at_least": 3, "count": 2}, {"at_least": 4, "count": 1}]
    assert result["characters_per_source_character"]["median"] == pytest.approx(18 / 17, abs=1e-3)
    assert result["repeated"]["source"] == {"distinct": 2, "most": [{"text": ROWS[0][0], "count": 2}]}
    assert result["repeated"]["target"] == {"distinct": 3, "most": []}
    assert result["sources_with_several_targets"] == 1
    assert result["inventory"]["source"]["odd"] == []
    assert result["inventory"]["source"]["scripts"] == {"latin": 41}


def test_odd_characters_name_their_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odd = inspected(capsys, "p.tsv")["inventory"]["source"]["odd"]
    expected = {"character": "U+00A0 NO-BREAK SPACE", "kind": "unusual space", "count": 1, "first": "p.tsv:5"}
    assert odd == [expected]


def test_pair_statistics_as_page(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect-corpus", "p.tsv", "--test", "t.tsv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:8] == [
        "p.tsv: 6 pairs read, 3 left out, 3 kept",
        "          1  empty side",
        "             p.tsv:6  '' | 'Nothing.'",
        "          1  exact duplicate",
        "             p.tsv:4  'Wo ist die Küche?' | 'Where is the kitchen?'",
        "          1  in the test set",
        "             p.tsv:5  'Ein Vogel\\xa0singt laut.' | 'A bird sings loudly.'",
        "  in common with the test set: 0 whole pairs, 1 sources alone, 0 targets alone",
    ]
    assert "words, source: mean 3.33, least 3, 1 % 3, 5 % 3, median 3, 95 % 3, 99 % 3, most 4" in lines
    bars = [line for line in lines if line.startswith("       3 –")]
    assert bars == ["       3 –          2 " + "█" * 24 + "          1 " + "█" * 12]
    assert "       2 times  'Der Hund schläft.'" in lines
    assert "sources with several targets: 1" in lines


def test_inspect_corpus_applies_cleaning_rules(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = inspected(capsys, "p.tsv", "--clean", "off")
    assert result["report"]["kept"] == 5
    assert result["report"]["dropped"].keys() == {"empty side"}


def test_languages_select_columns_of_a_translation_memory(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder / "m.tmx", tmx(ROWS))
    result = inspected(capsys, "m.tmx", "--source", "en", "--target", "de")
    assert result["repeated"]["target"]["most"] == [{"text": ROWS[0][0], "count": 2}]
    assert "say which with --source and --target" in refused(capsys, "inspect-corpus", "m.tmx")


def test_text_statistics_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = inspected(capsys, "s.txt")
    assert (result["origin"], result["lines"], result["blank_lines"]) == ("s.txt", 81, 20)
    assert result["repeated"]["lines"] == {
        "distinct": 3,
        "most": [{"text": "la la", "count": 40}, {"text": "lü\u200b", "count": 20}],
    }
    inventory = result["inventory"]["text"]
    assert (inventory["characters"], inventory["distinct"]) == (len("la la\nla la\n\nlü\u200b\n") * 20 + 4, 10)
    assert inventory["odd"] == [
        {"character": "U+200B ZERO WIDTH SPACE", "kind": "invisible", "count": 20, "first": "line 4"}
    ]
    assert (inventory["rare"], inventory["rare_count"]) == ("Eden", 4)
    assert result["only_at_the_end"] == "Eden"
    assert result["lengths"]["characters"]["lines"]["most"] == 5


def test_text_statistics_as_page(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect-corpus", "s.txt"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "s.txt: 81 lines, 20 of them blank"
    assert "      40 times  'la la'" in lines
    assert "      20 times  U+200B ZERO WIDTH SPACE (invisible), first in line 4" in lines
    assert lines[-1] == "only in the end that is held out for validation: 4 characters: 'Eden'"


@pytest.mark.parametrize("name", ["s.txt", "p.tsv", "folder", "songs.jsonl", "m.tmx", "a,b", "missing", "hf:songs"])
def test_corpus_kind_is_detected_from_its_name(folder: Path, name: str) -> None:
    (folder / "folder").mkdir()
    for file in ("songs.jsonl", "m.tmx"):
        write(folder / file, "")
    assert is_text(name) == (name not in ("p.tsv", "m.tmx", "a,b"))


def test_inspect_corpus_writes_no_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(folder.iterdir())
    inspected(capsys, "p.tsv")
    inspected(capsys, "s.txt")
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["missing"], "missing does not exist."),
        (
            ["missing", "--source", "German", "--target", "en"],
            "--source must be a language code such as de or pt-BR, not 'German', did you mean de?",
        ),
        (["a.de,b.en"], "a.de does not exist."),
        (["p.tsv", "--source", "de"], "Give --source and --target together, or neither."),
        (["p.tsv", "--columns", "3,1"], "p.tsv line 1 has 2 columns; --columns 3,1 asks for column 3."),
        (["p.tsv", "--clean", "colour=on"], "This cannot start: cleaning.colour is no option (--clean)"),
        (["empty.txt"], "empty.txt has no text."),
    ],
)
def test_wrong_arguments_are_reported(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], wanted: str
) -> None:
    write(folder / "empty.txt", "\n \n")
    assert refused(capsys, "inspect-corpus", *arguments).startswith(wanted)


@pytest.mark.parametrize("path", ["missing", "mine/bee.tsv"])
def test_missing_file_is_no_reason_to_speak_of_pairs(
    folder: Path, capsys: pytest.CaptureFixture[str], path: str
) -> None:
    assert refused(capsys, "inspect-corpus", path) == f"{path} does not exist."


def test_tabs_in_a_text_are_noted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hint = "To read pairs of texts, give --source and --target."
    write(folder / "deck.txt", tsv(ROWS))
    write(folder / "p.jsonl", '{"de": "Hund", "en": "dog"}\n')
    assert main(["inspect-corpus", "deck.txt"]) == 0
    assert capsys.readouterr().out.endswith(f"\nEvery line holds a tab. {hint}\n")
    assert main(["inspect-corpus", "s.txt"]) == 0
    assert hint not in capsys.readouterr().out
    assert refused(capsys, "inspect-corpus", "p.jsonl").endswith(f"'lyrics' or 'content'. {hint}")


def test_malformed_lines_are_skipped_on_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "pairs.tsv", b"eins\tone\nzwei\ttwo\tthree\ndrei\tthree\nvi\xffer\tfour\n")
    assert main(["inspect-corpus", str(path), "--source", "de", "--target", "en", "--clean", "malformed=skip"]) == 0
    page = capsys.readouterr().out
    assert "4 pairs read, 2 left out, 2 kept" in page
    assert "1  malformed: number of columns" in page
    assert "1  malformed: not UTF-8" in page
