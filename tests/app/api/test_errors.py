"""The error table, the error body and request ids."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest
from fastapi.routing import APIRoute

from app import errors
from app.api.errors import INTERNAL_ERROR_MESSAGE
from app.api.families import all_routes
from app.connection_limits import Refused
from app.errors import EngineError, error_kinds
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


@pytest.mark.every_value
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


def test_every_error_has_a_code_of_its_own_and_a_status() -> None:
    kinds = [kind for kind in error_kinds() if kind.__module__.startswith("app.")]
    codes = [kind.code for kind in kinds if "code" in vars(kind)]
    assert len(codes) > 15
    assert len(set(codes)) == len(codes), "a code names one class of errors: give the new one another"
    assert [kind for kind in kinds if kind.__base__ is EngineError and "status" not in vars(kind)] == [Refused], (
        "the row of an error has its status, in brackets after the name of the class"
    )


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
        ("POST", "/models", "GET, HEAD"),
        ("DELETE", "/languages", "GET, POST, HEAD"),
        ("OPTIONS", "/translate", "POST"),
        ("POST", "/", "GET, HEAD"),
        ("POST", "/docs-assets/swagger-ui.css", "GET, HEAD"),
    ],
)
def test_wrong_method(method: str, path: str, allowed: str) -> None:
    answer = Client().request(method, path)
    assert (answer.status_code, answer.headers["Allow"]) == (405, allowed)
    used = allowed.removesuffix(", HEAD").replace(", ", " or ")
    assert answer.json()["error"] == f"{path} does not answer {method}; use {used}."


def test_allow_names_every_method_of_every_path() -> None:
    """Routers name those of the path's first route, so that DeepL's glossaries had POST alone."""
    client = Client()
    methods = dict[str, set[str]]()
    for route in all_routes():
        assert isinstance(route, APIRoute)
        methods.setdefault(re.sub(r"{[^}]*}", "1", route.path), set()).update(route.methods)
    assert len(methods) > 45
    assert len([path for path, served in methods.items() if len(served) > 1]) > 9
    for path, served in methods.items():
        named = {*served, *({"HEAD"} if "GET" in served else ())}
        answer = client.request("OPTIONS", path)
        assert (answer.status_code, set(answer.headers["allow"].split(", "))) == (405, named), path
        for method in named - {"GET"}:
            assert client.request(method, path).status_code != 405, (method, path)


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
