"""Files to texts; every fault of a file is one sentence that names it."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from training.corpus import Pairs, hold_out, read_lines, read_pairs, read_text
from training.errors import TrainingError


def write(path: Path, content: str | bytes) -> Path:
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def fault(argument: object) -> str:
    """The message, which must be one sentence on one line."""
    with pytest.raises(TrainingError) as caught:
        read_pairs(str(argument))
    message = str(caught.value)
    assert message.endswith((".", "?"))
    assert "\n" not in message
    assert len(message) < 300
    return message


@pytest.mark.parametrize("suffix", ["txt", "txt.gz"])
def test_two_files_are_read_line_by_line(tmp_path: Path, suffix: str) -> None:
    source = write(tmp_path / f"a.{suffix}", "ein Bier\nzwei Biere\n")
    target = write(tmp_path / f"b.{suffix}", "a beer\ntwo beers")
    found = read_pairs(f"{source},{target}")
    assert found == Pairs(["ein Bier", "zwei Biere"], ["a beer", "two beers"], 0, f"{source},{target}")


@pytest.mark.parametrize("name", ["pairs.tsv", "pairs.tsv.gz", "with, comma.tsv"])
def test_one_file_of_tab_separated_pairs(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, "ein Bier\ta beer\n\nzwei Biere\ttwo beers\n")
    found = read_pairs(str(path))
    assert (found.sources, found.targets) == (["ein Bier", "zwei Biere"], ["a beer", "two beers"])


def test_line_ends_and_a_byte_order_mark_are_no_part_of_a_sentence(tmp_path: Path) -> None:
    source = write(tmp_path / "a", b"\xef\xbb\xbfeins\r\nzwei\r\n")
    target = write(tmp_path / "b", b"one\ntwo\n")
    assert read_pairs(f"{source},{target}").sources == ["eins", "zwei"]


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1d", "\r"])
def test_only_a_newline_ends_a_line(tmp_path: Path, separator: str) -> None:
    path = write(tmp_path / "a", f"one{separator}still one\ntwo")
    assert read_lines(path) == [f"one{separator}still one", "two"]


def test_pairs_with_an_empty_side_are_dropped_and_counted(tmp_path: Path) -> None:
    source = write(tmp_path / "a", "eins\n\n  \nvier\n\u3000\n")
    target = write(tmp_path / "b", "one\ntwo\nthree\n\t\nfive\n")
    found = read_pairs(f"{source},{target}")
    assert (found.sources, found.targets, found.dropped) == (["eins"], ["one"], 4)
    table = write(tmp_path / "t.tsv", "eins\tone\nzwei\t\n\tthree\n")
    assert (len(read_pairs(str(table))), read_pairs(str(table)).dropped) == (1, 2)


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
        message = fault(argument)
        assert message.startswith(f"{tmp_path} cannot be read")
        assert "directory" in message


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
    assert fault(path).startswith(f"{path} line 3 has {columns} columns")


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize(("lead", "line"), [(b"", 1), (b"a\tb\n", 2), (b"a\tb\n" * 7 + b"\n\n", 10)])
def test_broken_utf8_names_the_line(tmp_path: Path, mark: bytes, lead: bytes, line: int) -> None:
    path = write(tmp_path / "t.tsv", mark + lead + b"\xff\tb\n")
    assert fault(path).startswith(f"{path} is not valid UTF-8: line {line} ")


def test_utf16_is_said_to_be_no_utf8(tmp_path: Path) -> None:
    path = write(tmp_path / "t.tsv", "a\tb\n".encode("utf-16"))
    assert "is not valid UTF-8: line 1" in fault(path)


def test_a_nul_character_names_the_line(tmp_path: Path) -> None:
    path = write(tmp_path / "t.tsv", "a\tb\nc\0\td\n")
    assert fault(path) == f"{path} holds a NUL character in line 2: is it a text file?"


def test_gzip_files_that_are_none_or_cut_short_or_damaged(tmp_path: Path) -> None:
    path, whole = tmp_path / "t.tsv.gz", gzip.compress(b"a\tb\n" * 500)
    damaged = bytearray(whole)
    damaged[len(damaged) // 2] ^= 0xFF
    for data in (b"a\tb\n", whole[:-9], whole[:20], bytes(damaged), whole[:-8] + bytes(8)):
        path.write_bytes(data)
        assert fault(path).startswith(f"{path} cannot be read (")


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "t.tsv", "a\tb\n")

    def refuse(self: Path) -> bytes:  # root may read everything, so the system's refusal is made up
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert fault(path) == f"{path} cannot be read ([Errno 13] Permission denied: '{path}')."


def test_paths_with_spaces_and_other_scripts(tmp_path: Path) -> None:
    folder = tmp_path / "Bücher und 歌"
    folder.mkdir()
    assert read_text(write(folder / "ein Lied.txt", "la la")) == "la la"


def test_hold_out_keeps_nothing_that_training_saw() -> None:
    # every target stands under four sources, every tenth source twice
    sources = [f"s{i - i % 10 if i % 10 == 1 else i}" for i in range(1000)]
    given = Pairs(sources, [f"t{i % 250}" for i in range(1000)], 7, "file")
    train, valid = hold_out(given, seed=3)
    assert valid is not None
    assert len(valid) == 20
    assert not set(train.sources) & set(valid.sources)
    assert not set(train.targets) & set(valid.targets)
    together = set(zip(given.sources, given.targets, strict=True))
    assert set(zip(train.sources, train.targets, strict=True)) <= together
    assert set(zip(valid.sources, valid.targets, strict=True)) <= together
    # at most: 20 targets with four sources each, and the twins of these
    assert 1000 - 20 * 4 * 2 <= len(train) <= 980
    assert (train.dropped, train.origin) == (7, "file")
    assert valid.origin == "20 pairs held out of file"


def test_hold_out_is_decided_by_the_seed_alone() -> None:
    given = Pairs([f"s{i}" for i in range(500)], [f"t{i}" for i in range(500)])
    assert hold_out(given, 1) == hold_out(given, 1)
    assert hold_out(given, 1) != hold_out(given, 2)


@pytest.mark.parametrize(("count", "held_out"), [(99, 0), (100, 10), (1000, 20), (60_000, 1000)])
def test_how_many_pairs_are_held_out(count: int, held_out: int) -> None:
    train, valid = hold_out(Pairs([f"s{i}" for i in range(count)], [f"t{i}" for i in range(count)]), 1)
    assert (len(train), len(valid) if valid else 0) == (count - held_out, held_out)


def test_hold_out_spares_none_where_all_say_the_same() -> None:
    given = Pairs([f"s{i}" for i in range(200)], ["yes"] * 200)
    assert hold_out(given, 1) == (given, None)
