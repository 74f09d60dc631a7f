"""/openapi.json: complete, and changed only on purpose.

Renew the golden file with `python -m tests.app.api.test_openapi`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs

from app.api.access_control import OPEN_PATHS
from app.api.families import FAMILIES
from tests.app.api.client import GOLDEN, Client, described
from tests.app.api.fake_engine import LYRICIST, FakeEngine, translator
from tests.app.api.keyed_client import keys_file


def written(description: dict[str, Any]) -> str:
    return json.dumps(description, ensure_ascii=False, indent=2, sort_keys=True) + "\n"


def operations(description: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            yield f"{method} {path}", operation


def error_of(operation: str) -> str:
    """The body that a family's clients expect of an error."""
    path = operation.split()[1]
    return next(route.family_error.__name__ for family in FAMILIES for route in family.routes if route.path == path)


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
    for path in ("/translate", "/detect"):
        body = paths[path]["post"]["requestBody"]
        assert (set(body["content"]), set(body["x-also-takes"])) == ({"application/json"}, forms), path
    assert set(paths["/translate_file"]["post"]["requestBody"]["content"]) == {"multipart/form-data"}


def shipped_client(**settings: Any) -> Client:
    """With models of the names and languages of those that come with the project."""
    pairs = (("de", "en"), ("en", "de"), ("en", "es"), ("es", "en"))
    everyday = replace(translator("de", "en"), name="everyday", source_language=None, target_language=None)
    loaded = [replace(everyday, language_pairs=pairs, stand_ins=dict.fromkeys(pairs, ("numbers", "names"))), LYRICIST]
    return Client(FakeEngine(loaded=loaded), **settings)


def test_every_example_of_a_request_works(tmp_path: Path) -> None:
    client, sent = shipped_client(data=tmp_path), 0
    for name, operation in operations(described()):
        method, path = name.split()
        if "{" in path or "application/json" not in operation.get("requestBody", {}).get("content", {}):
            continue
        examples = operation["requestBody"]["content"]["application/json"]["examples"]
        assert examples, name
        for example in examples.values():
            sent += 1
            answer = client.request(method.upper(), path, json=example["value"])
            assert answer.status_code in (200, 201), (name, example["summary"], answer.text)
    assert sent > 30


def test_fields_of_requests_have_examples_that_work(tmp_path: Path) -> None:
    """Each alone: many tools send the example of a field in the place of the whole body's."""
    document, client = described(), shipped_client(data=tmp_path)
    for path in ("/translate", "/generate", "/walkthrough", "/gates", "/v1/completions", "/v2/translate", "/imme"):
        body = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]
        fields = document["components"]["schemas"][body["schema"]["$ref"].rsplit("/", 1)[1]]["properties"]
        example = next(iter(body["examples"].values()))["value"]
        for name, field in fields.items():
            if field["examples"][0] is not None and "Refused" not in field["description"]:
                answer = client.post(path, json=example | {name: field["examples"][0]})
                assert answer.status_code == 200, (path, name, answer.text)


def test_every_answer_has_an_example_that_its_schema_accepts() -> None:
    document, checked = described(), 0

    @cache
    def validator(schema: str) -> Any:  # of the errors, which nearly all routes have, once
        return jsonschema_rs.validator_for(json.loads(schema) | {"components": document["components"]})

    for name, operation in operations(document):
        for status, response in operation["responses"].items():
            assert response["description"] != "Successful Response", name
            for media_type, content in response.get("content", {}).items():
                if media_type != "application/json":
                    continue
                checked += 1
                problems = list(validator(json.dumps(content["schema"])).iter_errors(content["example"]))
                assert not problems, (name, status, problems[0].message)
    assert checked > 200


def test_examples_of_errors_tell_statuses_apart() -> None:
    document = described()
    for path in ("/generate", "/translate", "/models/{name}/load", "/v2/translate", "/v1/completions"):
        (operation,) = document["paths"][path].values()
        bodies = [
            json.dumps(response["content"]["application/json"]["example"])
            for status, response in operation["responses"].items()
            if status[0] in "45"
        ]
        assert len(bodies) == len(set(bodies)) > 4, path


def test_every_route_says_which_key_it_takes(tmp_path: Path) -> None:
    optional, always, for_nobody = [{"ApiKey": []}, {}], [{"ApiKey": []}], []
    for settings, usual in (({}, optional), ({"keys_file": str(keys_file(tmp_path))}, always)):
        document = Client(**settings).get("/openapi.json").json()
        assert list(document["components"]["securitySchemes"]) == ["ApiKey"]
        for name, operation in operations(document):
            path = name.split()[1]
            if path in OPEN_PATHS:
                expected = for_nobody
            else:
                expected = (
                    always if path.endswith(("/load", "/reload", "/unload")) or "/models/import" in path else usual
                )
                assert "429" in operation["responses"], name
                assert {"400", "401", "403"} & operation["responses"].keys(), name
            assert operation["security"] == expected, name


def test_our_own_groups_come_first_and_old_addresses_are_not_shown() -> None:
    document = described()
    tags = [tag["name"] for tag in document["tags"]]
    assert tags[:5] == ["Translate", "Generate", "Inspect", "Models", "Health"]
    assert [tag["name"] for tag in document["tags"] if tag.get("x-protocol")] == tags[5:]
    order = list(dict.fromkeys(operation["tags"][0] for _, operation in operations(document)))
    assert order == tags
    assert not {"/deepl", "/deeplx"} & document["paths"].keys()
    for path in ("/v2/languages", "/v2/usage", "/languages"):
        assert list(document["paths"][path]) == ["get"], path
        assert Client().post(path).status_code == 200, path


if __name__ == "__main__":
    GOLDEN.write_text(written(described()), encoding="utf-8")
    print(f"{GOLDEN.name} is renewed")
