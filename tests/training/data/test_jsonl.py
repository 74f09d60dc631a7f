"""One JSON object a line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.training.data.corpus_writers import PAIRS, fault, write
from training.data.corpus_loading import read_pairs

DE_EN = ("de", "en")
DOG = {"de": "Der Hund schläft.", "en": "The dog is asleep."}


@pytest.mark.every_value
@pytest.mark.parametrize(
    "record",
    [
        DOG,
        {"translation": DOG},
        {"id": 3, "translation": {**DOG, "fr": "Le chien dort."}},
        {"source": DOG["de"], "target": DOG["en"]},
        {"de-DE": DOG["de"], "EN_us": DOG["en"]},
        {"de": "Der Hund\nschläft.", "en": "The dog \r\n is asleep."},
    ],
)
@pytest.mark.parametrize("name", ["p.jsonl", "p.jsonl.gz", "p.json", "p.NDJSON"])
def test_jsonl_layouts(tmp_path: Path, record: object, name: str) -> None:
    path = write(tmp_path / name, json.dumps(record) + "\n\n" + json.dumps(record, ensure_ascii=False))
    result = read_pairs(str(path), DE_EN)
    assert list(zip(result.sources, result.targets, strict=True)) == [PAIRS[0]] * 2
    assert result.place(1) == f"{path}:3"


def test_the_languages_say_which_side_is_the_source(tmp_path: Path) -> None:
    path = write(tmp_path / "p.jsonl", json.dumps(DOG))
    assert read_pairs(str(path), ("en", "de")).sources == ["The dog is asleep."]


def test_null_is_an_empty_side(tmp_path: Path) -> None:
    path = write(tmp_path / "p.jsonl", '{"de": null, "en": "x"}\n{"de": "a", "en": "b"}\n')
    result = read_pairs(str(path), DE_EN)
    assert (result.sources, result.reported().left_out) == (["a"], 1)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("{", "line 2 is not JSON (Expecting property name"),
        ("ein\tone", "line 2 is not JSON (Expecting value: line 1 column 1 (char 0)): every line must be one object,"),
        ("[" * 100_000, "line 2 is not JSON ("),
        ('["a", "b"]', "line 2 is a JSON list: every line must be one object."),
        ("null", "line 2 is a JSON null: every line must be one object."),
        ('{"id": 1, "fr": "x"}', "line 2 has the keys 'id', 'fr'; a pair needs 'de' and 'en', or 'source' and"),
        ('{"translation": {"fr": "x"}}', "line 2 has the keys 'translation', 'fr'; a pair needs 'de' and 'en'"),
        ("{}", "line 2 has the keys none; a pair needs"),
        ('{"de": 3, "en": "x"}', "line 2 has a number under 'de'; it must be a text."),
        ('{"de": "\\u0000", "en": "x"}', "line 2 holds a NUL character."),
        ('{"de": "\\ud83d", "en": "x"}', "line 2 has a broken character: half of a surrogate pair."),
    ],
)
def test_a_faulty_line_is_named_with_what_was_expected(tmp_path: Path, line: str, wanted: str) -> None:
    path = write(tmp_path / "p.jsonl", f"{json.dumps(DOG)}\n{line}\n")
    assert fault(path, DE_EN).startswith(f"{path} {wanted}")


def test_without_languages_only_source_and_target_will_do(tmp_path: Path) -> None:
    path = write(tmp_path / "p.jsonl", json.dumps(DOG))
    assert fault(path) == f"{path} line 1 has the keys 'de', 'en'; a pair needs 'source' and 'target'."
