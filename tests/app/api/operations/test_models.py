"""GET /models, and what the admin key opens."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app import errors
from app.engine.registry.model_import import ModelImport, ModelImporter
from models.checkpoint import DemoCard
from tests.app.api.client import Client, described
from tests.app.api.fake_engine import FakeEngine, translator


def test_each_model_with_all_its_fields() -> None:
    first, *_, last = Client().get("/models").json()
    assert first == {
        "name": "tiny-de-en",
        "version": 1,
        "kind": "translator",
        "architecture": "transformer",
        "parameters": 44_140_544,
        "source_language": "de",
        "target_language": "en",
        "language_pairs": [{"source": "de", "target": "en"}],
        "vocabulary": 8000,
        "max_source_tokens": 256,
        "max_new_tokens": 256,
        "devices": ["cpu"],
        "precision": "int8 native",
        "precision_reason": "kernels in C, int8: its shortlist",
        "licence": "cc-by-4.0",
        "loaded_at": "2026-11-22T05:12:09Z",
        "scores": {"BLEU": 39.1, "broken": None},  # JSON has no NaN
        "demo": None,
        "order": "name",
    }
    assert (last["name"], last["source_language"], last["scores"]) == ("lyrics-zh", None, {})
    assert (last["precision"], last["licence"]) == (None, None)


def test_a_model_that_comes_with_parlance_says_what_it_knows() -> None:
    card = DemoCard("It knows three words.", 2, ("ein Bier",), "make serve MODEL=de-en", 3)
    (model,) = Client(FakeEngine(loaded=[replace(translator("de", "en"), demo=card)])).get("/models").json()
    assert model["demo"] == {
        "summary": "It knows three words.",
        "words": 3,
        "patterns": 2,
        "examples": ["ein Bier"],
        "way_out": "make serve MODEL=de-en",
    }


def test_no_models() -> None:
    assert Client(FakeEngine(loaded=[])).get("/models").json() == []


KEY = "correct-horse-battery"
RIGHT = {"Authorization": f"Bearer {KEY}"}
CHANGES = ("load", "reload", "unload")


def changes() -> Iterator[str]:
    """Every POST route under /models, future ones included."""
    paths = described()["paths"]
    for path in paths:
        if path.startswith("/models/") and "post" in paths[path]:
            yield path.replace("{name}", "tiny-de-en")


@pytest.mark.parametrize("what", CHANGES)
def test_admin_key_is_accepted(what: str) -> None:
    client = Client(admin_key=KEY)
    for headers in (RIGHT, {"X-Api-Key": KEY}, {"authorization": f"bearer  {KEY} "}):
        answer = client.post(f"/models/tiny-de-en/{what}", headers=headers)
        assert answer.status_code == 200
        assert answer.json() == {"model": client.get("/models").json()[0], "seconds": 0.25}
    assert client.engine.requests == [(what, "tiny-de-en")] * 3


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer " + KEY[:-1]},
        {"Authorization": "Bearer " + KEY + "x"},
        {"Authorization": KEY},
        {"Authorization": f"Basic {KEY}"},
        {"X-Api-Key": ""},
        {"X-Api-Key": "schlüssel".encode()},
        {"Authorization": b"Bearer \xff\xfe"},
    ],
)
def test_model_changes_need_the_admin_key(headers: dict[str, Any]) -> None:
    client = Client(admin_key=KEY)
    paths = list(changes())
    assert len(paths) == 4
    for path in paths:
        answer = client.post(path, headers=headers)
        assert (answer.status_code, answer.json()["code"][:4]) == (401, "key_")
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
        assert KEY not in answer.text
    assert client.engine.calls == 0


def test_without_a_key_of_its_own_the_server_changes_nothing() -> None:
    client = Client()
    for path in changes():
        for headers in ({}, {"Authorization": "Bearer "}, {"X-Api-Key": ""}, RIGHT):
            answer = client.post(path, headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
            assert "start the server with PARLANCE_ADMIN_KEY" in answer.json()["error"]
            assert "parlance keys add NAME --scope admin --file FILE" in answer.json()["error"]
    assert client.engine.calls == 0


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.UnknownModel("No model x is loaded."), 404),
        (errors.ModelConflict("x is loaded already."), 409),
        (errors.CheckpointRefused("x/model.safetensors does not match its checksum; the model was not loaded."), 422),
        (errors.EngineUnavailable("No device is ready."), 503),
    ],
)
def test_impossible_model_change_is_refused(error: errors.EngineError, status: int) -> None:
    client = Client(admin_key=KEY)
    client.engine.failure = error
    answer = client.post("/models/x/reload", headers=RIGHT)
    assert (answer.status_code, answer.json()["error"]) == (status, error.message)


def test_import_answers_at_once_and_tells_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client, importer = Client(admin_key=KEY), ImporterWithoutProcesses(tmp_path)
    object.__setattr__(client.app.state.services, "importer", importer)
    answer = client.post("/models/import?model=de-en", headers=RIGHT)
    expected = {"id": 1, "model": "de-en", "state": "running", "stage": "download", "name": None, "bytes": 50}
    expected |= {"total": 200, "seconds": 2.0, "seconds_left": 6.0, "error": None, "note": None}
    assert (answer.status_code, answer.json()) == (202, expected)
    assert client.get("/models/imports", headers=RIGHT).json() == [expected]
    assert client.request("DELETE", "/models/imports/1", headers=RIGHT).json()["state"] == "cancelled"
    assert client.request("DELETE", "/models/imports/2", headers=RIGHT).status_code == 404
    for path in ("/models/import?model=nonsense", "/models/import?model=", "/models/import?model=--out%3D/etc"):
        answer = client.post(path, headers=RIGHT)
        assert (answer.status_code, answer.json()["field"]) == (422, "model")
    assert client.post("/models/import", headers=RIGHT).json()["field"] == "model"
    for method, path in (("GET", "/models/imports"), ("DELETE", "/models/imports/1")):
        assert client.request(method, path).status_code == 401


class ImporterWithoutProcesses(ModelImporter):
    """Its imports stay at one stage until they are cancelled."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, self._never, self._never, lambda name: False)

    async def _never(self, name: str) -> None:
        raise AssertionError(name)

    async def _run(self, made: ModelImport) -> None:
        self._tasks.pop(made.id)  # each request of these tests has an event loop of its own

    async def start(self, model: str) -> ModelImport:
        made = await super().start(model)
        made.read({"stage": "download", "bytes": 50, "total": 200, "seconds": 2.0})
        return made

    async def cancel(self, number: int) -> ModelImport:
        made = await super().cancel(number)
        made.state = "cancelled"
        return made


@pytest.mark.parametrize("name", ["a%2Fb", "..%2Fetc", "a/b"])
def test_a_name_is_one_part_of_a_path(name: str) -> None:
    client = Client(admin_key=KEY)
    assert client.post(f"/models/{name}/load", headers=RIGHT).status_code == 404
    assert client.engine.calls == 0


def test_a_name_of_megabytes_is_not_quoted() -> None:
    client = Client(admin_key=KEY)
    answer = client.post(f"/models/{'a' * 10_000}/load", headers=RIGHT)
    assert answer.status_code == 422
    assert len(answer.text) < 1000


def test_the_key_is_in_no_log_and_no_repr(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        client = Client(admin_key=KEY)
        client.post("/models/tiny-de-en/reload", headers=RIGHT)
        client.post("/models/tiny-de-en/reload", headers={"X-Api-Key": "wrong"})
        logging.getLogger("app").info("%r", client.app.state.services)
    assert KEY not in caplog.text
