"""The requests of PyPI `lm_eval` 0.4.13 with `--model local-completions`, which looks for a remote tokenizer by itself,
replayed: the package brings 700 MB of others."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import pytest

from tests.serving import Server

pytestmark = pytest.mark.clients


def tokenize(server: Server, text: str) -> list[int]:
    tokens: list[int] = server.ask("/tokenize", {"prompt": text, "add_special_tokens": False})["tokens"]
    return tokens


def log_likelihood(server: Server, context: list[int], continuation: list[int]) -> float:
    """As `LocalCompletionsAPI._create_payload` asks for it, and `parse_logprobs` reads it."""
    fields: dict[str, Any] = {"model": "tiny-lyrics", "prompt": [context + continuation], "temperature": 0}
    fields |= {"max_tokens": 1, "logprobs": 1, "seed": 1234, "echo": True}
    (choice,) = server.ask("/v1/completions", fields)["choices"]
    read = choice["logprobs"]["token_logprobs"][len(context) : -1]
    top = choice["logprobs"]["top_logprobs"][len(context) : -1]
    assert all(value <= max(likeliest.values()) for value, likeliest in zip(read, top, strict=True))
    return float(sum(read))


def test_remote_tokenizer_is_found(server: Server) -> None:
    with urllib.request.urlopen(f"{server.base}/tokenizer_info") as answer:
        info = json.load(answer)
    assert "eos_token" in info
    assert isinstance(tokenize(server, "test"), list)
    assert server.ask("/detokenize", {"tokens": tokenize(server, "分开")}) == {"prompt": "分开"}
    assert len(tokenize(server, info["bos_token"])) == 1, "which stands before a text without a context"


def test_log_likelihood_equals_our_own(server: Server) -> None:
    context, continuation = tokenize(server, "分开"), tokenize(server, "后的")
    score = server.ask("/score", {"text": "分开后的"})
    expected = sum(token["logprob"] for token in score["tokens"][2:])
    assert log_likelihood(server, context, continuation) == pytest.approx(expected, abs=1e-5)


def test_text_is_generated_until_a_line_end(server: Server) -> None:
    fields = {"prompt": ["分开"], "model": "tiny-lyrics", "max_tokens": 256, "temperature": 0, "stop": ["\n"]}
    (choice,) = server.ask("/v1/completions", fields | {"seed": 1234})["choices"]
    assert "\n" not in choice["text"]
