"""Real device processes on a machine where PyTorch reaches no GPU."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from app.engine.dispatch.supervisor import Device
from app.engine.protocol import messages as m
from tests.app.engine.engine_thread import Running, options
from tests.app.engine.fake_process import FakeProcess, a_supervisor
from tests.request_builders import translation_request

no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="its device would work")


@pytest.mark.slow
@no_gpu
def test_a_device_that_cannot_start_is_explained_while_another_serves(
    tiny_checkpoints: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    environments: list[dict[str, str]] = []
    spawn = subprocess.Popen

    def recorded(command: list[str], **more: Any) -> object:
        if "app.engine.worker.worker_main" in command:
            environments.append(more["env"])
        return spawn(command, **more)

    monkeypatch.setattr(subprocess, "Popen", recorded)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,GPU-8932f937")
    running = Running(options(tiny_checkpoints, devices="cuda:1,cpu"))
    try:
        running.ready()
        device = running.pool.supervisor.devices["cuda:1"]
        running.until(lambda: device.reason is not None and device.state == "restarting", "no reason")
        answer = running.do(running.pool.translate([translation_request("ich möchte ein bier", "de", "en")]))[0]
        problems = running.pool.status().problems
    finally:
        running.close()
    assert answer.model == "tiny-de-en"
    seen = {each.get("CUDA_VISIBLE_DEVICES") for each in environments if "CUDA_DEVICE_ORDER" in each}
    assert seen == {"GPU-8932f937"}
    assert device.reason is not None
    assert "CUDA" in device.reason or "NVIDIA" in device.reason
    assert any(text.startswith("cuda:1 is restarting") and text.endswith(f": {device.reason}.") for text in problems)
    assert any(text.startswith("PARLANCE_DEVICES is cuda:1,cpu, and cuda:1 cannot be used: ") for text in problems)
    logged = capfd.readouterr().err
    assert f"cuda:1 cannot be used: {device.reason}" in logged
    assert "Traceback" not in logged


@pytest.mark.slow
@no_gpu
def test_a_server_without_its_only_device_ends_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("__version__ = '2.13.0+cpu'\nclass version:\n    cuda = None\n")
    path = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[4])])
    environment = {**os.environ, "PYTHONPATH": path, "PARLANCE_DEVICES": "cuda:0", "PARLANCE_PORT": "1"}
    ended = subprocess.run(
        [sys.executable, "-m", "app"], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    expected = "Parlance cannot start: PARLANCE_DEVICES is cuda:0: PyTorch 2.13.0+cpu is built without CUDA.\n"
    assert (ended.returncode, ended.stderr) == (2, expected)


def test_the_reason_of_a_death_is_shown_until_the_next_process_has_started(fake: type[FakeProcess]) -> None:
    async def scene() -> None:
        supervisor = a_supervisor([], ("cuda:1",))
        device: Device = supervisor.devices["cuda:1"]
        device.pause_s = 0.01
        supervisor.spawn_all()
        for _ in range(2):
            count = len(fake.started)
            while len(fake.started) == count or device.process is None:
                await asyncio.sleep(0.001)
            fake.started[-1].says(m.Ended("CUDA error: invalid device ordinal"))
            fake.started[-1].on_death("cuda:1")
            device.pause_s = 0.01
        assert supervisor.problems() == [
            "cuda:1 is restarting; its process has ended 2 times in a row, last while it loaded a:"
            " CUDA error: invalid device ordinal."
        ]
        count = len(fake.started)
        while len(fake.started) == count:
            await asyncio.sleep(0.001)
        fake.started[-1].says(m.Started("cuda:1"))
        assert device.reason is None
        await supervisor.stop()

    asyncio.run(scene())
