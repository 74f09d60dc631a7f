"""`create_app` under another program's command: uvicorn's has the same guards, others are said to have none."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator

import pytest
import uvicorn

import app.main
from app.main import UNGUARDED, create_app
from app.settings import Settings
from tests.app.api.fake_engine import FakeEngine
from tests.app.socket_server import GET, SocketServer, answers, error, listening, read_to_end
from tests.app.test_framings import FRAMINGS, LAST, statuses


@pytest.fixture
def fake_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.main, "create_engine", lambda *_: FakeEngine())


@contextlib.contextmanager
def started(http: str) -> Iterator[SocketServer]:
    """As `uvicorn --factory app.main:create_app --http ...` starts it."""
    config = uvicorn.Config("app.main:create_app", factory=True, http=http, log_config=None)
    with listening(uvicorn.Server(config)) as port:
        yield SocketServer(port, config.loaded_app.app.state.services.metrics)


@pytest.mark.parametrize("http", ["auto", "h11"])
def test_uvicorns_command_has_the_guards(
    http: str, fake_engine: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PARLANCE_MAX_HEADERS", "16")
    monkeypatch.setenv("PARLANCE_HEADER_TIMEOUT_S", "0.4")
    with started(http) as server:
        assert error(server.exchange(b"GET /" + b"a" * 100_000))[0] == 414
        assert error(server.exchange(GET[:-2] + b"X: y\r\n" * 20 + b"\r\n"))[0] == 431
        with server.connect() as client:
            client.sendall(GET[:-2])
            assert error(read_to_end(client))[0] == 408
        for name in ("JSON, h2c", "JSON, websocket", "chunks, h2c", "gzip, chunked", "a body that is a request, h2c"):
            sent, expected = FRAMINGS[name]
            assert statuses(server.exchange(sent + LAST)) == expected, name
        assert server.refused("headers_too_large") == 1
        assert [status for status, *_ in answers(server.exchange(LAST))] == [200]
    assert UNGUARDED not in caplog.text


@pytest.mark.parametrize("settings", [None, Settings()], ids=["another program", "our command"])
def test_a_program_whose_connections_have_no_guards_is_said_so(
    settings: Settings | None, fake_engine: None, caplog: pytest.LogCaptureFixture
) -> None:
    """Ray and the tests give settings, and bring what guards they have."""
    served = create_app(settings)

    async def run() -> None:
        async with served.router.lifespan_context(served):
            pass

    with caplog.at_level(logging.WARNING, "app"):
        asyncio.run(run())
    assert [record.getMessage() for record in caplog.records] == ([UNGUARDED] if settings is None else [])
