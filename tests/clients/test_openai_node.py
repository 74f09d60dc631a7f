"""npm `openai`."""

from __future__ import annotations

import pytest

from tests.clients.conftest import Scripts
from tests.serving import Server

pytestmark = pytest.mark.clients

SAME = {"prompt": "分开", "max_new_tokens": 12, "seed": 5, "temperature": 1}


def test_completes_streams_and_lists(server: Server, node: Scripts) -> None:
    text = server.ask("/generate", SAME)["text"]
    assert node("openai.mjs", server.base, "any") == {
        "text": text,
        "tokens": text,
        "usage": {"prompt_tokens": 2, "completion_tokens": 12, "total_tokens": 14},
        "streamed": text,
        "reason": "length",
        "models": ["tiny-lyrics"],
        "model": "tiny-lyrics",
        "refused": None,
        "unknown": {"kind": "NotFoundError", "status": 404, "code": "model_not_found", "param": "model"},
        "invalid": {"kind": "BadRequestError", "status": 400, "code": "invalid_value", "param": "n"},
    }


def test_key_is_required_with_a_keys_file(guarded: tuple[Server, str], node: Scripts) -> None:
    server, key = guarded
    assert node("openai.mjs", server.base, key)["models"] == ["tiny-lyrics"]
    refused = {"kind": "AuthenticationError", "status": 401, "code": "invalid_api_key", "param": None}
    assert node("openai.mjs", server.base, "wrong") == dict.fromkeys(("refused", "unknown", "invalid"), refused)
