"""Which side of a pair is the source, where only the order of columns or files tells."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.training.data.corpus_writers import tsv, write
from training.__main__ import main
from training.data.corpus_loading import read_corpora, read_pairs

ROWS = [
    ("Der Hund schläft im Garten.", "The dog is asleep in the garden."),
    ("Wo ist denn hier die Küche?", "Where is the kitchen, please?"),
    ("Ich habe heute keine Zeit.", "I have got no time today."),
    ("Das Wetter wird morgen schön.", "The weather will be fine tomorrow."),
    ("Wir fahren mit dem Zug nach Hause.", "We are going home by train."),
    ("Meine Schwester wohnt nicht weit weg.", "My sister does not live far away."),
    ("Er liest jeden Abend ein Buch.", "He reads a book every evening."),
    ("Kannst du mir bitte helfen?", "Could you help me, please?"),
    ("Das Fenster ist schon wieder offen.", "The window is open once again."),
    ("Sie hat zwei Kinder und einen Hund.", "She has two children and a dog."),
]
ENGLISH_FIRST = [(english, german) for german, english in ROWS]
Rows = Callable[[list[tuple[str, str]]], str]
CREDIT = "CC-BY 2.0 (France) Attribution: tatoeba.org #1 (somebody) & #2 (somebody)"
TURNED = "holds en first and de second, and is read so; if that is wrong, say --columns"
ASKED = "reads as en on its source side and as de on its target side: are they the other way around?"


def anki(rows: list[tuple[str, str]]) -> str:
    return "".join(f"{first}\t{second}\t{CREDIT}\n" for first, second in rows)


@pytest.mark.parametrize("write_rows", [anki, tsv])
def test_columns_are_detected_by_language(tmp_path: Path, write_rows: Rows) -> None:
    path = write(tmp_path / "deu.txt", write_rows(ENGLISH_FIRST))
    english, german = read_pairs(str(path), ("en", "de")), read_pairs(str(path), ("de-AT", "en_GB"))
    assert list(zip(german.sources, german.targets, strict=True)) == ROWS
    assert list(zip(english.sources, english.targets, strict=True)) == ENGLISH_FIRST
    assert english.reported().notes == []
    assert german.reported().notes == [f"{path} {TURNED.replace('en f', 'en_GB f').replace('de s', 'de-AT s')}"]


def test_dropped_examples_follow_the_column_order(tmp_path: Path) -> None:
    path = write(tmp_path / "p.tsv", tsv([*ENGLISH_FIRST, ("Nothing.", "")]))
    (example,) = read_pairs(str(path), ("de", "en")).reported().dropped["empty side"].examples
    assert (example.source, example.target) == ("", "Nothing.")


def test_named_columns_are_kept_with_a_note(tmp_path: Path) -> None:
    path = write(tmp_path / "p.tsv", tsv(ROWS))
    result = read_pairs(str(path), ("de", "en"), (2, 1))
    assert result.sources[0] == ROWS[0][1]
    assert result.reported().notes == [f"{path} {ASKED}"]


def test_reversed_files_are_noted(tmp_path: Path) -> None:
    de, en = (write(tmp_path / f"t.{i}", "".join(f"{row[i]}\n" for row in ROWS)) for i in (0, 1))
    assert read_pairs(f"{de},{en}", ("de", "en")).reported().notes == []
    wrong = read_corpora([f"{de},{en}", f"{en},{de}"], ("de", "en"))
    assert wrong.reported().notes == [f"{en},{de} {ASKED}"]


@pytest.mark.parametrize(
    ("rows", "languages"),
    [(ENGLISH_FIRST[:9], ("de", "en")), (ENGLISH_FIRST, ("x-a", "x-b")), (ENGLISH_FIRST, ("de", "de"))],
    ids=["few", "unknown languages", "one language"],
)
def test_undecided_languages_are_not_noted(
    tmp_path: Path, rows: list[tuple[str, str]], languages: tuple[str, str]
) -> None:
    result = read_pairs(str(write(tmp_path / "p.tsv", tsv(rows))), languages)
    assert (result.sources[0], result.reported().notes) == (rows[0][0], [])


def test_the_first_pair_is_shown_under_its_languages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "deu.txt", anki(ENGLISH_FIRST))
    test = write(tmp_path / "test.tsv", tsv([(f"{a} Ja.", f"{b} Yes.") for a, b in ROWS]))
    arguments = [str(path), "--source", "de", "--target", "en"]
    assert main(["inspect-corpus", *arguments, "--test", str(test), "--columns", "1,2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert f"  note: {path} {ASKED}" in lines
    assert main(["inspect-corpus", *arguments]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:4] == [
        f"  note: {path} {TURNED}",
        f"first pair, de: {ROWS[0][0]!r}",
        f"first pair, en: {ROWS[0][1]!r}",
    ]


def test_reversed_test_set_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train = write(tmp_path / "p.tsv", tsv(ROWS))
    test = write(tmp_path / "test.tsv", tsv([(f"{b} Yes.", f"{a} Ja.") for a, b in ROWS]))
    assert main(["inspect-corpus", str(train), "--source", "de", "--target", "en", "--test", str(test)]) == 0
    assert f"  note: {test} {TURNED}\n" in capsys.readouterr().out
