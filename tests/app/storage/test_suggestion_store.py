"""Suggestions on disk."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app.storage.suggestion_store import SuggestionsFull, SuggestionStore


def test_lines_of_concurrent_writers_do_not_interleave(tmp_path: Path) -> None:
    two = [SuggestionStore(tmp_path), SuggestionStore(tmp_path)]
    texts = [f"q{number}" * 500 for number in range(60)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda pair: two[pair[0] % 2].add(pair[1], "s\n\u2028", "de", "en"), enumerate(texts)))
    lines = two[0].path.read_bytes().split(b"\n")
    assert lines.pop() == b""
    assert {json.loads(line)["q"] for line in lines} == set(texts)
    assert two[0].path.stat().st_mode & 0o777 == 0o600


def test_file_size_is_bounded(tmp_path: Path) -> None:
    kept = SuggestionStore(tmp_path, max_bytes=250)
    kept.add("a", "b", "de", "en")
    with pytest.raises(SuggestionsFull):
        for _ in range(10):
            kept.add("a", "b", "de", "en")
    assert 100 < kept.path.stat().st_size <= 250


def test_line_that_the_disk_takes_in_part_is_an_error_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk takes what fits, and says so by a count alone."""
    kept = SuggestionStore(tmp_path)
    kept.add("a", "b", "de", "en")
    before, write = kept.path.read_bytes(), os.write
    monkeypatch.setattr("os.write", lambda descriptor, line: write(descriptor, line[:20]))
    with pytest.raises(OSError, match="No space left"):
        kept.add("c", "d", "de", "en")
    assert kept.path.read_bytes() == before
    monkeypatch.undo()
    kept.add("e", "f", "de", "en")
    assert [json.loads(line)["q"] for line in kept.path.read_text().splitlines()] == ["a", "e"]
