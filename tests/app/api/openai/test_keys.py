"""Keys and quotas, with errors in OpenAI's format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.keys import main
from tests.app.api.client import Client
from tests.app.api.openai.writer import Writer

PATH = "/v1/completions"


@pytest.fixture
def guarded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[Client, dict[str, str]]:
    """A server that gives everybody five characters a day, and the headers of one of them."""
    path = tmp_path / "keys"
    assert main(["--file", str(path), "add", "someone", "--quota", "5/day"]) == 0
    key = capsys.readouterr().out.strip()
    return Client(Writer(), keys_file=str(path)), {"Authorization": f"Bearer {key}"}


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}])
@pytest.mark.parametrize(("method", "path"), [("POST", PATH), ("GET", "/v1/models"), ("GET", "/v1/models/lyrics-zh")])
def test_without_a_key_it_is_401(
    guarded: tuple[Client, dict[str, str]], headers: dict[str, str], method: str, path: str
) -> None:
    client, _ = guarded
    answer = client.request(method, path, headers=headers, **({"json": {"prompt": "a"}} if method == "POST" else {}))
    error = answer.json()["error"]
    assert (answer.status_code, error["type"], error["code"]) == (401, "invalid_request_error", "invalid_api_key")
    assert answer.headers["www-authenticate"] == 'Bearer realm="parlance"'
    assert client.engine.calls == 0


@pytest.mark.parametrize("prompt", ["abcd", [20, 21, 5, 6], ["ab", "cd"], [[20, 21], [5, 6]]])
def test_prompts_of_texts_and_of_tokens_use_up_a_quota(guarded: tuple[Client, dict[str, str]], prompt: Any) -> None:
    client, headers = guarded
    assert client.post(PATH, json={"prompt": prompt}, headers=headers).status_code == 200
    answer = client.post(PATH, json={"prompt": prompt}, headers=headers)
    error = answer.json()["error"]
    assert (answer.status_code, error["type"], error["code"]) == (429, "insufficient_quota", "insufficient_quota")
    assert int(answer.headers["retry-after"]) > 0
    assert client.get("/v1/models", headers=headers).status_code == 200
