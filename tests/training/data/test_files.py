"""Files to texts; every fault of a file is one sentence that names it."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import BinaryIO

import pytest

from tests.training.data.corpus_writers import fault, write
from training.data.corpus_files import numbered_lines
from training.data.corpus_loading import read_pairs, read_text
from training.data.sentence_pairs import Pairs
from training.errors import TrainingError


@pytest.mark.parametrize("suffix", ["txt", "txt.gz"])
def test_two_files_are_read_line_by_line(tmp_path: Path, suffix: str) -> None:
    source = write(tmp_path / f"a.{suffix}", "ein Bier\nzwei Biere\n")
    target = write(tmp_path / f"b.{suffix}", "a beer\ntwo beers")
    result = read_pairs(f"{source},{target}")
    assert result == Pairs(["ein Bier", "zwei Biere"], ["a beer", "two beers"], f"{source},{target}")


@pytest.mark.parametrize("name", ["pairs.tsv", "pairs.tsv.gz", "with, comma.tsv"])
def test_one_file_of_tab_separated_pairs(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, "ein Bier\ta beer\n\nzwei Biere\ttwo beers\n")
    result = read_pairs(str(path))
    assert (result.sources, result.targets) == (["ein Bier", "zwei Biere"], ["a beer", "two beers"])


def test_line_ends_and_a_byte_order_mark_are_no_part_of_a_sentence(tmp_path: Path) -> None:
    source = write(tmp_path / "a", b"\xef\xbb\xbfeins\r\nzwei\r\n")
    target = write(tmp_path / "b", b"one\ntwo\n")
    assert read_pairs(f"{source},{target}").sources == ["eins", "zwei"]


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1d", "\r"])
def test_only_a_newline_ends_a_line(tmp_path: Path, separator: str) -> None:
    path = write(tmp_path / "a", f"one{separator}still one\ntwo")
    assert list(numbered_lines(path)) == [(1, f"one{separator}still one"), (2, "two")]


def test_pairs_with_an_empty_side_are_dropped_and_counted(tmp_path: Path) -> None:
    source = write(tmp_path / "a", "eins\n\n  \nvier\n\u3000\n")
    target = write(tmp_path / "b", "one\ntwo\nthree\n\t\nfive\n")
    result = read_pairs(f"{source},{target}")
    assert (result.sources, result.targets, result.reported().left_out) == (["eins"], ["one"], 4)
    table = write(tmp_path / "t.tsv", "eins\tone\nzwei\t\n\tthree\n")
    assert (len(read_pairs(str(table))), read_pairs(str(table)).reported().left_out) == (1, 2)


def test_unequal_line_counts_give_both_numbers(tmp_path: Path) -> None:
    source, target = write(tmp_path / "a", "x\n" * 1234), write(tmp_path / "b", "x\n" * 1233)
    message = fault(f"{source},{target}")
    assert f"{source} has 1,234 lines" in message
    assert f"{target} has 1,233" in message


def test_missing_files_are_named(tmp_path: Path) -> None:
    there, missing = write(tmp_path / "a", "x\n"), tmp_path / "missing"
    assert fault(f"{there},{missing}") == f"{missing} does not exist."
    assert fault(missing).startswith(f"{missing} does not exist: give SOURCE,TARGET")


def test_a_folder_is_called_a_folder_and_not_missing(tmp_path: Path) -> None:
    there = write(tmp_path / "a", "x\n")
    for argument in (tmp_path, f"{there},{tmp_path}"):
        assert fault(argument) == f"{tmp_path} is a folder, and a file is needed."


@pytest.mark.parametrize("names", ["a,b,c", "a,b,c,d", "a,,b"])
def test_a_wrong_number_of_commas_is_counted(names: str) -> None:
    assert fault(names).startswith(f"{names} names {names.count(',') + 1} files: give SOURCE,TARGET")


@pytest.mark.parametrize("content", ["", "\n\n", " \t \n", "x\t\n"])
def test_an_empty_corpus(tmp_path: Path, content: str) -> None:
    path = write(tmp_path / "t.tsv", content)
    assert fault(path) == f"{path} holds no pair of sentences."


@pytest.mark.parametrize(("columns", "line"), [(1, "x"), (3, "x\ty\tz"), (4, "\t\ty\t")])
def test_a_line_without_exactly_one_tab(tmp_path: Path, columns: int, line: str) -> None:
    path = write(tmp_path / "t.tsv", f"a\tb\n\n{line}\n")
    assert fault(path).startswith(f"{path} line 3 has {columns} column{'s' * (columns > 1)};")


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize(("lead", "line"), [(b"", 1), (b"a\tb\n", 2), (b"a\tb\n" * 7 + b"\n\n", 10)])
def test_broken_utf8_names_the_line(tmp_path: Path, mark: bytes, lead: bytes, line: int) -> None:
    path = write(tmp_path / "t.tsv", mark + lead + b"\xff\tb\n")
    assert fault(path).startswith(f"{path} is not valid UTF-8: line {line} ")


def test_utf16_file_is_refused_as_not_utf8(tmp_path: Path) -> None:
    path = write(tmp_path / "t.tsv", "a\tb\n".encode("utf-16"))
    convert = f"iconv -f UTF-16 -t UTF-8 {path.name}"
    assert fault(path) == (
        f"{path} is UTF-16, and texts are read as UTF-8: convert it ({convert}), or save it as UTF-8."
    )


def test_a_nul_character_names_the_line(tmp_path: Path) -> None:
    path = write(tmp_path / "t.tsv", "a\tb\nc\0\td\n")
    assert fault(path) == f"{path} holds a NUL character in line 2: is it a text file?"


def test_invalid_gzip_files_are_refused(tmp_path: Path) -> None:
    path, whole = tmp_path / "t.tsv.gz", gzip.compress(b"a\tb\n" * 500)
    damaged = bytearray(whole)
    damaged[len(damaged) // 2] ^= 0xFF
    for data in (b"a\tb\n", whole[:-9], whole[:20], bytes(damaged), whole[:-8] + bytes(8)):
        path.write_bytes(data)
        assert fault(path).startswith(f"{path} cannot be read (")


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "t.tsv", "a\tb\n")

    def refuse(self: Path, mode: str) -> BinaryIO:  # root may read everything, so the system's refusal is made up
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", refuse)
    assert fault(path) == f"{path} cannot be read (Permission denied)."


def test_paths_with_spaces_and_other_scripts(tmp_path: Path) -> None:
    folder = tmp_path / "Bücher und 歌"
    folder.mkdir()
    assert read_text(write(folder / "ein Lied.txt", "la la")) == "la la"


@pytest.mark.parametrize("suffix", ["tsv.gz", "jsonl.gz"])
def test_broken_utf8_inside_gzip_names_the_line(tmp_path: Path, suffix: str) -> None:
    line = b'{"source": "a", "target": "b"}\n' if suffix == "jsonl.gz" else b"a\tb\n"
    path = write(tmp_path / f"pairs.{suffix}", line * 4000 + b"\xc3\x28\tb\n")
    assert fault(path) == f"{path} is not valid UTF-8: line 4001 has a broken character; convert it."


@pytest.mark.parametrize("start", [b"PK\x03\x04\x14\0", b"%PDF-1.7\n"])
def test_document_in_place_of_a_text_is_named(tmp_path: Path, start: bytes) -> None:
    path = write(tmp_path / "pairs.tsv", start + b"\xc3\x28\tb\n")
    assert fault(path).startswith(f"{path} is a document or an archive, not a text: save it as plain text,")
    assert "POST /translate_file" in fault(path)


def test_a_gzip_that_ends_early_is_refused_in_the_midst_of_its_lines(tmp_path: Path) -> None:
    lines = "".join(f"Satz {i}\tsentence {i}\n" for i in range(50_000))
    path = tmp_path / "pairs.tsv.gz"
    path.write_bytes(gzip.compress(lines.encode())[:-5000])
    assert fault(path).startswith(f"{path} cannot be read (Compressed file ended before")


def test_line_that_no_memory_takes_is_refused_by_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("training.data.corpus_files.MOST_LINE_BYTES", 10_000)
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"ein Bier\n" + b"x" * 10_000 + b"\n"))
    with pytest.raises(TrainingError, match=r"a.gz has a line of more than 10,000 bytes, line 2: put one text in a"):
        list(numbered_lines(path))
    path.write_bytes(gzip.compress(b"ein Bier\n" + b"x" * 9_999 + b"\nlast"))
    assert [(number, len(line)) for number, line in numbered_lines(path)] == [(1, 8), (2, 9_999), (3, 4)]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_cr_ends_the_lines_of_a_file_without_lf(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = write(tmp_path / f"p.tsv{suffix}", "\ufeffeins\tone\r\rzwei\ttwo\r")
    pairs = read_pairs(str(table))
    assert (pairs.sources, pairs.place(1)) == (["eins", "zwei"], f"{table}:3")
    commas = write(tmp_path / f"p.csv{suffix}", 'eins,"one\rmore"\rzwei,two')
    assert read_pairs(str(commas)).targets == ["one more", "two"]
    records = write(tmp_path / f"p.jsonl{suffix}", '{"source":"a","target":"b"}\r{"source":"c","target":"d"}\r')
    assert read_pairs(str(records)).sources == ["a", "c"]
    source, target = write(tmp_path / f"a{suffix}", "a\rb\r"), write(tmp_path / f"b{suffix}", "c\nd\n")
    assert read_pairs(f"{source},{target}").targets == ["c", "d"]
    monkeypatch.setattr("training.data.corpus_files.LOOKED_AT_BYTES", 6)
    assert [line for _, line in numbered_lines(write(tmp_path / f"c{suffix}", "a\rlong line\r\rd"))] == [
        "a",
        "long line",
        "",
        "d",
    ]


def test_pipe_is_read_once_and_whole() -> None:
    """As `--train <(cut -f 2,4 corpus.tsv)` of a shell names it."""
    numbers = range(300)
    reading, writing = os.pipe()
    with open(writing, "w") as file:  # noqa: PTH123 (a descriptor)
        file.writelines(f"Satz {number}\tSentence {number}\n" for number in numbers)
    pairs = read_pairs(f"/dev/fd/{reading}")
    os.close(reading)
    assert list(pairs.sources) == [f"Satz {number}" for number in numbers]
