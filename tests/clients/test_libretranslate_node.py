"""npm `libretranslate-ts`, `libretranslate` and `translate`, which speak LibreTranslate's form."""

from __future__ import annotations

import pytest

from tests.clients.conftest import Scripts
from tests.clients.test_libretranslate_python import GERMAN, ours
from tests.serving import Server

pytestmark = pytest.mark.clients

PLAIN = "guten morgen welt"  # of which nothing must be kept: alternatives may be returned
NO_MODEL = "There is no model for de → {} here. Loaded pairs: de → en, en → es."
NOT_FOUND = {"kind": "TypeError", "message": "This language was not found/does not exist."}  # its own, from our list


def test_libretranslate_ts(server: Server, node: Scripts) -> None:
    body = {"q": PLAIN, "source": "de", "target": "en", "alternatives": 2}
    result = node("libretranslate-ts.mjs", server.base, "any", GERMAN, PLAIN)
    assert result == {
        "translated": {"status": 200, "translatedText": ours(server, GERMAN)},
        "alternatives": server.ask("/translate", body)["alternatives"],
        "detected": {"status": 200, "language": "de", "confidence": result["detected"]["confidence"]},
        "languages": ["de", "en", "es"],
        "unknown": {"status": 500, "translatedText": "", "error": NO_MODEL.format("zz")},
    }
    assert 50 < result["detected"]["confidence"] <= 100
    assert len(set(result["alternatives"])) == 2


def test_libretranslate(server: Server, node: Scripts) -> None:
    result = node("libretranslate.mjs", server.base, "any", GERMAN)
    assert result == {"translated": ours(server, GERMAN), "detected": ours(server, GERMAN), "unknown": NOT_FOUND}


def test_translate(server: Server, node: Scripts) -> None:
    assert node("translate.mjs", server.base, "any", GERMAN) == {
        "translated": ours(server, GERMAN),
        "refused": None,
        "unknown": {"kind": "Error", "message": NO_MODEL.format("fr")},
    }


def test_with_their_key(guarded: tuple[Server, str], node: Scripts) -> None:
    server, key = guarded
    expected = ours(server, GERMAN, Authorization=f"Bearer {key}")
    assert node("libretranslate-ts.mjs", server.base, key, GERMAN, PLAIN)["translated"]["translatedText"] == expected
    assert node("libretranslate.mjs", server.base, key, GERMAN)["translated"] == expected
    assert node("translate.mjs", server.base, key, GERMAN)["translated"] == expected


def test_with_a_bad_key(guarded: tuple[Server, str], node: Scripts) -> None:
    server, _ = guarded
    first = node("libretranslate-ts.mjs", server.base, "wrong", GERMAN, PLAIN)
    assert first["translated"]["error"].startswith("Invalid API key: ")
    assert first["detected"]["error"] == first["translated"]["error"]
    assert node("libretranslate.mjs", server.base, "wrong", GERMAN)["translated"] is None  # it hides the error
    third = node("translate.mjs", server.base, "wrong", GERMAN)
    assert (third["translated"], third["refused"]["message"]) == (None, first["translated"]["error"])
