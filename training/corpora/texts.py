"""A text for a lyricist: a file, a folder of .txt files, JSONL, or a data set. Line ends become LF, so that no
model learns the carriage returns of the machine that wrote the file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from training.corpora.files import BYTE_ORDER_MARK, opened, stem_suffix
from training.corpora.huggingface import PREFIX, rows
from training.corpora.jsonl import check_characters, records
from training.corpora.reading import JSON_LINES
from training.errors import TrainingError

KEYS = ("text", "lyrics", "content")


def read_text(corpus: Path | str) -> str:
    """The whole text; the parts of a folder, of JSONL or of a data set are joined with a newline."""
    path = Path(corpus)
    if str(corpus).startswith(PREFIX):
        return _joined(_text_of(record, f"{corpus} row {number}") for number, record in rows(str(corpus)))
    if path.is_dir():
        return _joined(read_file(part) for part in _parts(path))
    if stem_suffix(path) in JSON_LINES:
        return _joined(_text_of(record, f"{path} line {number}") for number, record in records(path))
    return read_file(path)


def read_file(path: Path) -> str:
    with opened(path) as file:
        data = file.read().removeprefix(BYTE_ORDER_MARK)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise TrainingError(f"{path} is not valid UTF-8: line {line} has a broken character; convert it.") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise TrainingError(f"{path} holds a NUL character in line {line}: is it a text file?")
    return _line_feeds(text)


def _line_feeds(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _parts(folder: Path) -> list[Path]:
    """By name, so that the order is the same on every machine; hidden files are none of the corpus."""
    found = [p for p in folder.rglob("*") if p.is_file() and stem_suffix(p) == ".txt" and not p.name.startswith(".")]
    if not found:
        raise TrainingError(f"{folder} has no .txt or .txt.gz file.")
    return sorted(found, key=lambda part: part.relative_to(folder).parts)


def _joined(parts: Iterable[str]) -> str:
    return "\n".join(part.removesuffix("\n") for part in parts) + "\n"


def _text_of(record: Mapping[str, Any], where: str) -> str:
    text = next((record[key] for key in KEYS if isinstance(record.get(key), str)), None)
    if text is None:
        there = ", ".join(map(repr, list(record)[:8])) or "none"
        raise TrainingError(f"{where} has the keys {there}; a text stands under 'text', 'lyrics' or 'content'.")
    check_characters(text, where)
    return _line_feeds(text)
