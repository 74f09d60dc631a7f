"""/v2/glossaries and /v3/glossaries, with the requests of DeepL's clients."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from tests.app.api.client import Client
from tests.app.api.fake_engine import FakeEngine, translator

PUB = {
    "name": "Pub",
    "source_lang": "DE",
    "target_lang": "EN",
    "entries": "Bier\tale\nWirt\thost",
    "entries_format": "tsv",
}
MANY = {
    "name": "Pub",
    "dictionaries": [
        {"source_lang": "DE", "target_lang": "EN", "entries": "Bier\tale", "entries_format": "tsv"},
        {"source_lang": "EN", "target_lang": "ES", "entries": "beer,caña\nhost,anfitrión", "entries_format": "csv"},
    ],
}
COUNTS = [
    {"source_lang": "de", "target_lang": "en", "entry_count": 1},
    {"source_lang": "en", "target_lang": "es", "entry_count": 2},
]


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return Client(data=tmp_path)


def added(client: Client, path: str, **given: Any) -> dict[str, Any]:
    answer = client.post(path, **given)
    assert answer.status_code == 201, answer.text
    body: dict[str, Any] = answer.json()
    return body


def test_one_pair_from_its_making_to_its_end(client: Client) -> None:
    made = added(client, "/v2/glossaries", json=PUB)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", made["creation_time"])
    assert made == {
        "glossary_id": made["glossary_id"],
        "name": "Pub",
        "ready": True,
        "source_lang": "de",
        "target_lang": "en",
        "creation_time": made["creation_time"],
        "entry_count": 2,
    }
    path = f"/v2/glossaries/{made['glossary_id']}"
    assert client.get("/v2/glossaries").json() == {"glossaries": [made]}
    assert client.get(path).json() == made
    entries = client.get(f"{path}/entries", headers={"Accept": "text/tab-separated-values"})
    assert entries.text == "Bier\tale\nWirt\thost"
    assert entries.headers["content-type"] == "text/tab-separated-values; charset=utf-8"
    deleted = client.request("DELETE", path)
    assert (deleted.status_code, deleted.content) == (204, b"")
    gone = client.get(path)
    assert (gone.status_code, gone.json()) == (
        404,
        {"message": "You have no glossary with this id; GET /v3/glossaries lists yours."},
    )


def test_one_pair_as_a_form(client: Client) -> None:
    made = added(client, "/v2/glossaries", data=PUB)
    assert (made["source_lang"], made["entry_count"]) == ("de", 2)


def test_many_pairs_from_their_making_to_their_end(client: Client) -> None:
    made = added(client, "/v3/glossaries", json=MANY)
    assert made == {
        "glossary_id": made["glossary_id"],
        "name": "Pub",
        "dictionaries": COUNTS,
        "creation_time": made["creation_time"],
    }
    path = f"/v3/glossaries/{made['glossary_id']}"
    assert client.get("/v3/glossaries").json() == {"glossaries": [made]}
    assert client.get(path).json() == made
    assert client.get(f"{path}/entries?source_lang=EN&target_lang=ES").json() == {
        "dictionaries": [
            {
                "source_lang": "en",
                "target_lang": "es",
                "entries": "beer\tcaña\nhost\tanfitrión",
                "entries_format": "tsv",
            }
        ]
    }
    more = {"source_lang": "DE", "target_lang": "EN", "entries": "Bier\tbeer\nGlas\tpint", "entries_format": "tsv"}
    changed = client.request("PATCH", path, json={"name": "Inn", "dictionaries": [more]})
    assert (changed.status_code, changed.json()["name"]) == (200, "Inn")
    assert changed.json()["dictionaries"] == [COUNTS[0] | {"entry_count": 2}, COUNTS[1]]
    entries = client.get(f"{path}/entries?source_lang=de&target_lang=en-GB").json()
    assert entries["dictionaries"][0]["entries"] == "Bier\tbeer\nGlas\tpint"
    put = client.request("PUT", f"{path}/dictionaries", json=more | {"entries": "Wirt\thost"})
    assert (put.status_code, put.json()) == (200, COUNTS[0])
    dropped = client.request("DELETE", f"{path}/dictionaries?source_lang=DE&target_lang=EN")
    assert (dropped.status_code, client.get(path).json()["dictionaries"]) == (204, [COUNTS[1]])
    assert client.request("DELETE", path).status_code == 204
    assert client.get("/v3/glossaries").json() == {"glossaries": []}


def test_many_pairs_as_deepl_node_s_form(client: Client) -> None:
    fields = {"name": "Pub"}
    for index, dictionary in enumerate(MANY["dictionaries"]):
        fields |= {f"dictionaries[{index}].{name}": value for name, value in dict(dictionary).items()}  # type: ignore[call-overload]
    form = "application/x-www-form-urlencoded;charset=utf-8"
    answer = client.post_raw("/v3/glossaries", urlencode(fields).encode(), form)
    assert (answer.status_code, answer.json()["dictionaries"]) == (201, COUNTS)


def test_v2_lists_only_glossaries_of_one_pair(client: Client) -> None:
    made = added(client, "/v3/glossaries", json=MANY)
    assert client.get("/v2/glossaries").json() == {"glossaries": []}
    answer = client.get(f"/v2/glossaries/{made['glossary_id']}")
    assert (answer.status_code, answer.json()) == (
        404,
        {"message": f"This glossary has 2 pairs; ask for it at /v3/glossaries/{made['glossary_id']}."},
    )


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"entries": "Bier"}, 'Line 1 of "entries" has 1 cell; write a source term, a tab, and its target term.'),
        ({"entries": ""}, '"entries" has 0 terms; one dictionary has 1 to 20,000.'),
        ({"entries_format": "xml"}, '"entries_format" is "xml"; it takes "tsv" or "csv".'),
        ({"target_lang": "de"}, "The body has de twice; a glossary is for two languages."),
        ({"source_lang": ""}, '"source_lang" is no language code;'),
        (
            {"name": " "},
            '"name" has 1 characters; names of glossaries have 1 to 1,024, of which one is not white space.',
        ),
        ({"name": None}, '"name" is missing; add it to the request'),
    ],
)
def test_invalid_glossaries_are_refused(client: Client, fields: dict[str, Any], sentence: str) -> None:
    answer = client.post("/v2/glossaries", json=PUB | fields)
    assert answer.status_code == 400
    assert answer.json()["message"].startswith(sentence)
    assert client.get("/v2/glossaries").json() == {"glossaries": []}


def test_nothing_to_change_and_languages_that_are_missing(client: Client) -> None:
    made = added(client, "/v3/glossaries", json=MANY)
    path = f"/v3/glossaries/{made['glossary_id']}"
    nothing = client.request("PATCH", path, json={})
    assert (nothing.status_code, nothing.json()) == (
        400,
        {"message": 'There is nothing to change; send "name", "dictionaries", or both.'},
    )
    half = client.get(f"{path}/entries?source_lang=de")
    assert (half.status_code, list(half.json())) == (400, ["message"])
    other = client.get(f"{path}/entries?source_lang=de&target_lang=fr")
    assert (other.status_code, other.json()) == (
        404,
        {"message": "This glossary has no dictionary for these languages; GET it to see which it has."},
    )


def test_a_folder_that_cannot_be_written_is_no_fault_of_the_request(tmp_path: Path) -> None:
    (tmp_path / "data").touch()  # root can write to every folder, but not into a file
    client = Client(data=tmp_path / "data")
    for path, body in (("/v2/glossaries", PUB), ("/v3/glossaries", MANY)):
        answer = client.post(path, json=body)
        assert answer.status_code == 503, answer.text
        assert answer.json()["message"] == (
            "This server cannot keep glossaries: it cannot write to its folder PARLANCE_DATA."
        )
        assert "Retry-After" in answer.headers
        assert client.get(path).json() == {"glossaries": []}
        assert client.request("DELETE", f"{path}/00000000-0000-0000-0000-000000000000").status_code == 404


ROUTES = ["POST /v2/glossaries", "POST /v3/glossaries", "PATCH /v3/glossaries/", "PUT /v3/glossaries/"]


def stored(client: Client, route: str, **fields: Any) -> httpx.Response:
    """A dictionary that reaches the storage by this route."""
    dictionary = {"source_lang": "DE", "target_lang": "EN", "entries": "Bier\tale", "entries_format": "tsv"} | fields
    method, _, path = route.partition(" ")
    if path == "/v2/glossaries":
        return client.post(path, json={"name": "Pub", **dictionary})
    if method == "POST":
        return client.post(path, json={"name": "Pub", "dictionaries": [dictionary]})
    path += added(client, "/v3/glossaries", json=MANY)["glossary_id"]
    if method == "PATCH":
        return client.request(method, path, json={"dictionaries": [dictionary]})
    return client.request(method, f"{path}/dictionaries", json=dictionary)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(("field", "code"), [("source_lang", "xx"), ("target_lang", "QQ-DE"), ("target_lang", "auto")])
def test_language_that_does_not_exist_is_refused(client: Client, route: str, field: str, code: str) -> None:
    answer = stored(client, route, **{field: code})
    assert (answer.status_code, answer.json()["message"]) == (
        400,
        f"Value for '{field}' not supported: {code.lower()} is no language; GET /v2/glossary-language-pairs lists those"
        " of the models here.",
    )


@pytest.mark.parametrize("code", ["fr", "EN-GB", "zh-Hant", "iw", "ab", "nb", "yue", "qqq"])
def test_language_without_a_model_and_a_model_s_own_have_glossaries(tmp_path: Path, code: str) -> None:
    client = Client(FakeEngine(loaded=[translator("qqq", "en")]), data=tmp_path)
    assert stored(client, ROUTES[0], target_lang=code).status_code == 201


@pytest.mark.every_value
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    ("entries", "form", "sentence"),
    [
        ("", "tsv", '"entries" has 0 terms; one dictionary has 1 to 20,000.'),
        ("\r\n\r", "csv", '"entries" has 0 terms; one dictionary has 1 to 20,000.'),
        ("a\tb\ra\tc", "tsv", 'Line 2 of "entries" has a source term that an earlier line has; leave one out.'),
        (
            "a,b\rc,d\x1fe",
            "csv",
            'Line 2 of "entries" has a term with a control character; terms are text of one line.',
        ),
    ],
)
def test_entries_are_read_alike_on_every_route(
    client: Client, route: str, entries: str, form: str, sentence: str
) -> None:
    if entries.strip() or not route.startswith("PATCH"):  # which adds to what is there
        answer = stored(client, route, entries=entries, entries_format=form)
        assert (answer.status_code, answer.json()["message"]) == (400, sentence)
    assert stored(client, route, entries="a\tb\rc\td\r", entries_format="tsv").status_code in (200, 201)
