"""The corpus that comes with this project: its files, its parts, and how runs name it."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import permutations
from pathlib import Path

import pytest

from training.config.shipped_corpora import LANGUAGES, ROOT, shipped_corpus
from training.data.corpus_loading import read_corpora, read_pairs, read_text
from training.errors import TrainingError

PARTS = ("train", "valid", "test")
REGISTERS = {"speech", "chat", "mail", "notice", "report", "story"}


@cache
def lines(part: str) -> list[tuple[str, list[str]]]:
    """(FILE:LINE, cells) of every line of a part, without titles."""
    return list(_lines(part))


def _lines(part: str) -> Iterator[tuple[str, list[str]]]:
    for file in sorted((ROOT / part).glob("*.tsv")):
        titles, *rows = file.read_text(encoding="utf-8").splitlines()
        assert titles.split("\t") == ["kind", *LANGUAGES], file
        yield from ((f"{file.name}:{number}", row.split("\t")) for number, row in enumerate(rows, 2))


def trigrams(text: str) -> frozenset[str]:
    text = " ".join(["", *re.findall(r"\w+", text.lower()), ""])
    return frozenset(text[at : at + 3] for at in range(len(text) - 2))


@pytest.mark.parametrize("part", PARTS)
def test_each_line_has_a_kind_and_four_texts(part: str) -> None:
    for place, cells in lines(part):
        assert len(cells) == 1 + len(LANGUAGES), place
        assert cells[0].partition("/")[0] in REGISTERS, place
        for text in cells[1:]:
            assert text == text.strip() and text and "  " not in text, place
            assert unicodedata.normalize("NFC", text) == text, place
        assert re.search("[\u4e00-\u9fff]", cells[-1]), place
        assert not re.search("[\u3000-\u9fff]", "".join(cells[1:-1])), place


def test_no_line_is_there_twice() -> None:
    counts = Counter(cells[1] for part in PARTS for _, cells in lines(part))
    assert [text for text, count in counts.items() if count > 1] == []


@pytest.mark.parametrize("place", range(len(LANGUAGES)))
@pytest.mark.parametrize("part", ["valid", "test"])
def test_no_text_of_a_held_out_line_is_one_of_training(part: str, place: int) -> None:
    trained = {cells[1 + place] for _, cells in lines("train")}
    assert [at for at, cells in lines(part) if cells[1 + place] in trained] == []


@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.slow), 400])
def test_held_out_lines_are_unlike_all_lines_of_training(step: int) -> None:
    """step: looks at each line, or at every so many."""
    holders: dict[str, list[int]] = {}
    train = [(place, trigrams(cells[1])) for place, cells in lines("train")]
    for number, (_, grams) in enumerate(train):
        for gram in grams:
            holders.setdefault(gram, []).append(number)
    sample = lines("test")[::step]
    alike = []
    for place, cells in sample:
        grams = trigrams(cells[1])
        rare = sorted(grams, key=lambda gram: len(holders.get(gram, ())))[: len(grams) // 2 + 1]
        near = {number for gram in rare for number in holders.get(gram, ())}
        for number in near:
            shared = len(grams & train[number][1])
            if shared / (len(grams) + len(train[number][1]) - shared) > 0.5:
                alike.append(f"{place} and {train[number][0]}")
    assert alike == []


@pytest.mark.parametrize("languages", list(permutations(LANGUAGES, 2))[::5])
def test_a_run_reads_it_in_any_two_of_its_languages(languages: tuple[str, str]) -> None:
    pairs = read_pairs("everyday-valid", languages)
    columns = [1 + LANGUAGES.index(code) for code in languages]
    assert list(zip(pairs.sources, pairs.targets, strict=True)) == [
        tuple(cells[column] for column in columns) for _, cells in lines("valid")
    ]
    assert pairs.origin == "everyday-valid"
    assert list(read_pairs(f"everyday-valid:{'-'.join(languages)}").sources) == list(pairs.sources)


def test_each_entry_of_the_dictionary_is_there_once_in_four_languages() -> None:
    entries = list(read_pairs("everyday-dictionary:en-zh").sources)
    assert len(entries) > 5000
    seen = Counter[tuple[str, str]]()
    for file in sorted((ROOT / "dictionary").glob("*.tsv")):
        titles, *rows = file.read_text(encoding="utf-8").splitlines()
        assert titles.split("\t") == ["kind", *LANGUAGES, "forms"]
        for row in rows:
            kind, *texts, _ = row.split("\t")
            assert len(texts) == len(LANGUAGES) and all(texts), row
            seen[kind, texts[0]] += 1
    assert [entry for entry, count in seen.items() if count > 1] == []


def test_pairs_of_two_shipped_corpora_know_their_files() -> None:
    both = read_corpora(["everyday-valid", "everyday-dictionary"], ("en", "es"))
    held_out = read_pairs("everyday-valid:en-es")
    first, *_, last = (both.place(index) for index in range(len(both)))
    assert first.endswith(held_out.place(0)) and Path(first.partition(":")[0]).parent.name == "valid"
    file, _, line = last.partition(":")
    assert Path(file).parent.name == "dictionary"
    assert both.targets[-1] == Path(file).read_text("utf-8").splitlines()[int(line) - 1].split("\t")[3]


def test_languages_of_the_run_and_of_the_name_must_agree() -> None:
    with pytest.raises(TrainingError, match="everyday:de-en names de-en, and this run reads en-de"):
        read_pairs("everyday:de-en", ("en", "de"))
    with pytest.raises(TrainingError, match="everyday has several languages: say which with --source and --target"):
        read_pairs("everyday")


def test_other_names_are_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (
        shipped_corpus("everyday:de-de") is shipped_corpus("everyday:fr-en") is shipped_corpus("everyday.tsv") is None
    )
    monkeypatch.chdir(tmp_path)
    (tmp_path / "everyday").write_text("Hund\tdog\n", encoding="utf-8")
    assert list(read_pairs("everyday").targets) == ["dog"]


def test_a_lyricist_reads_the_lines_of_a_language() -> None:
    english, chinese = read_text("everyday-en"), read_text("everyday-zh")
    own = {cells[1] for _, cells in lines("train")}
    assert {line for line in english.split("\n") if line} == own
    assert english == read_text("everyday-en")
    assert not set("，。？！“”") & set(chinese)
    assert len([*filter(None, chinese.split("\n"))]) == len(lines("train"))


@pytest.mark.parametrize(("name", "songs"), [("songs-zh", 400), ("songs-en", 200)])
def test_a_lyricist_reads_the_songs_by_name(name: str, songs: int) -> None:
    text = read_text(name)
    assert text.count("\n\n") + 1 >= songs
    assert "\n\n\n" not in text and not text.startswith("\n")
    lines = Counter(line for song in text.strip("\n").split("\n\n") for line in {*song.split("\n")})
    assert max(lines.values()) <= 3  # besides refrains
