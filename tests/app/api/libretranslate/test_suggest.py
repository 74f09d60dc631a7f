"""POST /suggest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.app.api.client import Client

GOOD = {"q": "Ich möchte ein Bier", "s": "I would like a beer", "source": "de", "target": "EN"}


def test_off_by_default() -> None:
    answer = Client().post("/suggest", json=GOOD)
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert answer.json()["error"] == "Suggestions are switched off here; set PARLANCE_SUGGESTIONS=true to keep them."


@pytest.mark.parametrize("way", ["json", "data", "params"])
def test_suggestions_are_stored_as_lines(tmp_path: Path, way: str) -> None:
    client = Client(suggestions=True, data=tmp_path / "new")
    for _ in range(2):
        answer = client.post("/suggest", **{way: GOOD})
        assert (answer.status_code, answer.json()) == (200, {"success": True})
    lines = (tmp_path / "new" / "suggestions.jsonl").read_text(encoding="utf-8").splitlines()
    kept = [json.loads(line) for line in lines]
    assert len(kept) == 2
    assert {**kept[0], "at": ""} == {**GOOD, "target": "en", "at": ""}
    assert kept[0]["at"].endswith("+00:00")


def test_a_source_to_be_detected_is_kept_as_what_it_is(tmp_path: Path) -> None:
    Client(suggestions=True, data=tmp_path).post("/suggest", json=GOOD | {"source": "auto"})
    assert json.loads((tmp_path / "suggestions.jsonl").read_text(encoding="utf-8"))["source"] == "de"


@pytest.mark.parametrize(
    ("change", "field"), [({"q": ""}, "q"), ({"s": 5}, "s"), ({"source": "fr"}, "source"), ({"target": "xx"}, "target")]
)
def test_refusals(tmp_path: Path, change: dict[str, object], field: str) -> None:
    answer = Client(suggestions=True, data=tmp_path).post("/suggest", json=GOOD | change)
    assert (answer.status_code, answer.json()["field"]) == (400, field)
    assert not (tmp_path / "suggestions.jsonl").exists()


def test_full_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "suggestions.jsonl").write_bytes(b"x" * 9_999_990)
    answer = Client(suggestions=True, data=tmp_path).post("/suggest", json=GOOD)
    assert (answer.status_code, answer.json()["code"]) == (507, "storage_full")
    assert (tmp_path / "suggestions.jsonl").stat().st_size == 9_999_990


def test_unwritable_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    answer = Client(suggestions=True, data=tmp_path / "file").post("/suggest", json=GOOD)
    assert (answer.status_code, answer.json()["code"]) == (503, "engine_unavailable")
    assert "PARLANCE_DATA" in answer.json()["error"]
