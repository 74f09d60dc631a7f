"""`create_app` wires the parts as the settings say."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import types
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from app.__main__ import warn_of_open_address
from app.engine.interface import EngineSettings
from app.main import create_app
from app.settings import Settings
from tests.app.api.client import Client
from tests.app.api.fake_engine import FakeEngine

ROOT = Path(__file__).parents[2]


class Startable(FakeEngine):
    """Says in which order it was started and stopped."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[str] = []

    async def start(self) -> None:
        self.events.append("start")

    async def stop(self) -> None:
        self.events.append("stop")


def test_engine_is_started_and_stopped_with_the_app() -> None:
    engine = Startable()
    app = create_app(Settings(), engine)

    async def run() -> None:
        async with app.router.lifespan_context(app):
            engine.events.append("serve")

    asyncio.run(run())
    assert engine.events == ["start", "serve", "stop"]


def test_engine_without_lifespan_is_served() -> None:
    app = create_app(Settings(), FakeEngine())

    async def run() -> None:
        async with app.router.lifespan_context(app):
            pass

    asyncio.run(run())


def test_default_engine_is_built_from_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("app.engine.async_engine")
    monkeypatch.setattr(module, "AsyncEngine", lambda options, metrics: options, raising=False)
    monkeypatch.setitem(sys.modules, "app.engine.async_engine", module)
    settings = Settings(devices="cpu", beam_size=2, checkpoints=Path("elsewhere"))
    options = create_app(settings).state.services.engine
    assert isinstance(options, EngineSettings)
    assert asdict(options) == {name: getattr(settings, name) for name in asdict(options)}


def test_invalid_settings_end_the_start_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARLANCE_BEAM_SIZE", "x")
    with pytest.raises(SystemExit) as excinfo:
        create_app()
    assert excinfo.value.code == 'Parlance cannot start: PARLANCE_BEAM_SIZE is "x": it should be a valid integer.'


def test_cors_origins_follow_the_setting() -> None:
    origin = {"Origin": "https://example.org"}
    assert "access-control-allow-origin" not in Client().get("/health", headers=origin).headers
    client = Client(cors_origins="https://example.org, https://example.net")
    assert client.get("/health", headers=origin).headers["access-control-allow-origin"] == "https://example.org"
    refused = client.post("/generate", json={}, headers=origin)
    assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (422, "https://example.org")


def test_errors_have_cors_headers() -> None:
    client = Client(FakeEngine(failure=RuntimeError()), cors_origins="*")
    answer = client.post("/generate", json={"prompt": "a"}, headers={"Origin": "https://example.org"})
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (500, "*")


def test_the_app_is_made_without_torch_the_detector_and_ray() -> None:
    program = (
        "import sys; from app.main import create_app; from app.settings import Settings;"
        " from tests.app.api.fake_engine import FakeEngine; create_app(Settings(), FakeEngine());"
        " print(*{'torch', 'py3langid', 'ray'} & {*sys.modules})"
    )
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True)
    assert run.stdout.split() == []


def test_cache_size_follows_its_setting() -> None:
    calls = []
    for megabytes in (0, 1):
        engine = FakeEngine()
        client = Client(engine, cache_mb=megabytes)
        for _ in range(2):
            answer = client.post("/translate", json={"q": "hallo", "source": "de", "target": "en"})
            assert answer.json() == {"translatedText": "en:hallo"}
        calls.append(engine.calls)
    assert calls == [2, 1]


@pytest.mark.parametrize(
    ("settings", "warned"),
    [
        ({"host": "0.0.0.0"}, True),
        ({"host": "::"}, True),
        ({"host": "192.168.1.2"}, True),
        ({"host": "translate.example.org"}, True),
        ({"host": "0.0.0.0", "keys_file": "keys.jsonl", "key_required": False}, True),
        ({"host": "0.0.0.0", "keys_file": "keys.jsonl"}, False),
        ({"host": "127.0.0.1"}, False),
        ({"host": "127.0.1.7"}, False),
        ({"host": "::1"}, False),
        ({"host": "localhost"}, False),
    ],
)
def test_server_without_keys_that_other_machines_reach_warns(
    settings: dict[str, Any], warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    warn_of_open_address(Settings(**settings))
    lines = caplog.text
    assert ("every machine that reaches port 8000 may use this server" in lines) == warned


@pytest.mark.parametrize(
    ("environment", "words", "host"),
    [
        ({}, [], "127.0.0.1"),
        ({"HOST": "workstation"}, [], "127.0.0.1"),
        ({"HOST": "0.0.0.0"}, [], "127.0.0.1"),
        ({"HOST": "0.0.0.0"}, ["-e"], "127.0.0.1"),
        ({"HOST": "workstation", "PARLANCE_HOST": "10.0.0.7"}, [], "10.0.0.7"),
        ({"HOST": "workstation"}, ["HOST=0.0.0.0"], "0.0.0.0"),
    ],
)
def test_make_serve_takes_no_address_from_a_variable_of_the_shell(
    environment: dict[str, str], words: list[str], host: str
) -> None:
    kept = {name: value for name, value in os.environ.items() if name not in ("HOST", "PARLANCE_HOST", "MAKEFLAGS")}
    command = ["make", "--dry-run", "serve", "-o", ".venv/.installed", *words]
    run = subprocess.run(command, cwd=ROOT, env=kept | environment, check=True, capture_output=True, text=True)
    assert f'PARLANCE_HOST="{host}"' in run.stdout
