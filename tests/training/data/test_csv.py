"""CSV as spreadsheets save it: delimiters, quotes, titles, and which files are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.training.data.corpus_writers import PAIRS, fault, write
from tests.training.data.test_tsv import of
from training.data.corpus_loading import read_pairs
from training.data.sentence_pairs import LeftOutRow
from training.data.tables import read_table

DE_EN = ("de", "en")
BARE = "Der Hund schläft.{0}The dog is asleep.\r\nWo ist die Küche?{0}Where is the kitchen?\r\n"


@pytest.mark.every_value
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize(
    "start", ["", "\ufeff", "source{0}target\n", "de{0}en-GB\n", "German{0}English\n", "德语{0}英语\n"]
)
@pytest.mark.parametrize("name", ["pairs.csv", "pairs.CSV", "pairs.csv.gz"])
def test_delimiters_and_titles_are_detected(tmp_path: Path, delimiter: str, start: str, name: str) -> None:
    path = write(tmp_path / name, (start + BARE).format(delimiter))
    pairs = read_pairs(str(path), DE_EN)
    assert of(pairs) == PAIRS
    first = 2 if start.endswith("\n") else 1
    assert [pairs.place(i) for i in range(2)] == [f"{path}:{first}", f"{path}:{first + 1}"]


def test_titles_choose_among_many_columns_in_any_order(tmp_path: Path) -> None:
    path = write(tmp_path / "p.csv", 'id,English,note,German\n7,"yes, please",x,"ja, bitte"\n8,no,,nein\n')
    assert of(read_pairs(str(path), DE_EN)) == [("ja, bitte", "yes, please"), ("nein", "no")]
    assert of(read_pairs(str(path), ("en", "de")))[1] == ("no", "nein")
    assert of(read_pairs(str(path), DE_EN, (1, 2))) == [("7", "yes, please"), ("8", "no")]
    assert "has 4 columns (1 'id', 2 'English'" in fault(path)


def test_quoted_cells_hold_delimiters_quotes_and_line_breaks(tmp_path: Path) -> None:
    path = write(tmp_path / "p.csv", '"eins, ""zwei""","one,\r\n  ""two"""\r\n\r\ndrei; vier,three; four\r\n')
    pairs = read_pairs(str(path))
    assert of(pairs) == [('eins, "zwei"', 'one, "two"'), ("drei; vier", "three; four")]
    assert [pairs.place(i) for i in range(2)] == [f"{path}:1", f"{path}:4"]


def test_semicolons_between_texts_with_commas(tmp_path: Path) -> None:
    path = write(tmp_path / "p.csv", "ja, gern;yes, gladly\nnein;no\n")
    assert of(read_pairs(str(path))) == [("ja, gern", "yes, gladly"), ("nein", "no")]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("eins\nzwei\n", "line 1 has 1 column; a pair is two texts with one comma, semicolon or tab between."),
        ("a,b\nc,d\n\ne,f, g\n", "line 4 has 3 columns; a pair is two texts with one comma, semicolon or tab between."),
        ("id,de,en\n1,a,b\n2,c\n", "line 3 has 2 columns where the lines before have 3."),
        (
            'a,b\n"c" d,e\n',
            "line 2 has quotes that do not close (',' expected after '\"'): a quote inside a quoted cell is",
        ),
        ('a,b\n"c,d\ne,f\n', "line 2 has quotes that do not close (unexpected end of data): a quote inside a quoted"),
        ("a,b\nc\rd,e\n", "line 2 has a carriage return (CR) within a cell without quotes: end lines with LF or CRLF"),
        (
            f"{'a' * 131_073},b\n",
            "line 1 has a cell of more than 131,072 characters: put one text in a cell, and close",
        ),
    ],
)
def test_faults_name_the_line(tmp_path: Path, content: str, sentence: str) -> None:
    path = write(tmp_path / "p.csv", content)
    assert fault(path, DE_EN).startswith(f"{path} {sentence}")


def test_malformed_records_are_left_out_and_counted(tmp_path: Path) -> None:
    content = b'German,English\n"a" b,c\nd,e\nf\xff,g\nh,i,j\nk,l\n"never closed,m\n'
    path = write(tmp_path / "p.csv", content)
    pairs = read_pairs(str(path), DE_EN, skip_malformed=True)
    assert of(pairs) == [("d", "e"), ("k", "l")]
    dropped = {name: [each.place for each in reason.examples] for name, reason in pairs.reported().dropped.items()}
    assert dropped == {
        "malformed: broken quotes": [f"{path}:2", f"{path}:7"],
        "malformed: not UTF-8": [f"{path}:4"],
        "malformed: number of columns": [f"{path}:5"],
    }


def test_records_that_the_csv_module_refuses_are_left_out_and_do_not_choose_the_delimiter(tmp_path: Path) -> None:
    path = write(tmp_path / "p.csv", f"a\rb,c;d,e\n{'f' * 131_073};g\nja, gern;yes\nh;i\n")
    pairs = read_pairs(str(path), DE_EN, skip_malformed=True)
    assert of(pairs) == [("ja, gern", "yes"), ("h", "i")]
    dropped = {name: [each.place for each in reason.examples] for name, reason in pairs.reported().dropped.items()}
    assert dropped == {"malformed: carriage return": [f"{path}:1"], "malformed: cell too long": [f"{path}:2"]}


def test_unreadable_line_within_a_record_comes_behind_it(tmp_path: Path) -> None:
    path = write(tmp_path / "p.csv", b'\xff,x\n"a\n\0\nb" c,d\n"e\n\0\nf",g\n')
    rows = read_table(path, skip_malformed=True)
    assert [row[:2] if isinstance(row, LeftOutRow) else row for row in rows] == [
        (1, "malformed: not UTF-8"),
        (2, "malformed: broken quotes"),
        (3, "malformed: NUL character"),
        (5, "e f", "g"),
        (6, "malformed: NUL character"),
    ]


@pytest.mark.parametrize("stated", ["sep=;", "SEP=;", '"sep=;"'])
def test_delimiter_that_the_first_line_states(tmp_path: Path, stated: str) -> None:
    path = write(tmp_path / "p.csv", f"{stated}\r\nQuelle;Ziel\r\nja, gern, ja;yes\r\n")
    pairs = read_pairs(str(path), DE_EN)
    assert of(pairs) == [("ja, gern, ja", "yes")]
    assert pairs.place(0) == f"{path}:3"
    assert pairs.reported().notes == [
        f"{path} states its delimiter in its first line: {stated}",
        f"{path} begins with titles, which are no pair: Quelle, Ziel",
    ]
