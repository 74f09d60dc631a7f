"""examples/clients, as they stand, against a real server."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from tests.readme import ROOT
from tests.serving import Server

pytestmark = pytest.mark.clients
TEXT = {"q": "ich möchte ein bier", "source": "de", "target": "en"}


def output_of(server: Server, *command: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    done = subprocess.run(
        [*command, server.base], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def translation(server: Server) -> str:
    result: str = server.ask("/translate", TEXT)["translatedText"]
    assert result
    return result


def test_curl(server: Server, translation: str) -> None:
    plain, page = output_of(server, "sh", "examples/clients/ask.sh").splitlines()
    assert json.loads(plain)["translatedText"] == translation
    assert re.fullmatch(r"<p>.*</p>", json.loads(page)["translatedText"])


def test_python(server: Server, translation: str) -> None:
    assert output_of(server, sys.executable, "examples/clients/ask.py") == f"{translation}\n"


def test_javascript(server: Server, translation: str) -> None:
    assert output_of(server, "node", "examples/clients/ask.mjs") == f"{translation}\n"


def test_openais_sdk(server: Server) -> None:
    expected = {"prompt": "分开", "max_new_tokens": 20, "temperature": 1.0, "seed": 7}
    assert (
        output_of(server, sys.executable, "examples/clients/openai_sdk.py")
        == server.ask("/generate", expected)["text"] + "\n"
    )


def test_deepls_sdk(server: Server, translation: str) -> None:
    plain, bound = output_of(server, sys.executable, "examples/clients/deepl_sdk.py").splitlines()
    assert plain == translation
    assert "ale" in bound.split()
