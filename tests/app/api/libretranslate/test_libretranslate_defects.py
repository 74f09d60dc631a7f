"""Defects of LibreTranslate 1.9.6 that this server does not have."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from app.access import key_file
from app.engine.interface import PoolStatus, TranslationRequest, TranslationResult
from tests.app.api.client import Client
from tests.app.api.fake_engine import FakeEngine, translator

HALLO = {"q": "hallo", "source": "de", "target": "en"}
PAIR = {"source": "de", "target": "en"}
KEY = "plk_" + "k" * 43


def posted(client: Client, path: str, fields: dict[str, Any]) -> Any:
    """As json.dumps writes it, half characters too."""
    return client.post_raw(path, json.dumps(fields).encode())


@pytest.fixture(scope="module")
def client() -> Client:
    return Client()


# Wrong types are the client's fault -------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/translate", "/detect"])
@pytest.mark.parametrize("q", [5, [1, 2], [None], {}, None, True, "\ud800", ["a\udfff"]], ids=repr)
def test_a_text_of_the_wrong_type_is_400_and_says_so(client: Client, path: str, q: Any) -> None:
    answer = posted(client, path, HALLO | {"q": q})
    assert (answer.status_code, answer.json()["field"]) == (400, "q")
    assert answer.json()["error"].startswith('"q" ')


@pytest.mark.parametrize("alternatives", ["abc", {}, [], True, 2.7, -1, 10_000, 10**30], ids=repr)
def test_alternatives_of_the_wrong_type_or_too_many_are_400(client: Client, alternatives: Any) -> None:
    answer = posted(client, "/translate", HALLO | {"alternatives": alternatives})
    assert (answer.status_code, answer.json()["field"]) == (400, "alternatives")


def test_alternatives_do_not_drive_the_cost_of_a_request(client: Client) -> None:
    """There the beam grew with them, without a bound."""
    client.engine.calls = 0
    answer = posted(client, "/translate", HALLO | {"alternatives": 10_000})
    assert answer.json()["error"] == '"alternatives" is 10,000; this server takes at most 8.'
    assert client.engine.calls == 0


def test_a_download_that_is_not_there_is_404(client: Client) -> None:
    answer = client.get("/download_file/bea154c3-21c5-4298-b657-4178a6e6dc8d.a.txt.out.txt")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


def test_a_file_for_a_pair_without_a_model_is_400(client: Client) -> None:
    answer = client.post("/translate_file", files={"file": ("a.txt", b"a")}, data={"source": "de", "target": "fr"})
    assert (answer.status_code, answer.json()["code"]) == (400, "unknown_pair")
    assert answer.json()["error"].startswith("There is no model for de → fr here.")


def test_health_is_not_ok_before_anything_can_be_translated() -> None:
    starting = PoolStatus(False, {"cpu": "starting"}, 0, ())
    assert Client(FakeEngine(pool_status=starting)).get("/health").status_code == 503


# Each text is one of its own --------------------------------------------------------------------------------


def test_a_batch_of_two_languages_is_translated_from_both() -> None:
    client = Client(FakeEngine(loaded=[translator("de", "en"), translator("fr", "en")]))
    texts = ["Bonjour tout le monde mes amis", "Guten Tag meine Damen und Herren"]
    answer = client.post("/translate", json={"q": texts, "source": "auto", "target": "en"}).json()
    assert [detection["language"] for detection in answer["detectedLanguage"]] == ["fr", "de"]
    sources = [
        request.options.source_language for request in client.engine.requests if isinstance(request, TranslationRequest)
    ]
    assert sources == ["fr", "de"]


def test_a_batch_is_one_call_of_the_engine_and_not_a_loop() -> None:
    client = Client()
    client.post("/translate", json=PAIR | {"q": [f"satz {number}" for number in range(100)]})
    assert client.engine.calls == 1


ASKED: list[tuple[dict[str, Any], Any]] = [
    ({"q": ["a", "b"]}, ["en:a", "en:b"]),
    ({"q": "a, b"}, "en:a, b"),
    ({"q": ["a, b"]}, ["en:a, b"]),
    ({"q": "z"}, "en:z"),
    ({"q": ["z"]}, ["en:z"]),
    ({"q": ["a", "b, c"]}, ["en:a", "en:b, c"]),
    ({"q": ["a, b", "c"]}, ["en:a, b", "en:c"]),
    ({"q": "z", "source": "es"}, "en:z"),
    ({"q": "z", "source": "en", "target": "es"}, "es:z"),
]


@pytest.mark.parametrize("order", [1, -1])
def test_no_request_gets_the_answer_to_another(order: int) -> None:
    """There the cache joined texts with "|" and forgot whether they were a list."""
    client = Client()
    for _ in range(2):
        for fields, text in ASKED[::order]:
            assert client.post("/translate", json=PAIR | fields).json() == {"translatedText": text}, fields


def test_cache_does_not_change_the_number_of_alternatives() -> None:
    client = Client()
    for expected in (2, 0, 1, 2):
        answer = client.post("/translate", json=HALLO | {"alternatives": expected}).json()
        assert answer.get("alternatives", []) == [f"en:hallo ({index})" for index in range(1, expected + 1)]


def test_limits_hold_for_texts_that_were_translated_before() -> None:
    """There a hit of the cache was answered before the limit was looked at."""
    client = Client()
    assert client.post("/translate", json=HALLO).status_code == 200
    for _ in range(2):
        services = client.app.state.services
        object.__setattr__(services.limits, "max_text_characters", 4)
        assert client.post("/translate", json=HALLO).json()["code"] == "text_too_long"


# Texts are returned unchanged ---------------------------------------------------------------------------------


class Phrasebook(FakeEngine):
    """Knows a letter."""

    def _translation(self, request: TranslationRequest) -> TranslationResult:
        return TranslationResult({"B": "the second letter"}.get(request.text, request.text), (), "stop", "tiny-de-en")


def test_one_capital_letter_does_not_make_the_translation_shout() -> None:
    answer = Client(Phrasebook()).post("/translate", json=PAIR | {"q": "B"})
    assert answer.json() == {"translatedText": "the second letter"}


@pytest.mark.parametrize(
    "text", ["&lt;b&gt;", "a &lt;b&gt; c &amp;amp; d", "5 &lt; 6", "a & b &amp; c", "&amp;copy; x"]
)
def test_entities_of_plain_text_stay(text: str) -> None:
    answer = Client(Phrasebook()).post("/translate", json=PAIR | {"q": text}).json()
    assert answer == {"translatedText": text}


def test_nothing_is_cut_at_1024_or_256_tokens() -> None:
    sentences = [f"Dies ist der {number}. Satz eines Buches." for number in range(600)]
    answer = Client(Phrasebook()).post("/translate", json=PAIR | {"q": " ".join(sentences)}).json()
    assert answer == {"translatedText": " ".join(sentences)}
    one = " ".join(f"wort{number}" for number in range(3000)) + "."
    assert Client(Phrasebook()).post("/translate", json=PAIR | {"q": one}).json() == {"translatedText": one}


# Callers are limited, kept apart, and not logged --------------------------------------------------------------


def test_a_ban_ends() -> None:
    """LibreTranslate's bans never ended, and had no Retry-After."""
    client = Client(rate_limit="1/second")
    answers = [client.post("/translate", json=HALLO) for _ in range(4)]
    refused = [answer for answer in answers if answer.status_code == 429]
    assert refused
    assert 1 <= int(refused[-1].headers["Retry-After"]) <= 2
    assert refused[-1].headers["RateLimit-Limit"] == "1"
    time.sleep(int(refused[-1].headers["Retry-After"]))
    assert client.post("/translate", json=HALLO).status_code == 200


