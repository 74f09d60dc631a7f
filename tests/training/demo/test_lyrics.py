"""The Chinese lyrics written for this project: the shape that the lyric generator's training relies on."""

import re
import unicodedata
from collections import Counter
from importlib.resources import files

import pytest

# one space at most, and only between two half lines; what a line may hold besides is CJK ideographs
LINE = re.compile(r"[\u4e00-\u9fff]+(?: [\u4e00-\u9fff]+)?")


@pytest.fixture(scope="module")
def raw() -> bytes:
    return files("training.demo").joinpath("lyrics_zh.txt").read_bytes()


@pytest.fixture(scope="module")
def text(raw: bytes) -> str:
    return raw.decode("utf-8")


@pytest.fixture(scope="module")
def songs(text: str) -> list[list[str]]:
    return [song.split("\n") for song in text.removesuffix("\n").split("\n\n")]


@pytest.fixture(scope="module")
def lines(songs: list[list[str]]) -> list[str]:
    return [line for song in songs for line in song]


@pytest.fixture(scope="module")
def counts(lines: list[str]) -> Counter[str]:
    return Counter(character for line in lines for character in line if character != " ")


def test_the_file_is_utf8_in_nfc_with_plain_newlines(raw: bytes, text: str) -> None:
    assert not raw.startswith(b"\xef\xbb\xbf")
    assert unicodedata.is_normalized("NFC", text)
    assert text.endswith("\n")
    assert not text.endswith("\n\n")


def test_only_ideographs_spaces_and_newlines_occur(text: str) -> None:
    strange = {character for character in text if not ("\u4e00" <= character <= "\u9fff" or character in " \n")}
    assert strange == set()


def test_every_line_is_one_sung_line(lines: list[str]) -> None:
    assert [line for line in lines if not LINE.fullmatch(line)] == []
    assert [line for line in lines if not 4 <= len(line) <= 16] == []


def test_there_are_between_45_and_60_songs_of_a_song_s_length(songs: list[list[str]]) -> None:
    assert 45 <= len(songs) <= 60
    assert [song[0] for song in songs if not 20 <= len(song) <= 40] == []


def test_there_is_enough_text_for_a_character_model(counts: Counter[str]) -> None:
    assert counts.total() >= 10_000
    assert 1_000 <= len(counts) <= 1_600


def test_most_characters_recur(counts: Counter[str]) -> None:
    recurring = sum(1 for count in counts.values() if count >= 3)
    assert recurring > len(counts) / 2


def test_prompt_prefixes_occur_in_the_lyrics(text: str, lines: list[str]) -> None:
    assert text.count("分开") >= 12
    assert text.count("不分开") >= 5
    assert any(line.startswith("分开") for line in lines)
    assert any(line.startswith("不分开") for line in lines)


def test_few_lines_are_repeated(lines: list[str]) -> None:
    occurrences = Counter(lines)
    repeated = sum(count for count in occurrences.values() if count > 1)
    assert repeated <= 0.15 * len(lines)


def test_a_line_recurs_only_within_its_own_song(songs: list[list[str]]) -> None:
    songs_with = Counter(line for song in songs for line in set(song))
    assert [line for line, count in songs_with.items() if count > 1] == []
