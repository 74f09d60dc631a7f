"""`create_app` wires the parts as the settings say."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import types
from dataclasses import asdict
from pathlib import Path

import pytest

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


def test_front_end_process_does_not_import_the_engine() -> None:
    modules = "{'torch', 'app.engine.async_engine', 'app.engine.dispatch.dispatcher', 'app.engine.worker'}"
    check = f"import sys, app.front_ends.front_end; sys.exit(bool({modules} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", check], cwd=ROOT).returncode == 0


def test_app_with_an_engine_of_its_own_has_one_front_end() -> None:
    with pytest.raises(SystemExit, match="PARLANCE_FRONT_ENDS is more than 1, and this program serves with one"):
        create_app(Settings(front_ends=2))


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
