"""benchmarks.first_answer: the phases of a real start, with a small model in the stand-in hub."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import first_answer
from tests.training.importers.marian import folders


def test_phases_add_up_to_the_first_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_answer, "write_repository", lambda folder: folders.write(folder))
    summary, run = first_answer.measure(times=1, line=50_000_000, demo=False)
    phases = [run[name] for name in ("import_s", "start_s", "load_s", "answer_s")]
    assert all(seconds > 0 for seconds in phases)
    assert sum(phases) == pytest.approx(run["total_s"], abs=0.1)
    assert (summary["total_s"], summary["line_mb_per_s"], summary["runs"]) == (run["total_s"], 50.0, 1)
