"""The error table, the error body and request ids."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from app import errors
from app.api.errors import INTERNAL_ERROR_MESSAGE, STATUS
from app.errors import EngineError
from tests.app.api.client import Client
from tests.app.api.fake_engine import Broken, FakeEngine

REQUESTS: dict[str, dict[str, Any]] = {
    "/translate": {"q": "hallo", "source": "de", "target": "en"},
    "/generate": {"prompt": "a"},
    "/attention": {"source": "a"},
    "/gates": {"text": "a"},
    "/score": {"source": "a", "target": "b"},
}
FAILURES: list[tuple[EngineError, int, int]] = [  # the error, its status at /translate, and at ours
    (errors.InvalidRequest("No.", field="q"), 400, 422),
    (errors.TextTooLong("Too long."), 422, 422),
    (errors.UnknownCharacters("No such character."), 400, 422),
    (errors.AnswerTooLarge("Too much.", values=9, limit=8, suggest={"units": 1}), 400, 422),
    (errors.UnknownPair("No pair."), 400, 400),
    (errors.UnknownModel("No model."), 404, 404),
    (errors.UnknownGlossary("No glossary."), 404, 404),
    (errors.ModelConflict("Loaded already."), 409, 409),
    (errors.CheckpointRefused("Torn."), 422, 422),
    (errors.Overloaded("Try again in 3 seconds.", retry_after_s=3), 429, 429),
    (errors.EngineUnavailable("The device restarts."), 503, 503),
    (errors.DeadlineExceeded("Too slow."), 504, 504),
    (errors.EngineFailed("This request failed."), 500, 500),
    (Broken("Something new."), 500, 500),
]


@pytest.mark.parametrize("path", REQUESTS)
@pytest.mark.parametrize("row", FAILURES, ids=lambda row: type(row[0]).__name__)
def test_each_domain_error_has_its_status_and_keeps_its_sentence(path: str, row: tuple[EngineError, int, int]) -> None:
    error, libretranslate_status, own_status = row
    answer = Client(FakeEngine(failure=error)).post(path, json=REQUESTS[path])
    assert answer.status_code == (libretranslate_status if path == "/translate" else own_status)
    size = {"values": 9, "limit": 8, "suggest": {"units": 1}}
    assert answer.json() == {
        "error": error.message,
        "code": error.code,
        "field": error.field,
        "request_id": answer.headers["X-Request-Id"],
        **(size if isinstance(error, errors.AnswerTooLarge) else {}),
    }


def test_every_domain_error_is_in_the_table() -> None:
    named = [var for var in vars(errors).values() if isinstance(var, type) and issubclass(var, EngineError)]
    assert len(named) == 15
    assert all(any(base in STATUS for base in kind.__mro__[:-3]) for kind in named)


@pytest.mark.parametrize(
    ("error", "seconds"),
    [(errors.Overloaded("Later.", retry_after_s=3), "3"), (errors.EngineUnavailable("Down."), "2")],
)
def test_retryable_errors_have_retry_after(error: EngineError, seconds: str) -> None:
    answer = Client(FakeEngine(failure=error)).post("/generate", json={"prompt": "a"})
    assert answer.headers["Retry-After"] == seconds


@pytest.mark.parametrize("path", REQUESTS)
def test_unexpected_exception_is_500_and_logged(path: str, caplog: pytest.LogCaptureFixture) -> None:
    client = Client(FakeEngine(failure=RuntimeError("secret detail")))
    with caplog.at_level(logging.ERROR):
        answer = client.request("POST", path, json=REQUESTS[path], headers={"X-Request-Id": "mine-1"})
    assert answer.status_code == 500
    assert answer.json() == {
        "error": INTERNAL_ERROR_MESSAGE,
        "code": "internal_error",
        "field": None,
        "request_id": "mine-1",
    }
    [record] = caplog.records
    assert "mine-1" in record.getMessage()
    assert record.exc_info is not None
    assert "secret detail" in str(record.exc_info[1])


def test_unknown_path() -> None:
    answer = Client().get("/nothing/here%00")
    assert answer.status_code == 404
    assert (
        answer.json()["error"] == "There is nothing at /nothing/here\N{REPLACEMENT CHARACTER}; /docs lists every path."
    )
    assert answer.json()["code"] == "not_found"


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/translate", "POST"),
        ("DELETE", "/generate", "POST"),
        ("PUT", "/attention", "POST"),
        ("POST", "/models", "GET"),
    ],
)
def test_wrong_method(method: str, path: str, allowed: str) -> None:
    answer = Client().request(method, path)
    assert (answer.status_code, answer.headers["Allow"]) == (405, allowed)
    assert answer.json()["error"] == f"{path} does not answer {method}; use {allowed}."


def test_ids_are_made_and_differ() -> None:
    client = Client()
    ids = {client.get("/health").headers["X-Request-Id"] for _ in range(3)}
    assert len(ids) == 3
    assert all(len(id_) == 32 for id_ in ids)


@pytest.mark.parametrize("given", ["a b", "x" * 129, 'a"b', "ä".encode()])
def test_ids_that_could_break_a_log_line_are_replaced(given: Any) -> None:
    answer = Client().get("/health", headers={"X-Request-Id": given})
    assert len(answer.headers["X-Request-Id"]) == 32


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("/v1/embeddings", ["error"]),
        ("/v1/nothing/at/all", ["error"]),
        ("/v2/nothing", ["message"]),
        ("/v3/nothing", ["message"]),
        ("/v3/projects/parlance:translateText", ["error"]),
        ("/language/translate/v2/nothing", ["error"]),
        ("/language/translate/v3", ["error"]),
        ("/google/language/nothing", ["error"]),
        ("/nothing", ["error", "code", "field", "request_id"]),
        ("/v1nothing", ["error", "code", "field", "request_id"]),
    ],
)
def test_unknown_path_is_answered_in_the_form_of_its_family(method: str, path: str, form: list[str]) -> None:
    answer = Client().request(method, path)
    body = answer.json()
    assert (answer.status_code, list(body)) == (404, form)
    assert f"There is nothing at {path}; /docs lists every path." in answer.text
    if path.startswith("/v1/"):
        assert body["error"] == {**body["error"], "type": "invalid_request_error", "code": "unknown_url"}
    elif form == ["error"]:
        assert (body["error"]["code"], body["error"]["status"]) == (404, "NOT_FOUND")


@pytest.mark.parametrize("path", ["/v1/completions", "/v2/translate", "/language/translate/v2/detect"])
def test_wrong_method_is_answered_in_the_form_of_its_family(path: str) -> None:
    answer = Client().request("DELETE", path)
    assert (answer.status_code, len(answer.json())) == (405, 1)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
def test_chat_is_refused_with_the_reason_and_what_to_use_instead(path: str) -> None:
    answer = Client().post(path, json={"model": "lyrics-zh", "messages": [{"role": "user", "content": "hi"}]})
    assert answer.status_code == 404
    assert answer.json()["error"] == {
        "message": "There is no chat here, because these models continue a text and know no turns: send the text as"
        ' "prompt" to POST /v1/completions, or a text to be translated to POST /translate.',
        "type": "invalid_request_error",
        "param": None,
        "code": "unknown_url",
    }
