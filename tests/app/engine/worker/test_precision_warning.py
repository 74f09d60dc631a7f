"""A precision that is slow on a CPU logs a warning that names the faster ones."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from app.engine.protocol.messages import Load
from app.engine.worker.model_runner import ModelRunner
from models.backends.select import candidates


@pytest.mark.parametrize(("precision", "warnings"), [("fp16", 1), ("bf16", 0), ("fp32", 0), ("auto", 0)])
def test_fp16_on_a_cpu_names_the_faster_choice(
    tiny_checkpoints: Path, caplog: pytest.LogCaptureFixture, precision: str, warnings: int
) -> None:
    runner = ModelRunner("cpu", 1, slots=2, precision=precision)
    with caplog.at_level(logging.WARNING, "app.engine.worker.model_runner"):
        runner.install("a@1", runner.read(Load("a@1", str(tiny_checkpoints / "tiny-de-en"))))
    warnings_logged = [record.getMessage() for record in caplog.records]
    assert len(warnings_logged) == warnings
    fast = ", ".join(candidates(runner.device))
    assert all(f"set PARLANCE_PRECISION to auto, the fastest of {fast} here" in warning for warning in warnings_logged)
    assert "fp16" not in fast
