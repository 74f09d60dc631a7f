"""What the commands make of a corpus: training reads every format, says what it left out, and writes it down."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from models import checkpoint as checkpoints
from tests.training.cli.commands import SHORT, SING, TRANSLATE, refused
from tests.training.data.corpus_writers import tmx, write
from tests.training.small import pairs
from training.__main__ import main

pytestmark = pytest.mark.usefixtures("no_curves")
MADE_UP = pairs(40)
ROWS = list(zip(MADE_UP.sources, MADE_UP.targets, strict=True))


def test_dropped_pairs_are_reported_and_written(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = (here / "pairs.tsv").read_text()
    write(here / "pairs.tsv", f"a b\t\n{lines}{ROWS[0][0]}\t{ROWS[0][1]}\n{'a ' * 300}\t{'B ' * 300}\n")
    assert main([*TRANSLATE, *SHORT]) == 0
    said = capsys.readouterr().err.splitlines()
    assert said[:3] == [
        "pairs.tsv: 43 pairs read, 2 left out, 41 kept",
        "          1  empty side",
        "          1  exact duplicate",
    ]
    written = json.loads((here / "m" / "corpus.json").read_text())
    assert (written["read"], written["kept"]) == (43, 40)
    assert {name: reason["count"] for name, reason in written["dropped"].items()} == {
        "empty side": 1,
        "exact duplicate": 1,
        "over 256 tokens": 1,
    }
    card = (here / "m" / "README.md").read_text()
    assert "- Data: pairs.tsv: 43 pairs, of which 3 were left out" in card
    assert (
        "## Left out of the training data\n\n| left out | pairs | for example |\n|---|---|---|\n"
        "| empty side | 1 | pairs.tsv:1 |\n| exact duplicate | 1 | pairs.tsv:42 |\n"
        "| over 256 tokens | 1 | pairs.tsv:43 |\n"
    ) in card


def test_a_clean_corpus_has_no_table(here: Path) -> None:
    assert main([*TRANSLATE, *SHORT]) == 0
    assert "Left out" not in (here / "m" / "README.md").read_text()
    assert json.loads((here / "m" / "corpus.json").read_text())["dropped"] == {}


def test_the_rules_are_part_of_the_run_that_resumes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TRANSLATE, *SHORT, "--clean", "ratio=6"]) == 0
    configuration = json.loads((here / "m" / "config.json").read_text())["training"]
    assert configuration["cleaning"]["ratio"] == 6.0
    (here / "m" / "config.json").unlink()
    capsys.readouterr()
    assert "cleaning.ratio = 6.0, not 4.0" in refused(capsys, *TRANSLATE, *SHORT, "--resume")


def test_several_corpora_in_several_formats(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(here / "more.tmx.gz", tmx([("h g f", "F G H"), ("a c e", "E C A")], ("aa-AA", "bb")))
    write(here / "t.jsonl", json.dumps({"translation": {"aa": "a b c", "bb": "C B A"}}))
    given = [*TRANSLATE, *SHORT, "--train", "more.tmx.gz", "--test", "t.jsonl"]
    assert main(given) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith("pairs.tsv + more.tmx.gz: 42 pairs read, 0 left out, 42 kept\n")
    assert json.loads(captured.out)["t.jsonl (greedy)"]["sentences"] == 1
    assert main(["evaluate", "m", "--test", "t.jsonl", "--device", "cpu"]) == 0
    write(here / "t.tsv", "7\ta b c\t8\tC B A\n9\ta b\t10\tB A\n")
    capsys.readouterr()
    assert main(["evaluate", "m", "--test", "t.tsv", "--device", "cpu", "--columns", "2,4"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["sentences"] == 2


@pytest.mark.parametrize(
    ("name", "content", "wanted"),
    [
        ("one.tsv", "a\tb\n", "one.tsv has 1 pair; training needs at least two."),
        (
            "p.tmx",
            tmx([("a", "b")]),
            "p.tmx has no unit with both aa and bb; its languages and their segments: de-DE (1)",
        ),
        ("p.jsonl", '{"a": 1}', "p.jsonl line 1 has the keys 'a'; a pair needs 'aa' and 'bb', or"),
        ("p.tsv", "a\tb\tc\n", "p.tsv line 1 has 3 columns (1 'a', 2 'b', 3 'c'): say which"),
    ],
)
def test_corpus_problems_are_one_sentence(
    here: Path, capsys: pytest.CaptureFixture[str], name: str, content: str, wanted: str
) -> None:
    write(here / name, content)
    command = [argument if argument != "pairs.tsv" else name for argument in TRANSLATE]
    assert refused(capsys, *command).startswith(wanted)
    assert not (here / "m").exists()


def test_an_empty_validation_set(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(here / "v.tsv", "\n")
    assert refused(capsys, *TRANSLATE, "--valid", "v.tsv") == "v.tsv holds no pair of sentences."


def test_a_folder_of_songs(here: Path) -> None:
    song = (here / "song.txt").read_text()
    for name in ("songs/a.txt", "songs/b.txt"):
        (here / name).parent.mkdir(exist_ok=True)
        write(here / name, song.replace("\n", "\r\n"))
    assert main([argument if argument != "song.txt" else "songs" for argument in [*SING, *SHORT]]) == 0
    tokenizer = checkpoints.read(here / "m").tokenizers["target"]
    assert "\r" not in tokenizer.vocabulary  # type: ignore[attr-defined]
    assert tokenizer.encode("a\r\nb\rc") == tokenizer.encode("a\nb\nc")
