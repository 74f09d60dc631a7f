"""The tests of the API once more, with the engine behind the socket of a front end."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import httpx
import pytest

from app.engine.metrics.collector import Metrics
from app.front_ends.engine_server import EngineServer
from app.main import create_app, shared_parts, usage_counts
from app.settings import Settings
from tests.app.api.client import Client, share_routes
from tests.app.api.conftest import _one_detector  # noqa: F401
from tests.app.api.deepl.test_account import *  # noqa: F403
from tests.app.api.deepl.test_translate import *  # noqa: F403
from tests.app.api.fake_engine import FakeEngine
from tests.app.api.generation.test_generate import *  # noqa: F403
from tests.app.api.inspection.test_attention import *  # noqa: F403
from tests.app.api.inspection.test_gates import *  # noqa: F403
from tests.app.api.inspection.test_score import *  # noqa: F403
from tests.app.api.inspection.test_walkthrough import *  # noqa: F403
from tests.app.api.libretranslate.test_translate import *  # noqa: F403
from tests.app.api.openai.test_completions import *  # noqa: F403
from tests.app.api.operations.test_health import *  # noqa: F403
from tests.app.api.operations.test_metrics import *  # noqa: F403
from tests.app.api.operations.test_models import *  # noqa: F403
from tests.app.api.test_rate_limits import *  # noqa: F403
from tests.app.front_ends.over_sockets import front_end

# they put parts of their own into the app of a client, where the requests of these tests do not find them
del test_split_sentences_and_tags_reach_the_translator  # noqa: F821
del test_a_glossary_reaches_the_translator  # noqa: F821
del test_import_answers_at_once_and_tells_how_far_it_is  # noqa: F821
# the engine of a front end says itself whether it is alive
del test_not_alive_where_the_engine_process_hangs  # noqa: F821


pytestmark = pytest.mark.slow  # each test runs without a front end too


@pytest.fixture(autouse=True)
def _behind_a_front_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request of a client has an event loop, and so a connection, of its own; the shared parts stay."""

    def __init__(self: Any, engine: FakeEngine | None = None, **settings: Any) -> None:
        self.engine, self.settings, metrics = engine or FakeEngine(), Settings(**settings), Metrics()
        metrics.watch(self.engine)
        self.shared = shared_parts(self.settings, self.engine, metrics, usage_counts(self.settings, metrics))
        self.app = create_app(self.settings, self.engine, self.shared)

    def request(self: Any, method: str, path: str, **options: Any) -> httpx.Response:
        async def send() -> httpx.Response:
            async with front_end(self.engine, EngineServer(self.engine, self.shared)) as connected:
                app = create_app(self.settings, connected.engine, connected.shared)
                share_routes(app)
                changed = self.app.state.services.access  # tests put gates with a clock of their own there
                app.state.services = replace(app.state.services, access=changed)
                transport = httpx.ASGITransport(app=app)
                async with httpx.AsyncClient(transport=transport, base_url="http://parlance") as client:
                    return await client.request(method, path, **options)

        return asyncio.run(send())

    monkeypatch.setattr(Client, "__init__", __init__)
    monkeypatch.setattr(Client, "request", request)
