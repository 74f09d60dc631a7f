"""Bodies that are small and hold many items: the cost of a request is bounded before objects are made of it."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote_plus

import pytest
from fastapi import Request

from app.api.request_body import parse_fields
from tests.app.api.client import Client


@pytest.fixture(scope="module")
def client() -> Client:
    return Client()


def post(client: Client, path: str, body: object) -> tuple[int, str]:
    answer = client.post_raw(path, json.dumps(body, separators=(",", ":")).encode())
    return answer.status_code, answer.text


MANY_CONTAINERS: list[tuple[str, dict[str, Any]]] = [
    ("/v3/glossaries", {"name": "x", "dictionaries": [{}] * 633_333}),
    ("/v1/completions", {"prompt": [[1]] * 300_000}),
    ("/attention", {"source": "a", "layers": [[]] * 500_000}),
]


@pytest.mark.parametrize(("path", "body"), MANY_CONTAINERS, ids=lambda value: value if isinstance(value, str) else "")
def test_many_lists_and_objects_are_refused_before_they_are_made(
    client: Client, path: str, body: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.api.request_body._decoder.decode", lambda text: pytest.fail("parsed"))
    status, text = post(client, path, body)
    assert status in (400, 422)
    assert "lists and objects; one request takes 10,000. Send it in parts." in text


def test_many_numbers_or_texts_are_refused(client: Client) -> None:
    for path, body in (("/v3/glossaries", {"dictionaries": [1] * 200_000}), ("/translate", {"q": ["a"] * 200_000})):
        status, text = post(client, path, body)
        assert (status, "items; one request takes 100,000" in text) == (400, True)


def test_commas_and_brackets_in_texts_are_no_items(client: Client) -> None:
    status, _ = post(client, "/translate", {"q": ['[{,\\"' * 15_000, ",{[" * 30_000], "source": "de", "target": "en"})
    assert status == 200


def test_unknown_fields_are_counted_before_their_names_are_compared(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, text = post(client, "/generate", {"prompt": "a", **{f"max_tokns{i}": 1 for i in range(5000)}})
    assert (status, "The body has 5,001 fields; one request takes 1,000." in text) == (422, True)
    looks = list[str]()
    monkeypatch.setattr("app.api.request_fields.suggested_name", lambda name, names: looks.append(name))
    assert post(client, "/translate", {"q": "a", "source": "de", "target": "en", **{f"x{i}": 1 for i in range(900)}})
    assert len(looks) == 20


def test_answer_names_the_first_of_many_problems(client: Client) -> None:
    status, text = post(client, "/v3/glossaries", {"name": "x", "dictionaries": [1] * 100})
    assert status == 400
    assert text.endswith('\\"dictionaries[9]\\" is 1, it takes an object; and 90 more."}\n')
    status, text = post(client, "/v3/glossaries", {"name": "x", "dictionaries": [{}] * 101})
    assert (status, "has more than 100 items" in text) == (400, True)


ESCAPES = [
    "",
    "a",
    "%",
    "%4",
    "%41",
    "%4g",
    "%g4",
    "%%41",
    "%41%",
    "%4%41",
    "%25%2b+%2B",
    "%c3%A4",
    "ä%C3%A4€",
    "%00",
    "%0d%0A",
]


@pytest.mark.parametrize("value", [*ESCAPES, "".join(ESCAPES), "%E4%BD%A0" * 50_000])
def test_escapes_of_a_form_are_read_as_urllib_reads_them(value: str) -> None:
    """urllib itself takes a second for a form of some megabytes, in which no other request is answered."""
    headers = [(b"content-type", b"application/x-www-form-urlencoded")]
    scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": headers}
    for name, text in (value, "a"), ("q", value):
        fields = parse_fields(Request(scope), f"{name}={text}&&x".encode(), takes_forms=True)
        assert fields == {unquote_plus(name): unquote_plus(text).replace("\r\n", "\n"), "x": ""}


def test_escapes_that_are_no_utf_8_are_refused(client: Client) -> None:
    answer = client.post_raw("/translate", b"q=%FF&source=de&target=en", "application/x-www-form-urlencoded")
    assert (answer.status_code, answer.json()["error"][:21]) == (400, "The body is not UTF-8")
