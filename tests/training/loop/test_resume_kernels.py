"""A resume without the kernels that trained until then, or with others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.models.kernels import compiled
from tests.training.runs import translate
from training import snapshot
from training.config.run_config import LoopConfig
from training.kernels import training_backend
from training.report.progress_report import ProgressReport

pytestmark = pytest.mark.usefixtures("no_curves")


def test_resume_with_other_kernels_notes_the_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled(training_backend.training_library())
    notes: list[str] = []
    monkeypatch.setattr(ProgressReport, "note", lambda report, text: notes.append(text))
    fp32 = LoopConfig(precision="fp32")  # without kernels `auto` takes bf16 on CPUs with AMX
    translate(tmp_path, 1, loop=fp32)
    before = snapshot.load(tmp_path)["machine"]
    assert ", kernels parlance-training" in before
    monkeypatch.setenv("PARLANCE_NATIVE", "none")
    translate(tmp_path, 2, resume=True, loop=fp32)
    plain = before.partition(", kernels")[0]
    assert (
        f"This run goes on as {plain} and was {before} before: a sound run, though not bit for bit what it would have"
        " been."
    ) in notes
