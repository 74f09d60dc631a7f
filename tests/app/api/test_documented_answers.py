"""What is sent is what is documented: each route sends an answer that its schema accepts, and no field beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.app.api.client import CHECKED, Client, check_documented, described
from tests.app.api.operations.test_models import KEY, RIGHT, ImporterWithoutProcesses
from tests.app.api.test_openapi import operations, shipped_client

LETTER = {"file": ("brief.txt", b"Hallo Welt.", "text/plain")}
TERMS = {"source_lang": "de", "target_lang": "en", "entries": "Bier\tale"}


def json_answers() -> set[str]:
    """The answers of all routes that succeed, as `CHECKED` has them."""
    answers = set[str]()
    for name, operation in operations(described()):
        method, path = name.split()
        statuses = [
            status
            for status, answer in operation["responses"].items()
            if status[0] == "2" and "application/json" in answer.get("content", {})
        ]
        answers |= {f"{method.upper()} {path} {status}" for status in statuses}
    return answers


def test_every_route_sends_what_its_document_says(tmp_path: Path) -> None:
    client = shipped_client(data=tmp_path, admin_key=KEY)
    object.__setattr__(client.app.state.services, "importer", ImporterWithoutProcesses(tmp_path))
    CHECKED.clear()
    made = make_stored_things(client)
    for name, operation in operations(described()):
        method, path = name.split()
        path = path.format_map({"name": "everyday", "model": "lyrics-zh", "number": 1} | made)
        headers = RIGHT if path.startswith("/models/") else {}
        query = {
            each["name"]: each["example"]
            for each in operation.get("parameters", ())
            if each["in"] == "query" and each.get("example") and each["name"] != "format"
        }
        content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
        bodies = [example["value"] for example in content.get("examples", {}).values()] or [None]
        for body in bodies if method != "delete" else ():
            if body and "document_key" in body:
                body = {"document_key": made["document_key"]}
            client.request(method.upper(), path, params=query, json=body, headers=headers)
    client.request("DELETE", "/models/imports/1", headers=RIGHT)
    assert sorted(json_answers() - CHECKED) == []


def make_stored_things(client: Client) -> dict[str, str]:
    """The ids of a glossary and a document."""
    client.post("/models/import?model=de-en", headers=RIGHT)
    client.post("/translate_file", data={"source": "de", "target": "en"}, files=LETTER)
    document = client.post("/v2/document", data={"target_lang": "EN-GB"}, files=LETTER).json()
    glossary = client.post("/v2/glossaries", json={"name": "Pub", **TERMS}).json()
    return {**document, "glossary_id": glossary["glossary_id"]}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({"status": "ok", "since": 3}, "Additional properties are not allowed"),
        ({"status": "well"}, '"ok" was expected'),
    ],
)
def test_answer_beside_its_document_is_found(content: dict[str, Any], problem: str) -> None:
    request = httpx.Request("GET", "http://parlance/health")
    with pytest.raises(AssertionError, match=problem):
        check_documented("GET", httpx.Response(200, json=content, request=request))
