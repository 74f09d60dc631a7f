"""PyPI `libretranslatepy`, `deep-translator` and `translate`, which speak LibreTranslate's form."""

from __future__ import annotations

import urllib.error

import pytest
from deep_translator import LibreTranslator
from deep_translator.exceptions import AuthorizationException, ServerException
from libretranslatepy import LibreTranslateAPI
from translate import Translator
from translate.exceptions import TranslationError

from tests.serving import Server

pytestmark = pytest.mark.clients

GERMAN = "ich möchte ein bier & 100% + mehr"  # whatever a form has to escape
LINES = "guten morgen welt\nwir sehen das haus"


def ours(server: Server, text: str, **headers: str) -> str:
    """The server's answer to a plain request."""
    answer = server.ask("/translate", {"q": text, "source": "de", "target": "en"}, **headers)["translatedText"]
    assert isinstance(answer, str)
    assert answer.strip()
    return answer


def test_libretranslatepy(server: Server) -> None:
    client = LibreTranslateAPI(server.base)
    for text in (GERMAN, LINES):
        assert client.translate(text, "de", "en") == ours(server, text)
    assert client.translate(GERMAN, "auto", "en") == ours(server, GERMAN)
    listed = {language["code"]: (language["name"], language["targets"]) for language in client.languages()}
    assert {code: name for code, (name, _) in listed.items()} == {"de": "German", "en": "English", "es": "Spanish"}
    assert "en" in listed["de"][1]
    (result,) = client.detect("Ich möchte heute Abend gern ein kaltes Bier trinken")
    assert (result["language"], result["confidence"] > 50) == ("de", True)
    with pytest.raises(urllib.error.HTTPError, match="400"):
        client.translate(GERMAN, "de", "zz")


def test_libretranslatepy_with_keys(guarded: tuple[Server, str]) -> None:
    server, key = guarded
    right, wrong = LibreTranslateAPI(server.base, key), LibreTranslateAPI(server.base, "wrong")
    assert right.translate(GERMAN, "de", "en") == ours(server, GERMAN, Authorization=f"Bearer {key}")
    with pytest.raises(urllib.error.HTTPError, match="403"):
        wrong.translate(GERMAN, "de", "en")
    with pytest.raises(urllib.error.HTTPError, match="403"):
        wrong.detect(GERMAN)
    with pytest.raises(urllib.error.HTTPError, match="400"):
        LibreTranslateAPI(server.base).translate(GERMAN, "de", "en")


def test_deep_translator(server: Server) -> None:
    client = LibreTranslator("de", "en", api_key="any", custom_url=f"{server.base}/")
    assert client.translate(GERMAN) == ours(server, GERMAN)
    assert client.translate_batch([GERMAN, LINES]) == [ours(server, GERMAN), ours(server, LINES)]
    with pytest.raises(ServerException):  # it lists fr, and no model here writes it
        LibreTranslator("de", "fr", api_key="any", custom_url=f"{server.base}/").translate(GERMAN)


def test_deep_translator_with_keys(guarded: tuple[Server, str]) -> None:
    server, key = guarded
    right = LibreTranslator("de", "en", api_key=key, custom_url=f"{server.base}/")
    assert right.translate(GERMAN) == ours(server, GERMAN, Authorization=f"Bearer {key}")
    with pytest.raises(AuthorizationException):
        LibreTranslator("de", "en", api_key="wrong", custom_url=f"{server.base}/").translate(GERMAN)


def test_translate(server: Server) -> None:
    client = Translator(provider="libre", to_lang="en", from_lang="de", base_url=f"{server.base}/")
    assert client.translate(GERMAN) == ours(server, GERMAN)


def test_translate_with_keys(guarded: tuple[Server, str]) -> None:
    server, key = guarded
    body = {"provider": "libre", "to_lang": "en", "from_lang": "de", "base_url": f"{server.base}/"}
    right, wrong = (Translator(**body, secret_access_key=secret) for secret in (key, "wrong"))
    assert right.translate(GERMAN) == ours(server, GERMAN, Authorization=f"Bearer {key}")
    with pytest.raises(TranslationError, match="403"):
        wrong.translate(GERMAN)
