from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import deepl
import pytest

from tests.clients.deepl_server import KEY, TEXTS, Between, deepl_serving
from tests.serving import Server

Ours = Callable[..., str]
Terms = Callable[..., deepl.GlossaryInfo]


@pytest.fixture(scope="session")
def deepl_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with deepl_serving(tmp_path_factory.mktemp("deepl")) as server:
        yield server


@pytest.fixture
def client(deepl_server: Server) -> Iterator[deepl.DeepLClient]:
    client = deepl.DeepLClient(KEY, server_url=deepl_server.base)
    yield client
    client.close()


@pytest.fixture
def between(deepl_server: Server) -> Iterator[Between]:
    between = Between(deepl_server)
    yield between
    between.close()


@pytest.fixture
def ours(deepl_server: Server) -> Ours:
    """The answer of our own route."""

    def translated(text: str = TEXTS["en"], source: str = "en", target: str = "de") -> str:
        fields = {"q": text, "source": source, "target": target}
        answer = deepl_server.ask("/translate", fields, Authorization=f"Bearer {KEY}")["translatedText"]
        assert isinstance(answer, str)
        assert answer.strip()
        return answer

    return translated


@pytest.fixture
def name() -> str:
    return f"terms {uuid.uuid4()}"


@pytest.fixture
def terms(client: deepl.DeepLClient) -> Iterator[Terms]:
    """Makes glossaries that are gone after the test."""
    made: list[deepl.GlossaryInfo] = []

    def make(
        entries: dict[str, str] | None = None, source: str = "EN", target: str = "DE", name: str = "terms"
    ) -> deepl.GlossaryInfo:
        made.append(client.create_glossary(name, source, target, entries or {"Hello": "Hallo"}))
        return made[-1]

    yield make
    for glossary in made:
        with contextlib.suppress(deepl.GlossaryNotFoundException):
            client.delete_glossary(glossary)


@pytest.fixture
def document(tmp_path: Path) -> Path:
    path = tmp_path / "letter.txt"
    path.write_text(TEXTS["en"], encoding="utf-8")
    return path