def test_untrusted_forwarded_address_does_not_evade_limits() -> None:
    client = Client(rate_limit="2/hour")
    statuses = [
        client.post("/translate", json=HALLO, headers={"X-Forwarded-For": f"10.0.0.{number}"}).status_code
        for number in range(4)
    ]
    assert statuses == [200, 200, 429, 429]


def test_each_text_of_a_batch_is_charged() -> None:
    client = Client(rate_limit="3/hour")
    assert client.post("/translate", json=HALLO | {"q": ["a", "b"]}).status_code == 200
    assert client.post("/translate", json=HALLO | {"q": ["a", "b"]}).status_code == 429


def test_neither_keys_nor_addresses_become_labels_of_metrics(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    key_file.write_key_lines(file, [{"name": "shop", "sha256": key_file.key_digest(KEY).hex()}])
    client = Client(keys_file=str(file))

    def page() -> str:
        return client.get("/metrics").text

    client.post("/translate", json=HALLO | {"api_key": KEY})
    client.post("/translate", json=HALLO | {"api_key": "guess-0"})
    page()  # which is counted itself
    series = len(page().splitlines())
    for number in range(20):
        address = {"X-Forwarded-For": f"203.0.113.{number}", "X-Real-IP": f"203.0.113.{number}"}
        client.post("/translate", json=HALLO | {"api_key": f"guess-{number}"}, headers=address)
        client.post("/translate", params=HALLO | {"api_key": KEY}, headers=address)
    assert len(page().splitlines()) == series
    for secret in (KEY, "guess-", "203.0.113.", "127.0.0.1"):
        assert secret not in page()


def test_keys_in_the_body_the_form_and_the_query(tmp_path: Path) -> None:
    """Which are the only places that LibreTranslate's clients know: missing is 400, wrong is 403."""
    file = tmp_path / "keys"
    key_file.write_key_lines(file, [{"name": "shop", "sha256": key_file.key_digest(KEY).hex()}])
    client = Client(keys_file=str(file), data=tmp_path)
    for way in ("json", "data", "params"):
        statuses = [
            client.post("/translate", **{way: HALLO | key}).status_code
            for key in ({"api_key": KEY}, {}, {"api_key": "wrong"})
        ]
        assert statuses == [200, 400, 403], way
    sent = {"files": {"file": ("a.txt", b"a")}}
    statuses = [client.post("/translate_file", data=PAIR | key, **sent).status_code for key in ({"api_key": KEY}, {})]
    assert statuses == [200, 400]
    settings = client.get("/frontend/settings").json()
    assert (settings["apiKeys"], settings["keyRequired"]) == (True, True)


def test_file_url_needs_no_key(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    key_file.write_key_lines(file, [{"name": "shop", "sha256": key_file.key_digest(KEY).hex()}])
    client = Client(keys_file=str(file), data=tmp_path)
    sent = {"files": {"file": ("a.txt", b"a")}, "data": PAIR | {"api_key": KEY}}
    url = client.post("/translate_file", **sent).json()["translatedFileUrl"]
    assert client.get(url.removeprefix("http://parlance")).content == b"en:a"


@pytest.mark.parametrize("name", ["../files-evil/secret.txt", "..%2ffiles-evil%2fsecret.txt", "%2e%2e/secret.txt"])
def test_folder_with_a_common_prefix_is_another_folder(tmp_path: Path, name: str) -> None:
    """There the check of paths took /x-evil for a part of /x."""
    (tmp_path / "files").mkdir()
    (tmp_path / "files-evil").mkdir()
    (tmp_path / "files-evil" / "secret.txt").write_text("hidden words")
    answer = Client(data=tmp_path).get(f"/download_file/{name}")
    assert answer.status_code == 404
    assert "hidden words" not in answer.text


# Errors are answers too -------------------------------------------------------------------------------------


ERRORS: Sequence[tuple[str, str, dict[str, Any], int]] = [
    ("GET", "/translate", {}, 405),
    ("GET", "/nothing", {}, 404),
    ("POST", "/translate", {"json": {}}, 400),
    ("POST", "/translate", {"content": b"{", "headers": {"content-type": "application/json"}}, 400),
    ("POST", "/translate", {"content": b" " * 10_000_000, "headers": {"content-type": "application/json"}}, 413),
    ("GET", "/download_file/none", {}, 404),
]


@pytest.mark.parametrize(("method", "path", "sent", "status"), ERRORS)
def test_every_error_is_json_with_a_request_id_and_cors(
    method: str, path: str, sent: dict[str, Any], status: int
) -> None:
    client = Client(cors_origins="https://page.example")
    sent = sent | {"headers": {**sent.get("headers", {}), "Origin": "https://page.example"}}
    answer = client.request(method, path, **sent)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["access-control-allow-origin"] == "https://page.example"
    assert answer.json().keys() == {"error", "code", "field", "request_id"}
    assert answer.json()["request_id"] == answer.headers["x-request-id"]


def test_every_origin_is_never_allowed_with_credentials() -> None:
    answer = Client(cors_origins="*").post("/translate", json=HALLO, headers={"Origin": "https://page.example"})
    assert answer.headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in answer.headers
