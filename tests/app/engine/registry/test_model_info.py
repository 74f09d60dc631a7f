"""What GET /models says of a model beyond its config: precision, licence, when it was read, how it was trained."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from app.engine.async_engine import AsyncEngine
from app.engine.dispatch import supervisor
from app.engine.interface import EngineSettings, ModelInfo
from app.engine.protocol import messages as m
from app.engine.protocol.messages import Load
from app.engine.worker.model_runner import ModelRunner
from app.engine.worker.scheduler import Scheduler
from app.errors import UnknownModel
from models.backends.native import build
from models.backends.native.build import AVX2, CHOICE
from tests.app.engine.fake_process import FakeProcess
from tests.models.kernels import compiled, needs


def pool(root: Path) -> AsyncEngine:
    return AsyncEngine(EngineSettings(checkpoints=root, devices="cpu", cpu_workers=2))


class LoadingProcess(FakeProcess):
    """Has loaded at once whatever it is sent, in the precision of its device."""

    precisions: dict[str, str]

    def send(self, messages: list[Any]) -> None:
        loads = [message for message in messages if isinstance(message, m.Load)]
        self.says(*(m.Loaded(load.name, 0.1, self.precisions[self.device], f"{self.device} has it") for load in loads))


def play(root: Path, monkeypatch: pytest.MonkeyPatch, scene: Callable[[AsyncEngine], Awaitable[None]]) -> None:
    """Runs `scene` with an engine of two processes that have loaded all models."""
    monkeypatch.setattr(supervisor, "WorkerProcess", LoadingProcess)
    monkeypatch.setattr(LoadingProcess, "started", [], raising=False)
    monkeypatch.setattr(LoadingProcess, "fails", None, raising=False)
    monkeypatch.setattr(LoadingProcess, "precisions", {"cpu:0": "int8 native", "cpu:1": "bf16"}, raising=False)

    async def run() -> None:
        engine = pool(root)
        assert engine.models() == []
        await engine.start()
        await all_ready(engine)
        await scene(engine)
        await engine.stop()

    asyncio.run(run())


async def all_ready(engine: AsyncEngine) -> None:
    async with asyncio.timeout(10):
        while not engine.status().ready or set(engine.status().devices.values()) != {"ready"}:
            await asyncio.sleep(0.01)


def info(engine: AsyncEngine, name: str = "tiny-de-en") -> ModelInfo:
    return next(model for model in engine.models() if model.name == name)


def test_words_of_a_small_corpus_are_known(
    tiny_checkpoints: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By which the front end copies other words."""
    root = shutil.copytree(tiny_checkpoints, tmp_path / "c")
    record = {"unsure_below": -0.5, "source_words": ["ein", "hund"], "target_words": None}
    (root / "tiny-de-en" / "notices.json").write_text(json.dumps(record), encoding="utf-8")

    async def scene(engine: AsyncEngine) -> None:
        assert info(engine).source_words == {"ein", "hund"}
        assert info(engine, "tiny-en-es").source_words is None

    play(root, monkeypatch, scene)


