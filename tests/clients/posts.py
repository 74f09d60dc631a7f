"""Requests that every HTTP client posts, and what they are answered."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

from tests.serving import Server

TEXTS = {"q": "hallo welt", "source": "de", "target": "en"}
PROMPT = {"prompt": "分开", "max_new_tokens": 20, "seed": 5}
STREAM = {**PROMPT, "stream": True}
COMPLETION = {"model": "tiny-lyrics", "prompt": "分开", "max_tokens": 20, "seed": 5}
FORM = "q=hallo+welt&source=de&target=en"
FILE = b"hallo welt"
POSTS = ("form", "json", "generate", "stream", "completion", "file")


def check(server: Server, name: str, status: int, body: str) -> None:
    """The answer is that which Python's own client gets."""
    assert status == 200, body
    if name == "stream":
        lines = [line.removeprefix("data: ") for line in body.splitlines() if line.startswith("data: ")]
        *parts, whole = [json.loads(line)["text"] for line in lines]
        assert "".join(parts) == whole == server.ask("/generate", PROMPT)["text"]
        return
    answer: dict[str, Any] = json.loads(body)
    if name == "file":
        with urllib.request.urlopen(answer["translatedFileUrl"], timeout=60) as download:
            translated = download.read().decode().strip()
        assert translated == server.ask("/translate", TEXTS)["translatedText"]
    elif name in ("form", "json"):
        assert answer == server.ask("/translate", TEXTS)
    elif name == "generate":
        assert answer["text"] == server.ask("/generate", PROMPT)["text"]
    else:
        assert answer["choices"][0]["text"] == server.ask("/v1/completions", COMPLETION)["choices"][0]["text"]
