"""What GET /models says of a model beyond its config: precision, licence, when it was read, how it was trained."""

from __future__ import annotations

import asyncio
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.engine.async_engine import AsyncEngine
from app.engine.interface import EngineSettings
from app.engine.protocol import messages as m
from app.engine.worker.model_runner import ModelRunner
from app.engine.worker.scheduler import Scheduler
from app.errors import UnknownModel
from models.backends.native import build
from models.backends.native.build import AVX2, CHOICE
from tests.models.kernels import compiled, needs


def pool(root: Path) -> AsyncEngine:
    """Whose devices are never started."""
    made = AsyncEngine(EngineSettings(checkpoints=root, devices="cpu", cpu_workers=2))
    made.registry.read()
    return made


@pytest.mark.parametrize(("precision", "translator", "lyricist"), [("fp32", "", "native"), ("bf16", "", "")])
def test_a_device_says_what_it_decodes_in(
    tiny_checkpoints: Path, precision: str, translator: str, lyricist: str
) -> None:
    scheduler = Scheduler(ModelRunner("cpu", 1, slots=2, precision=precision), prefill_tokens=64)
    for name, suffix in (("tiny-de-en", translator), ("tiny-lyrics", lyricist if build.fp32_library() else "")):
        (said,) = scheduler.handle(m.Load(name, str(tiny_checkpoints / name)))
        assert isinstance(said, m.Loaded)
        assert said.precision == f"{precision} {suffix}".strip()


def test_int8_is_native_where_its_kernels_are(tiny_checkpoints: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CHOICE, raising=False)
    needs(AVX2)
    compiled(build.library())
    runner = ModelRunner("cpu", 1, slots=2, precision="int8")
    runner.load("a@1", str(tiny_checkpoints / "tiny-de-en"))
    assert runner.models["a@1"].precision == "int8 native"


def test_measured_precision_is_reported(tiny_checkpoints: Path) -> None:
    runner = ModelRunner("cpu", 1, slots=2, precision="auto")
    for name in ("a@1", "b@1"):  # the second is not measured
        runner.load(name, str(tiny_checkpoints / "tiny-de-en"))
    assert runner.models["a@1"].precision == runner.models["b@1"].precision
    (chosen,) = runner._fastest.values()
    assert runner.models["a@1"].precision in (chosen, f"{chosen} native")


def test_differing_precisions_of_devices_are_listed(tiny_checkpoints: Path) -> None:
    made = pool(tiny_checkpoints)
    assert made.models() == []
    for name, precision in (("cpu:0", "int8 native"), ("cpu:1", "bf16")):
        made.supervisor._on_message(name, m.Loaded("tiny-de-en@1", 0.1, precision))
    (info,) = made.models()
    assert (info.devices, info.precision) == (("cpu:0", "cpu:1"), "int8 native, bf16")
    made.supervisor._on_message("cpu:1", m.Loaded("tiny-de-en@1", 0.1, "int8 native"))  # it was started again
    assert made._info(made.registry.versions["tiny-de-en"]).precision == "int8 native"
    made.supervisor.unload("tiny-de-en@1")
    assert made._info(made.registry.versions["tiny-de-en"]).precision is None
    assert [device.precisions for device in made.supervisor.devices.values()] == [{}, {}]


def test_licence_and_time_are_those_of_the_version(tiny_checkpoints: Path, tmp_path: Path) -> None:
    root = shutil.copytree(tiny_checkpoints, tmp_path / "c")
    (root / "tiny-de-en" / "README.md").write_text("---\nlicense: cc-by-4.0\n---\n")
    before = datetime.now(UTC)
    made = pool(root)
    first = made.registry.versions["tiny-de-en"]
    assert made._info(first).licence == "cc-by-4.0"
    assert made._info(made.registry.versions["tiny-lyrics"]).licence is None
    assert before - timedelta(seconds=1) <= made._info(first).loaded_at <= datetime.now(UTC)
    assert made._info(first).loaded_at.tzinfo is UTC
    (root / "tiny-de-en" / "README.md").write_text("---\nlicense: mit\n---\n")
    assert made._info(first).licence == "cc-by-4.0"
    second = made.registry.read_version(root / "tiny-de-en")
    assert (second.version, made._info(second).licence) == (2, "mit")
    assert second.loaded_at >= first.loaded_at


def test_curves_of_what_is_loaded(tiny_checkpoints: Path, tmp_path: Path) -> None:
    root = shutil.copytree(tiny_checkpoints, tmp_path / "c")
    made = pool(root)
    assert asyncio.run(made.curves("tiny-lyrics")).reason
    (root / "tiny-de-en" / "metrics.jsonl").write_text('{"update": 3, "loss": 1.5}\n')
    assert asyncio.run(made.curves("tiny-de-en")).curves[0].values == (1.5,)
    for name in ("none", "../c/tiny-de-en", ""):
        with pytest.raises(UnknownModel, match=r"No model .* is loaded\. Loaded: tiny-de-en, tiny-en-es, tiny-lyrics"):
            asyncio.run(made.curves(name))
