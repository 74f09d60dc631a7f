"""npm `deepl-node`."""

from __future__ import annotations

import pytest

from tests.clients.conftest import Scripts
from tests.clients.test_libretranslate_python import GERMAN, LINES, ours
from tests.serving import Server

pytestmark = pytest.mark.clients


def test_translates_lists_and_keeps_glossaries(server: Server, node: Scripts) -> None:
    results = node("deepl-node.mjs", server.base, "any", GERMAN, LINES)
    refusal = "Bad request, message: Value for 'target_lang' not supported. There is no model for de → fr here."
    assert results.pop("unknown")["message"].startswith(refusal)
    assert results == {
        "translated": {"text": ours(server, GERMAN), "language": "de", "billed": len(GERMAN)},
        "several": [ours(server, GERMAN), ours(server, LINES)],
        "sources": ["de", "en"],
        "targets": ["en-GB", "en-US", "es"],
        "limited": False,
        "glossary": {"bier": "beer", "haus": "house"},
        "refused": None,
        "usage": None,
    }


def test_key_is_required_with_a_keys_file(guarded: tuple[Server, str], node: Scripts) -> None:
    server, key = guarded
    result = node("deepl-node.mjs", server.base, key, GERMAN, LINES)
    assert result["translated"]["text"] == ours(server, GERMAN, Authorization=f"Bearer {key}")
    refused = node("deepl-node.mjs", server.base, "wrong", GERMAN, LINES)
    assert {name: error["kind"] for name, error in refused.items()} == dict.fromkeys(
        ("refused", "usage", "unknown"), "AuthorizationError"
    )
