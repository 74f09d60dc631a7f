"""The console and the model card say which backend trains, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.training.runs import sing, translate
from training.config.run_config import LoopConfig
from training.report.progress_report import ProgressReport

pytestmark = pytest.mark.usefixtures("no_curves")


def backend_line(folder: Path) -> str:
    (line,) = [line for line in (folder / "README.md").read_text().splitlines() if line.startswith("- Backend: ")]
    return line.removeprefix("- Backend: ")


@pytest.mark.parametrize("train", [translate, sing])
def test_without_kernels_pytorch_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, train: Any) -> None:
    notes: list[str] = []
    monkeypatch.setenv("PARLANCE_NATIVE", "none")
    monkeypatch.setattr(ProgressReport, "note", lambda report, text: notes.append(text))
    train(tmp_path, 1, loop=LoopConfig(precision="fp32"))  # "auto" is bf16 on CPUs that have it
    backend = backend_line(tmp_path)
    assert backend.startswith("PyTorch in fp32, because ")
    assert notes[0] == f"Trains with {backend}."


@pytest.mark.parametrize("train", [translate, sing])
def test_half_precision_trains_in_pytorch(tmp_path: Path, train: Any) -> None:
    train(tmp_path, 1, loop=LoopConfig(precision="bf16"))
    assert backend_line(tmp_path) == "PyTorch in bf16, because our kernels train in fp32 on CPUs"
