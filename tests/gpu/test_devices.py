"""The life of models on real GPUs: load, unload and load again, a reload under load, slots from free memory, and a
second device where there is one (make test-gpu)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import torch

from app.engine.dispatch.placement import cuda_report
from app.engine.interface import EngineSettings
from app.engine.protocol.messages import Load
from app.engine.worker.model_runner import ModelRunner, slot_bytes
from benchmarks.shapes import SHAPES, write_checkpoint
from tests.app.engine.engine_thread import Running
from tests.request_builders import generation_request, translation_request

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here"),
]
SENTENCES = ("ich möchte ein bier", "der hund sieht die roten äpfel", "guten morgen", "wo ist der bahnhof")


def serving(root: Path, devices: str, **change: object) -> Running:
    settings = {"checkpoints": root, "devices": devices, "precision": "fp32", **change}
    running = Running(EngineSettings(**settings))  # type: ignore[arg-type]
    try:
        running.ready()
    except BaseException:
        running.close()
        raise
    return running


def translations(running: Running) -> list[str]:
    requests = [translation_request(text, "de", "en") for text in SENTENCES]
    return [result.text for result in running.do(running.pool.translate(requests))]


def test_pytorch_reports_the_gpus_from_a_process_of_its_own() -> None:
    report = cuda_report(120.0)
    assert len(report.gpus) == torch.cuda.device_count()
    properties = torch.cuda.get_device_properties(0)
    assert report.gpus[0].name == properties.name
    assert report.gpus[0].capability == f"{properties.major}.{properties.minor}"
    assert 0 < report.gpus[0].free_bytes <= report.gpus[0].total_bytes


def test_a_model_is_loaded_unloaded_and_loaded_again(tiny_checkpoints: Path) -> None:
    on_cpu, on_gpu = (serving(tiny_checkpoints, devices) for devices in ("cpu", "cuda:0"))
    try:
        expected = translations(on_cpu)
        assert translations(on_gpu) == expected
        for _ in range(2):
            for name in ("tiny-de-en", "tiny-en-es", "tiny-lyrics"):
                on_gpu.do(on_gpu.pool.unload_model(name))
            for name in ("tiny-lyrics", "tiny-de-en", "tiny-en-es"):
                on_gpu.do(on_gpu.pool.load_model(name))
            assert translations(on_gpu) == expected
        device = on_gpu.pool.supervisor.devices["cuda:0"]
        assert (device.deaths, device.state) == (0, "ready")
    finally:
        on_cpu.close()
        on_gpu.close()


def test_a_reload_under_load_fails_no_request(tiny_checkpoints: Path) -> None:
    running = serving(tiny_checkpoints, "cuda:0")

    async def scene() -> list[str]:
        requests = [generation_request(prompt="分开", max_new_tokens=40, seed=5) for _ in range(40)]
        work = [asyncio.create_task(running.pool.generate(request)) for request in requests]
        await running.pool.reload_model("tiny-lyrics")
        return [result.continuations[0].text for result in await asyncio.gather(*work)]

    try:
        texts = running.do(scene())
        assert len(set(texts)) == 1
        assert len(texts[0]) == 40
    finally:
        running.close()


def test_slots_from_memory_take_no_more_than_was_computed(tmp_path: Path) -> None:
    """The base shape: 2.4 GiB of slots, beside which weights, graphs and cuBLAS's workspaces have their usual sizes."""
    folder = write_checkpoint(tmp_path / "base", SHAPES["base"])
    runner = ModelRunner("cuda:0", 0, 0, "bf16", 4)
    runner.release_memory()
    prepared = runner.read(Load("base", str(folder)))
    before = torch.cuda.memory_allocated()
    runner.install("base", prepared)
    model = runner.models["base"]
    taken = torch.cuda.memory_allocated() - before
    slots = model.slots * slot_bytes(model.decodable, model.config, SHAPES["base"].vocabulary)
    weights = sum(p.numel() * 6 for p in prepared.network.parameters())  # type: ignore[union-attr]
    assert model.slots == 512
    assert 0.9 * slots < taken - weights < 1.1 * slots + (128 << 20)
    runner.unload("base")
    del model, prepared
    assert torch.cuda.memory_allocated() - before < 256 << 20


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there is one CUDA device here")
def test_the_second_device_translates_as_the_cpu_does(tiny_checkpoints: Path) -> None:
    on_cpu = serving(tiny_checkpoints, "cpu")
    try:
        expected = translations(on_cpu)
    finally:
        on_cpu.close()
    for devices in ("cuda:1", "cuda:0,cuda:1"):
        running = serving(tiny_checkpoints, devices)
        try:
            running.until(lambda running=running: set(running.pool.status().devices.values()) == {"ready"}, "not ready")
            for _ in range(8):
                assert translations(running) == expected
        finally:
            running.close()
