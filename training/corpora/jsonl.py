"""One JSON object a line: {"de": …, "en": …}, the same inside "translation", or {"source": …, "target": …}."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from training.corpora.files import numbered_lines
from training.corpora.languages import find
from training.corpora.pairs import Row
from training.errors import TrainingError

Languages = tuple[str, str]  # of the source and of the target


def read_jsonl(path: Path, languages: Languages | None) -> Iterator[Row]:
    for number, record in records(path):
        yield number, *pair_of(record, languages, f"{path} line {number}")


def records(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """(line, object); blank lines are skipped. TrainingError for a line that is no JSON object."""
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise TrainingError(
                f"{path} line {number} is not JSON ({error}): every line must be one object, such as"
                ' {"source": "…", "target": "…"}.'
            ) from None
        if not isinstance(record, dict):
            raise TrainingError(f"{path} line {number} is a JSON {_kind(record)}: every line must be one object.")
        yield number, record


def pair_of(record: Mapping[str, Any], languages: Languages | None, where: str) -> tuple[str, str]:
    """Source and target of one record. TrainingError, beginning with `where`, if it has none."""
    inner = record.get("translation")
    for candidate in (inner, record) if isinstance(inner, Mapping) else (record,):
        keys = [find(language, tuple(candidate)) for language in languages or ()]
        if len(keys) == 2 and None not in keys and keys[0] != keys[1]:
            return text_of(candidate, str(keys[0]), where), text_of(candidate, str(keys[1]), where)
    if "source" in record and "target" in record:
        return text_of(record, "source", where), text_of(record, "target", where)
    there = ", ".join(map(repr, [*record, *(inner if isinstance(inner, Mapping) else ())][:8])) or "none"
    named = f"{languages[0]!r} and {languages[1]!r}, or " if languages else ""
    raise TrainingError(f"{where} has the keys {there}; a pair needs {named}'source' and 'target'.")


def text_of(record: Mapping[str, Any], key: str, where: str) -> str:
    """The text under a key, on one line; null is an empty text."""
    text = record[key]
    if text is None:
        return ""
    if not isinstance(text, str):
        raise TrainingError(f"{where} has a {_kind(text)} under {key!r}; it must be a text.")
    check_characters(text, where)
    return one_line(text)


def check_characters(text: str, where: str) -> None:
    """JSON can spell characters that no UTF-8 file can hold."""
    if "\0" in text:
        raise TrainingError(f"{where} holds a NUL character.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise TrainingError(f"{where} has a broken character: half of a surrogate pair.") from None


def one_line(text: str) -> str:
    """White space with a line break in it becomes one space: a sentence is one line in every other format."""
    return re.sub(r"\s*[\r\n]\s*", " ", text) if "\n" in text or "\r" in text else text


def _kind(value: Any) -> str:
    kinds = {dict: "object", list: "list", str: "text", bool: "truth value", int: "number", float: "number"}
    return kinds.get(type(value), "null")