def test_stand_ins_are_recorded_with_the_version_and_its_folder(
    tiny_checkpoints: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    root, pair = shutil.copytree(tiny_checkpoints, tmp_path / "c"), ("de", "en")
    caplog.set_level("INFO")

    async def first(engine: AsyncEngine) -> None:
        assert info(engine).stand_ins == {}
        await engine.record_stand_ins("tiny-de-en", 1, pair, ("names", "codes"))
        assert info(engine).stand_ins == {pair: ("names", "codes")}
        await engine.record_stand_ins("tiny-de-en", 2, pair, ())
        await engine.record_stand_ins("none", 1, pair, ())
        assert info(engine).stand_ins == {pair: ("names", "codes")}, "of a version that is not loaded"

    async def later(engine: AsyncEngine) -> None:
        assert info(engine).stand_ins == {pair: ("names", "codes")}
        shutil.rmtree(root / "tiny-en-es")  # the system lets the superuser write to a folder that is read-only
        await engine.record_stand_ins("tiny-en-es", 1, ("en", "es"), ("codes",))
        assert info(engine, "tiny-en-es").stand_ins == {("en", "es"): ("codes",)}
        assert "tiny-en-es keeps no stand_ins.json (No such file or directory)" in caplog.text

    play(root, monkeypatch, first)
    play(root, monkeypatch, later)


@pytest.mark.parametrize(("precision", "translator", "lyricist"), [("fp32", "", "native"), ("bf16", "", "")])
def test_device_reports_its_precision(tiny_checkpoints: Path, precision: str, translator: str, lyricist: str) -> None:
    scheduler = Scheduler(ModelRunner("cpu", 1, slots=2, precision=precision), prefill_tokens=64)
    for name, suffix in (("tiny-de-en", translator), ("tiny-lyrics", lyricist if build.fp32_library() else "")):
        (loaded,) = scheduler.handle(m.Load(name, str(tiny_checkpoints / name)))
        assert isinstance(loaded, m.Loaded)
        assert loaded.precision == f"{precision} {suffix}".strip()


def test_int8_is_native_where_its_kernels_are(tiny_checkpoints: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CHOICE, raising=False)
    needs(AVX2)
    compiled(build.library())
    runner = ModelRunner("cpu", 1, slots=2, precision="int8")
    runner.install("a@1", runner.read(Load("a@1", str(tiny_checkpoints / "tiny-de-en"))))
    assert runner.models["a@1"].precision == "int8 native"
    assert re.fullmatch(
        "kernels in C, int8: it is exactly the network that our kernels compute; no vocabulary shortlist:"
        r" an output matrix of \d+ × \d+ gains nothing from a shortlist",
        runner.models["a@1"].reason,
    )


def test_measured_precision_is_reported(tiny_checkpoints: Path) -> None:
    runner = ModelRunner("cpu", 1, slots=2, precision="auto")
    for name in ("a@1", "b@1"):  # the second is not measured
        runner.install(name, runner.read(Load(name, str(tiny_checkpoints / "tiny-de-en"))))
    assert runner.models["a@1"].precision == runner.models["b@1"].precision
    (chosen,) = runner._fastest.values()
    assert runner.models["a@1"].precision in (chosen, f"{chosen} native")


def test_differing_precisions_of_devices_are_listed(tiny_checkpoints: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(engine: AsyncEngine) -> None:
        assert (info(engine).devices, info(engine).precision) == (("cpu:0", "cpu:1"), "int8 native, bf16")
        assert info(engine).precision_reason == "cpu:0 has it; cpu:1 has it"
        LoadingProcess.precisions["cpu:1"] = "int8 native"
        await LoadingProcess.started[1].kill()
        await all_ready(engine)
        assert info(engine).precision == "int8 native", "the process was started again"
        unloaded = await engine.unload_model("tiny-de-en")
        assert (unloaded.model.precision, unloaded.model.precision_reason, unloaded.model.devices) == (None, None, ())
        assert not any("tiny-de-en@1" in device.loads for device in engine.supervisor.devices.values())

    play(tiny_checkpoints, monkeypatch, scene)


def test_licence_and_time_belong_to_the_version(
    tiny_checkpoints: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = shutil.copytree(tiny_checkpoints, tmp_path / "c")
    card, before = root / "tiny-de-en" / "README.md", datetime.now(UTC)
    card.write_text("---\nlicense: cc-by-4.0\n---\n")

    async def scene(engine: AsyncEngine) -> None:
        first = info(engine)
        assert (first.licence, info(engine, "tiny-lyrics").licence) == ("cc-by-4.0", None)
        assert before - timedelta(seconds=1) <= first.loaded_at <= datetime.now(UTC)
        assert first.loaded_at.tzinfo is UTC
        card.write_text("---\nlicense: mit\n---\n")
        assert info(engine) == first
        second = (await engine.reload_model("tiny-de-en")).model
        assert (second.version, second.licence) == (2, "mit")
        assert second.loaded_at >= first.loaded_at

    play(root, monkeypatch, scene)


def test_curves_of_loaded_models(tiny_checkpoints: Path, tmp_path: Path) -> None:
    root = shutil.copytree(tiny_checkpoints, tmp_path / "c")
    config = root / "tiny-en-es" / "config.json"
    content = json.loads(config.read_text(encoding="utf-8"))
    content["training"] = {"imported_from": "Helsinki-NLP/opus-mt-en-es", "revision": "0123456789abcdef"}
    config.write_text(json.dumps(content), encoding="utf-8")
    (config.parent / "config.sha256").unlink()
    made = pool(root)
    made.registry.read()
    assert "has no metrics.jsonl" in str(asyncio.run(made.curves("tiny-lyrics")).reason)
    origin = "tiny-en-es was imported from Helsinki-NLP/opus-mt-en-es (commit 0123456), without curves of its training."
    assert asyncio.run(made.curves("tiny-en-es")).reason == origin
    (root / "tiny-de-en" / "metrics.jsonl").write_text('{"update": 3, "loss": 1.5}\n')
    assert asyncio.run(made.curves("tiny-de-en")).curves[0].values == (1.5,)
    for name in ("none", "../c/tiny-de-en", ""):
        with pytest.raises(UnknownModel, match=r"No model .* is loaded\. Loaded: tiny-de-en, tiny-en-es, tiny-lyrics"):
            asyncio.run(made.curves(name))
