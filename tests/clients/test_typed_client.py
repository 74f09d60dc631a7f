"""TypeScript's types of /openapi.json, by npm `openapi-typescript`, in a program that has to compile and to run."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clients.conftest import NODE, Scripts
from tests.serving import Server

pytestmark = pytest.mark.clients
COMPILE = "tsc --strict --target es2022 --module nodenext --moduleResolution nodenext --skipLibCheck --types node"


def test_answers_and_events_have_types_of_their_own(server: Server, node: Scripts, tmp_path: Path) -> None:
    (tmp_path / "node_modules").symlink_to(NODE / "node_modules")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "openapi.json").write_text(json.dumps(server.ask("/openapi.json")), encoding="utf-8")
    shutil.copy(NODE / "typed-client.ts", tmp_path)
    # a field with a default may be left out of a request
    types = "openapi-typescript openapi.json --default-non-nullable=false --output openapi.ts"
    for command in (types, f"{COMPILE} typed-client.ts"):
        words = ["npx", "--no-install", *command.split()]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    body = {"q": "guten morgen welt", "source": "de", "target": "en"}
    text = server.ask("/translate", body)["translatedText"]
    continued = server.ask("/generate", {"prompt": "分开", "seed": 5, "max_new_tokens": 4})["text"]
    assert node("typed-client.js", server.base, folder=tmp_path) == {
        "text": text,
        "field": "target",
        "continued": continued,
        "choice": server.ask("/v1/completions", {"prompt": "分开", "seed": 5, "max_tokens": 4})["choices"][0]["text"],
        "done": text,
        "types": True,
        "chunks": True,
    }
