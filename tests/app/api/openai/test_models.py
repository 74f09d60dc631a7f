"""GET /v1/models."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from tests.app.api.client import Client
from tests.app.api.fake_engine import LYRICIST, translator
from tests.app.api.openai.writer import Writer

LOADED = replace(LYRICIST, loaded_at=datetime(2026, 11, 22, 5, 12, 9, tzinfo=UTC))
SHOWN = {"id": "lyrics-zh", "object": "model", "created": 1795324329, "owned_by": "parlance", "max_model_len": 1024}


def test_only_completion_models_are_listed() -> None:
    answer = Client(Writer(loaded=[translator("de", "en"), LOADED])).get("/v1/models")
    assert (answer.status_code, answer.json()) == (200, {"object": "list", "data": [SHOWN]})


def test_single_model() -> None:
    client = Client(Writer(loaded=[translator("de", "en"), LOADED]))
    assert client.get("/v1/models/lyrics-zh").json() == SHOWN
    for name, message in (
        ("nobody", "There is no model nobody here; GET /v1/models lists them."),
        (
            "tiny-de-en",
            "tiny-de-en is a translator, which completes no text: send it to /translate, or name a lyricist"
            " (GET /v1/models).",
        ),
    ):
        answer = client.get(f"/v1/models/{name}")
        error = {"message": message, "type": "invalid_request_error", "param": "model", "code": "model_not_found"}
        assert (answer.status_code, answer.json()) == (404, {"error": error})
