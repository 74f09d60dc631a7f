"""null is the same as a field that is left out, and unknown fields of our own routes are refused with the nearest."""

from __future__ import annotations

import pytest

from app.api.option_names import suggested_name
from tests.app.api.client import Client
from tests.app.api.smallest_bodies import BODIES as smallest
from tests.app.api.smallest_bodies import ROUTES

TEXTS = {"q": "bier", "source": "de", "target": "en"}
BODIES = {
    path: smallest[path]
    for path, route in ROUTES.items()
    if "{" not in path and not route.body_model.takes_files and route.status_code != 201
}
OWN = ("/generate", "/attention", "/walkthrough", "/gates", "/score")


@pytest.mark.parametrize("path", BODIES)
def test_null_is_the_same_as_a_field_that_is_left_out(path: str) -> None:
    client, body = Client(), BODIES[path]
    schema = ROUTES[path].body_model.model_json_schema()
    optional = schema["properties"].keys() - body.keys()
    assert client.post(path, json=dict.fromkeys(optional) | body).status_code == 200
    for name in optional - set(schema.get("required", ())):
        kinds = [kind.get("type") for kind in schema["properties"][name].get("anyOf", [schema["properties"][name]])]
        assert "null" in kinds or kinds == [None], f"{path} does not say that {name} may be null"
    for name in body:
        missing = client.post(path, json={**body, name: None})
        if missing.status_code != 200:  # in the words of a field that is left out
            assert missing.json() | {"request_id": ""} == client.post(
                path, json={key: value for key, value in body.items() if key != name}
            ).json() | {"request_id": ""}


def test_null_within_an_object_is_left_out_too() -> None:
    body = {"source": "bier", "reduce": {"heads": None, "layers": "mean"}, "decode": {"beam_size": None}}
    assert Client().post("/attention", json=body).status_code == 200


@pytest.mark.parametrize("path", OWN)
def test_unknown_field_of_our_own_route_is_refused(path: str) -> None:
    answer = Client().post(path, json={**BODIES[path], "wrong_name": 1})
    assert (answer.status_code, answer.json()["field"]) == (422, "wrong_name")
    assert answer.json()["error"].startswith("There is no field wrong_name; the fields are ")
    nameless = Client().post(path, json={**BODIES[path], "": 1}).json()["error"]
    assert nameless.startswith('There is no field ""; the fields are ')


@pytest.mark.parametrize(
    ("path", "name", "meant"),
    [
        ("/generate", "max_tokens", "max_new_tokens"),
        ("/generate", "maxNewTokens", "max_new_tokens"),
        ("/generate", "temprature", "temperature"),
        ("/generate", "text", "prompt"),
        ("/gates", "prompt", "text"),
        ("/attention", "text", "source"),
        ("/attention", "target_lang", "target_language"),
        ("/walkthrough", "postion", "position"),
        ("/score", "topk", "top_k"),
    ],
)
def test_refusal_suggests_the_nearest_name(path: str, name: str, meant: str) -> None:
    answer = Client().post(path, json={**BODIES[path], name: "x"})
    assert (answer.status_code, answer.json()["field"]) == (422, name)
    assert answer.json()["error"] == f"There is no field {name}; did you mean {meant}?"


def test_fields_within_an_object_are_checked_too() -> None:
    answer = Client().post("/attention", json={"source": "bier", "reduce": {"layer": "mean"}})
    assert (answer.status_code, answer.json()["field"]) == (422, "reduce.layer")
    assert answer.json()["error"] == "There is no field layer; did you mean layers?"


def test_several_unknown_fields_are_one_sentence() -> None:
    answer = Client().post("/generate", json={"prompt": "雨", "max_tokens": 1, "temp": 1, "topK": 2})
    assert answer.json()["error"].startswith("3 problems: There is no field max_tokens, did you mean max_new_tokens?; ")
    assert answer.json()["error"].endswith("There is no field topK, did you mean top_k?")


@pytest.mark.parametrize("extra", ["apiKey", "secret", "key", "website", "preferred_num_beams_of_mine", "id"])
def test_translate_ignores_the_fields_of_other_programs(extra: str) -> None:
    for send in ({"json": {**TEXTS, extra: ""}}, {"data": {**TEXTS, extra: ""}}):
        assert Client().post("/translate", **send).json() == {"translatedText": "en:bier"}


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("num_beams", "beam_size"),
        ("lenght_penalty", "length_penalty"),
        ("max_tokens", "max_new_tokens"),
        ("glossery", "glossary"),
        ("no_repeat_ngram", "no_repeat_ngram_size"),
    ],
)
def test_translate_refuses_a_near_miss_of_its_own_fields(name: str, meant: str) -> None:
    answer = Client().post("/translate", json={**TEXTS, name: 2})
    assert (answer.status_code, answer.json()["error"]) == (400, f"There is no field {name}; did you mean {meant}?")
    value = {"bier": "ale"} if meant == "glossary" else 1
    assert Client().post("/translate", json={**TEXTS, name: 2, meant: value}).status_code == 200, "both are there"


def test_translate_says_what_other_programs_call_its_fields() -> None:
    answer = Client().post("/translate", json={"text": "bier", "from": "de", "to": "en"})
    assert answer.status_code == 400
    for name, meant in (("text", "q"), ("from", "source"), ("to", "target")):
        assert f"There is no field {name}, did you mean {meant}?" in answer.json()["error"]


def test_protocols_of_others_ignore_fields_that_no_program_has() -> None:
    for path in BODIES.keys() - set(OWN):
        assert Client().post(path, json={**BODIES[path], "extension_version": 1}).status_code == 200, path


def test_null_of_an_unknown_field_is_a_field_that_is_left_out() -> None:
    for path, body in BODIES.items():
        assert Client().post(path, json={**body, "min_new_tokens": None, "x": None}).status_code == 200, path


def test_only_near_names_are_suggested() -> None:
    names = {"source", "target", "top_k"}
    assert suggested_name("sauce", names) is None
    assert suggested_name("sourse", names) == "source"
    assert suggested_name("x" * 10_000, names) is None
