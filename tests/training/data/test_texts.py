"""A text for a lyricist: a file, a folder, JSONL."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pytest

from tests.training.data.corpus_writers import refusal, write
from training.data.corpus_loading import read_text


@pytest.mark.parametrize("name", ["song.txt", "song.txt.gz", "song"])
@pytest.mark.parametrize("content", ["la\nlü\n", "la\r\nlü\r\n", "la\rlü\r", "\ufeffla\nlü\n"])
def test_every_line_end_is_a_line_feed(tmp_path: Path, name: str, content: str) -> None:
    assert read_text(write(tmp_path / name, content)) == "la\nlü\n"


def test_a_folder_is_read_by_name_with_its_folders(tmp_path: Path) -> None:
    for name, text in [
        ("b.txt", "zwei\n"),
        ("a.txt.gz", "eins\r\n"),
        ("c/a.txt", "drei"),
        ("c/B.TXT", "drei, Ende\n\n"),
    ]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write(tmp_path / name, text)
    for name in ("notes.md", ".hidden.txt"):
        write(tmp_path / name, "nicht dies")
    assert read_text(tmp_path) == "eins\nzwei\ndrei, Ende\n\ndrei\n"


def test_an_empty_folder(tmp_path: Path) -> None:
    assert refusal(read_text, tmp_path) == f"{tmp_path} has no .txt or .txt.gz file."


@pytest.mark.parametrize("key", ["text", "lyrics", "content"])
def test_json_lines(tmp_path: Path, key: str) -> None:
    songs = [{"title": "x", key: "la\r\nlü\n"}, {"title": "y", key: "lo"}]
    path = write(tmp_path / "songs.jsonl.gz", "\n".join(map(json.dumps, songs)))
    assert read_text(path) == "la\nlü\nlo\n"


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ('{"title": "x"}', "line 2 has the keys 'title'; a text stands under 'text', 'lyrics' or 'content'."),
        ('{"text": 3}', "line 2 has the keys 'text'; a text stands under"),
        ('{"text": "\\ud800"}', "line 2 has a broken character"),
        ("la la", "line 2 is not JSON"),
    ],
)
def test_a_faulty_json_line(tmp_path: Path, line: str, wanted: str) -> None:
    path = write(tmp_path / "songs.jsonl", '{"text": "la"}\n' + line)
    assert refusal(read_text, path).startswith(f"{path} {wanted}")


def test_faults_in_a_folder_name_the_file(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", "la\n")
    part = write(tmp_path / "b.txt", b"la\nl\xff\n")
    assert refusal(read_text, tmp_path).startswith(f"{part} is not valid UTF-8: line 2 has")


def test_a_nul_in_a_text_names_the_line(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "la\nl\0\n")
    assert refusal(read_text, path) == f"{path} holds a NUL character in line 2: is it a text file?"


def test_decomposed_and_composed_characters_are_the_same_text(tmp_path: Path) -> None:
    for number, spelling in enumerate(("Café über Việt", unicodedata.normalize("NFD", "Café über Việt"))):
        plain = write(tmp_path / f"{number}.txt", f"{spelling}\r\n")
        record = write(tmp_path / f"{number}.jsonl", json.dumps({"text": spelling}))
        assert read_text(plain) == read_text(record) == "Café über Việt\n"
