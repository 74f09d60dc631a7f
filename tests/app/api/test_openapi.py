"""/openapi.json: complete, and changed only on purpose.

Renew the golden file with `python -m tests.app.api.test_openapi`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.app.api.client import Client
from tests.app.api.fake_engine import FakeEngine

GOLDEN = Path(__file__).parents[2] / "golden" / "openapi.json"


def described() -> dict[str, Any]:
    answer = Client().get("/openapi.json")
    assert answer.status_code == 200
    description: dict[str, Any] = answer.json()
    return description


OTHER_WAYS = ("source_ids", "decode", "prefix")  # to say what another field of the same request says


def written(description: dict[str, Any]) -> str:
    return json.dumps(description, ensure_ascii=False, indent=2, sort_keys=True) + "\n"


def operations(description: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            yield f"{method} {path}", operation


def error_of(operation: str) -> str:
    """The body that a family's clients expect of an error."""
    path = operation.split()[1]
    if path.startswith(("/v2/", "/v3/")) or path == "/deepl":
        return "DeepLError"
    if path.startswith("/v1/"):
        return "OpenAIErrorAnswer"
    if path.startswith("/language/"):
        return "GoogleError"
    return "DeepLXError" if path == "/deeplx" else "ErrorAnswer"


def test_openapi_document_is_the_golden_one() -> None:
    assert written(described()) == GOLDEN.read_text(encoding="utf-8"), "changed: see this file's first lines"


def test_every_field_says_what_it_is_and_shows_an_example() -> None:
    schemas = described()["components"]["schemas"]
    assert len(schemas) > 10
    for name, schema in schemas.items():
        assert schema.get("description"), name
        for field, details in schema["properties"].items():
            assert details.get("description"), f"{name}.{field} has no description"
            assert details.get("examples"), f"{name}.{field} has no example"


def test_every_operation_is_tagged_and_documents_its_errors() -> None:
    description = described()
    tags = {tag["name"] for tag in description["tags"]}
    for name, operation in operations(description):
        assert set(operation["tags"]) <= tags, name
        assert operation["summary"], name
        assert operation["description"], name
        assert "default" in operation["responses"], name
        for status, response in operation["responses"].items():
            if status not in ("200", "201", "202", "204", "503"):
                schema = response["content"]["application/json"]["schema"]
                assert schema == {"$ref": f"#/components/schemas/{error_of(name)}"}, f"{name} {status}"


def test_libretranslates_routes_also_take_forms() -> None:
    forms = {"application/x-www-form-urlencoded", "multipart/form-data"}
    paths = described()["paths"]
    for path in ("/translate", "/detect", "/suggest"):
        body = paths[path]["post"]["requestBody"]
        assert (set(body["content"]), set(body["x-also-takes"])) == ({"application/json"}, forms), path
    assert set(paths["/translate_file"]["post"]["requestBody"]["content"]) == {"multipart/form-data"}


def test_the_examples_of_requests_work() -> None:
    loaded = [replace(info, name=info.name.replace("tiny", "demo")) for info in FakeEngine().loaded]
    client, schemas = Client(FakeEngine(loaded=loaded)), described()["components"]["schemas"]
    for path, name in [
        ("/translate", "Translate"),
        ("/detect", "Detect"),
        ("/generate", "Generate"),
        ("/attention", "Attention"),
        ("/walkthrough", "Walkthrough"),
        ("/gates", "Gates"),
        ("/score", "Score"),
        ("/v2/translate", "DeepLTranslate"),
        ("/imme", "Imme"),
        ("/deeplx", "DeepLX"),
        ("/language/translate/v2", "GoogleTranslate"),
        ("/language/translate/v2/detect", "GoogleDetect"),
    ]:
        fields = schemas[f"{name}Request"]["properties"]
        example = {field: details["examples"][0] for field, details in fields.items() if field not in OTHER_WAYS}
        assert client.post(path, json=example).status_code == 200, path


if __name__ == "__main__":
    GOLDEN.write_text(written(described()), encoding="utf-8")
    print(f"{GOLDEN.name} is renewed")
