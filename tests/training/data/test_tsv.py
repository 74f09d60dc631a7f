"""Tab-separated columns: detected where unambiguous, otherwise required as an option."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.training.data.corpus_writers import PAIRS, fault, refusal, tsv, write
from training.data.corpus_loading import parse_columns, read_corpora, read_pairs
from training.data.sentence_pairs import Pairs

TATOEBA = "101\tDer Hund schläft.\t2002\tThe dog is asleep.\n102\tWo ist die Küche?\t2003\tWhere is the kitchen?\n"
CREDIT = "CC-BY 2.0 (France) Attribution: tatoeba.org #1 (somebody) & #2 (somebody)"
ANKI = "".join(f"{source}\t{target}\t{CREDIT}\n" for source, target in PAIRS)


def of(pairs: Pairs) -> list[tuple[str, str]]:
    return list(zip(pairs.sources, pairs.targets, strict=True))


@pytest.mark.parametrize("content", [TATOEBA, ANKI, TATOEBA.replace("\n", "\r\n"), "\ufeff" + TATOEBA])
@pytest.mark.parametrize("name", ["pairs.tsv", "pairs.tsv.gz", "deu.txt"])
def test_tsv_layouts_are_detected(tmp_path: Path, content: str, name: str) -> None:
    assert of(read_pairs(str(write(tmp_path / name, content)))) == PAIRS


@pytest.mark.parametrize(
    ("columns", "wanted"), [((1, 2), ("a", "b")), ((2, 1), ("b", "a")), ((3, 1), ("c", "a")), ((2, 2), ("b", "b"))]
)
def test_columns_by_number(tmp_path: Path, columns: tuple[int, int], wanted: tuple[str, str]) -> None:
    path = write(tmp_path / "p.tsv", "a\tb\tc\n")
    assert of(read_pairs(str(path), None, columns)) == [wanted]


def test_lines_shorter_than_the_columns_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "p.tsv", "a\tb\nc\td\te\nf\n")
    assert fault(path, None, (1, 2)) == f"{path} line 3 has 1 column; --columns 1,2 asks for column 2."


def test_ambiguous_columns_are_shown_in_the_error(tmp_path: Path) -> None:
    path = write(tmp_path / "p.tsv", "7\tGuten Abend\tGood evening, ladies and gentlemen\n")
    assert fault(path) == (
        f"{path} line 1 has 3 columns (1 '7', 2 'Guten Abend', 3 'Good evening, ladie…'): say which hold the source"
        " and the target, such as --columns 1,2."
    )
    many = write(tmp_path / "m.tsv", "\t".join("abcdefgh") + "\n")
    assert "has 8 columns (1 'a', 2 'b', 3 'c', 4 'd', 5 'e', 6 'f', …)" in fault(many)


def test_a_line_unlike_the_first_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "p.tsv", TATOEBA + "\n5\tnur drei\t6\n")
    assert fault(path) == f"{path} line 4 has 3 columns where the lines before have 4."


@pytest.mark.parametrize("text", ["1", "0,1", "1,2,3", "a,b", "-1,2", ""])
def test_invalid_columns_option_is_refused(text: str) -> None:
    expected = f"--columns takes two numbers from 1, source first, such as 2,4, not {text!r}."
    assert refusal(parse_columns, text) == expected


def test_columns_option_syntax() -> None:
    assert parse_columns("2, 4") == (2, 4)
    assert parse_columns(None) is None


def test_several_corpora_are_one_in_their_order(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a.tsv", "a\tb\n\tx\nc\td\n"), write(tmp_path / "b.tsv.gz", "e\tf\n")
    result = read_corpora([str(first), str(second)])
    assert of(result) == [("a", "b"), ("c", "d"), ("e", "f")]
    assert (result.reported().left_out, result.origin) == (1, f"{first} + {second}")
    assert [result.place(i) for i in range(3)] == [f"{first}:1", f"{first}:3", f"{second}:1"]
    assert result.report is not None
    assert (result.report.read, result.report.kept) == (4, 3)


@pytest.mark.parametrize(
    ("title", "noted"),
    [
        ("de\ten", "de, en"),
        ("deu\tENG", "deu, ENG"),
        ("Quelle\tZiel", "Quelle, Ziel"),
        ("source\ttarget", "source, target"),
    ],
)
def test_titles_are_no_pair_and_are_noted(tmp_path: Path, title: str, noted: str) -> None:
    path = write(tmp_path / "p.tsv", f"{title}\n{tsv(PAIRS)}")
    pairs = read_pairs(str(path), ("de", "en"))
    assert of(pairs) == PAIRS
    assert pairs.place(0) == f"{path}:2"
    assert pairs.reported().notes == [f"{path} begins with titles, which are no pair: {noted}"]


def test_titles_choose_the_columns_of_a_table(tmp_path: Path) -> None:
    path = write(tmp_path / "p.tsv", "id\ten\tde\n7\tyes\tja\n")
    assert of(read_pairs(str(path), ("de", "en"))) == [("ja", "yes")]


@pytest.mark.parametrize(
    ("line", "pair"),
    [
        ('"sag ""ja"""\tsay yes', ('sag "ja"', "say yes")),
        ('"Ja", sagte er.\t"Yes," he said.', ('"Ja", sagte er.', '"Yes," he said.')),
        ('"Ja"\t"Yes"', ('"Ja"', '"Yes"')),
    ],
)
def test_quotes_of_a_spreadsheet_are_left_out_and_those_of_a_text_are_kept(
    tmp_path: Path, line: str, pair: tuple[str, str]
) -> None:
    path = write(tmp_path / "p.tsv", f"nein\tno\n{line}\n")
    pairs = read_pairs(str(path), ("de", "en"))
    assert of(pairs)[1] == pair
    noted = [f"{path} has cells in a spreadsheet's quotes (line 2), which are left out"]
    assert pairs.reported().notes == (noted if '""' in line else [])


def test_quotes_around_every_cell_are_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "p.tsv", '"de"\t"en"\n"ja"\t"yes"\n"nein"\t"no"\n')
    assert of(read_pairs(str(path), ("de", "en"))) == [("ja", "yes"), ("nein", "no")]


def test_a_cell_of_several_lines_is_pointed_to_csv(tmp_path: Path) -> None:
    content = '"eine\nzweite"\tone\n'
    expected = "line 1 has 1 column, and a quote that does not close: a spreadsheet's table is read as .csv."
    assert fault(write(tmp_path / "p.tsv", content)) == f"{tmp_path / 'p.tsv'} {expected}"
    assert of(read_pairs(str(write(tmp_path / "p.csv", content)))) == [("eine zweite", "one")]
