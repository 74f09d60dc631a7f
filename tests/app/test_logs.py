"""The log of a real server: every line of every process has the configured format."""

from __future__ import annotations

import json
import signal
import urllib.error
from pathlib import Path

import pytest

from tests.app.api.keyed_client import TEXTS, USE, keys_file
from tests.serving import serving


@pytest.mark.slow
@pytest.mark.parametrize("command", [("-m", "app"), ("-m", "uvicorn", "--factory", "app.main:create_app", "--port")])
def test_every_line_is_json_without_query_or_key(
    tiny_checkpoints: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    words = (*command, "{port}") if command[-1] == "--port" else command
    settings = {"LOG_FORMAT": "json", "LOG_LEVEL": "debug", "KEYS_FILE": str(keys_file(tmp_path))}
    with serving(tiny_checkpoints, tmp_path, words, **settings) as server:
        query = f"/translate?api_key={USE}"
        server.ask(query, {**TEXTS, "q": "ein geheimnis"})
        with pytest.raises(urllib.error.HTTPError, match="403"):
            server.ask("/translate?api_key=geheim", TEXTS)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) in (0, -signal.SIGTERM)
    lines = capfd.readouterr().err.splitlines()
    records = [json.loads(line) for line in lines]
    assert [record["caller"] for record in records if record.get("route") == "/translate"] == ["shop", "anonymous"]
    assert any(record["logger"] == "uvicorn.error" for record in records)
    assert sum('"route":"/translate"' in line for line in lines) == 2
    assert not [line for line in lines if USE in line or "geheim" in line or "api_key" in line]
