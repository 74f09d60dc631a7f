"""Inspection uses its own thread count and restores that of decoding."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from app.engine.dispatch.placement import cores, worker_config
from app.engine.interface import EngineSettings
from app.engine.protocol.messages import Load, ScoreTokens
from app.engine.worker import inspection
from app.engine.worker.model_runner import LoadedModel, ModelRunner


@pytest.fixture
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def loaded(folder: Path, inspection_threads: int) -> LoadedModel:
    runner = ModelRunner("cpu", 0, slots=2, inspection_threads=inspection_threads)
    runner.install("tiny", runner.read(Load("tiny", str(folder))))
    return runner.models["tiny"]


@pytest.mark.parametrize(("inspection_threads", "wanted"), [(3, 3), (0, 1)])
@pytest.mark.parametrize("fails", [False, True])
def test_inspection_has_its_own_thread_count(
    tiny_checkpoints: Path,
    monkeypatch: pytest.MonkeyPatch,
    one_thread: None,
    inspection_threads: int,
    wanted: int,
    fails: bool,
) -> None:
    seen: list[int] = []

    def spy(*given: object) -> None:
        seen.append(torch.get_num_threads())
        if fails:
            raise RuntimeError("on purpose")

    monkeypatch.setattr(inspection, "score_tokens", spy)
    model = loaded(tiny_checkpoints / "tiny-de-en", inspection_threads)
    message = ScoreTokens(1, "tiny", [5], [model.config.target_prefix[0], 5], top_k=0, by_rules=True)
    if fails:
        with pytest.raises(RuntimeError, match="on purpose"):
            inspection.inspect(model, message)
    else:
        inspection.inspect(model, message)
    assert seen == [wanted]
    assert torch.get_num_threads() == 1


def test_thread_setting_applies_to_inspection(tmp_path: Path) -> None:
    usual = worker_config(EngineSettings(checkpoints=tmp_path, cpu_workers=0))
    assert usual.inspection_threads == cores()
    assert worker_config(EngineSettings(checkpoints=tmp_path, cpu_threads=1)).inspection_threads == 0
