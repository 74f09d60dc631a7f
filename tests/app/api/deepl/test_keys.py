"""Keys, quotas and owners of glossaries, through DeepL's API and the extensions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.app.api.client import Client
from tests.app.api.keyed_client import OTHER, USE, keys_file, with_gate

BIER = {"text": ["Bier"], "source_lang": "DE", "target_lang": "EN-GB"}
PUB = {"name": "Pub", "source_lang": "DE", "target_lang": "EN", "entries": "Bier\tale"}


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return Client(keys_file=str(keys_file(tmp_path)), data=tmp_path)


def deepl_key(key: str) -> dict[str, str]:
    return {"Authorization": f"DeepL-Auth-Key {key}"}


def test_a_key_in_the_header_or_the_form(client: Client) -> None:
    assert client.post("/v2/translate", json=BIER, headers=deepl_key(USE)).status_code == 200
    assert client.post("/v2/translate", data={**BIER, "auth_key": USE}).status_code == 200
    assert client.post(f"/deepl?token={USE}", json=BIER).status_code == 200


@pytest.mark.parametrize("headers", [{}, deepl_key("wrong")])
@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/v2/translate"), ("GET", "/v2/languages"), ("GET", "/v2/usage"), ("GET", "/v3/glossaries")],
)
def test_a_key_that_is_missing_or_wrong_is_403(client: Client, method: str, path: str, headers: dict[str, str]) -> None:
    answer = client.request(method, path, json=BIER if method == "POST" else None, headers=headers)
    assert answer.status_code == 403
    assert answer.json()["message"].startswith("Invalid API key" if headers else "This server needs an API key")
    assert list(answer.json()) == ["message"]


def test_a_quota_that_is_used_up_is_456_and_usage_says_so(tmp_path: Path) -> None:
    client = Client(data=tmp_path)
    with_gate(client, keys_file(tmp_path), quotas="10/month")
    assert client.get("/v2/usage", headers=deepl_key(USE)).json() == {"character_count": 0, "character_limit": 10}
    assert client.post("/v2/translate", json=BIER | {"text": ["Bier", "Wirt"]}, headers=deepl_key(USE)).is_success
    assert client.get("/v2/usage", headers=deepl_key(USE)).json() == {"character_count": 8, "character_limit": 10}
    over = client.post("/v2/translate", json=BIER, headers=deepl_key(USE))
    assert over.status_code == 456
    assert over.json()["message"].startswith("This key's quota is 10 characters per month, of which 2 are left;")
    assert client.post("/v2/translate", json=BIER, headers=deepl_key(OTHER)).is_success


def test_glossaries_belong_to_their_key(client: Client) -> None:
    made = client.post("/v2/glossaries", json=PUB, headers=deepl_key(USE)).json()["glossary_id"]
    assert client.get("/v2/glossaries", headers=deepl_key(OTHER)).json() == {"glossaries": []}
    for method in ("GET", "DELETE"):
        assert client.request(method, f"/v3/glossaries/{made}", headers=deepl_key(OTHER)).status_code == 404
    theirs = client.post("/v2/translate", json=BIER | {"glossary_id": made}, headers=deepl_key(OTHER))
    assert theirs.status_code == 404
    changed = client.request("PATCH", f"/v3/glossaries/{made}", json={"name": "Inn"}, headers=deepl_key(USE))
    assert (changed.status_code, changed.json()["name"]) == (200, "Inn")


REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("/imme", {"source_lang": "de", "target_lang": "en", "text_list": ["Bier"]}),
    ("/kiss", {"from": "de", "to": "en", "text": "Bier"}),
    ("/hcfy", {"name": "x", "text": "Bier", "source": "德语", "destination": ["英语"]}),
    ("/deeplx", {"text": "Bier", "source_lang": "DE", "target_lang": "EN"}),
    ("/language/translate/v2", {"q": "Bier", "source": "de", "target": "en"}),
    ("/google/language/translate/v2", {"q": "Bier", "source": "de", "target": "en"}),
]


def test_usage_tells_the_quota_that_has_fewer_characters_left(tmp_path: Path) -> None:
    client = Client()
    clock = with_gate(client, keys_file(tmp_path), quotas="25/month;10/day")

    def usage() -> tuple[int, int]:
        answer = client.get("/v2/usage", headers=deepl_key(USE)).json()
        return answer["character_count"], answer["character_limit"]

    assert usage() == (0, 10)
    client.post("/v2/translate", json=BIER, headers=deepl_key(USE))
    assert usage() == (4, 10)
    for day in range(1, 4):
        clock.now_s += 86_400
        for _ in range(2):
            client.post("/v2/translate", json=BIER, headers=deepl_key(USE))
        assert usage() == {1: (8, 10), 2: (8, 10), 3: (24, 25)}[day]


def test_all_texts_of_a_page_are_charged_on_every_endpoint(tmp_path: Path) -> None:
    client = Client(data=tmp_path)
    with_gate(client, keys_file(tmp_path), quotas="1000/month")
    spent = 0
    for path, body in REQUESTS:
        client.post(path, json=body, headers=deepl_key(USE))
        spent += 4
        assert client.get("/v2/usage", headers=deepl_key(USE)).json()["character_count"] == spent, path
    client.get("/language/translate/v2?q=Bier&q=Wirt&source=de&target=en", headers=deepl_key(USE))
    assert client.get("/v2/usage", headers=deepl_key(USE)).json()["character_count"] == spent + 8
    client.get("/language/translate/v2?q=Bier&q=Wirt&source=de&target=fr", headers=deepl_key(USE))
    assert client.get("/v2/usage", headers=deepl_key(USE)).json()["character_count"] == spent + 8
