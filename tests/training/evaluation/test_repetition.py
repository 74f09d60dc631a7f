"""Translations that repeat one phrase until the limit are short to read and whole in samples.jsonl."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from training.report.progress_report import ProgressReport, shorten_repetition

ENDLESS = "The man " + "looks for " * 40


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (ENDLESS, "The man looks for looks for … (40 times)"),
        ("The" + " The" * 49, "The The … (49 times) The"),
        ("狗跑" * 30 + "狗", "狗跑狗跑 … (30 times) 狗"),
        ("a child" + " child" * 12 + " for" * 20 + ".", "a child child … (13 times) for for … (20 times) ."),
        ("A dog runs, runs, runs across the grass.", "A dog runs, runs, runs across the grass."),
        ("na na na na na na, hey!", "na na na na na na, hey!"),
        ("x" * 39, "x" * 39),
        ("", ""),
    ],
)
def test_repeated_phrase_is_shown_twice_with_its_count(text: str, wanted: str) -> None:
    assert shorten_repetition(text) == wanted


def test_samples_jsonl_keeps_full_texts(tmp_path: Path) -> None:
    ProgressReport(tmp_path, "", quiet=True).samples({"update": 5, "epoch": 1}, [("ein Mann", "a man", ENDLESS)])
    assert "| 5 | 1 | The man looks for looks for … (40 times) |\n" in (tmp_path / "samples.md").read_text()
    assert json.loads((tmp_path / "samples.jsonl").read_text())["samples"][0][2] == ENDLESS
