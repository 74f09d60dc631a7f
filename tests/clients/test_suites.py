"""The suites of LibreTranslate and openai-python as PyPI publishes them; those of deepl-python and deepl-node anew."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clients import deepl_python
from tests.clients.conftest import Scripts
from tests.clients.deepl_server import TEXTS, deepl_serving
from tests.clients.suites import FOLDER, SUITES, check, run_pytest, source_of
from tests.readme import ROOT
from tests.serving import Server, serving
from tests.tiny import write_lyricist

pytestmark = pytest.mark.clients
Tell = Callable[[str], None]
ASYNCIO = "pytest-asyncio==1.4.0"  # of openai-python's tests


def test_libretranslate(server: Server, tmp_path: Path, tell: Tell) -> None:
    folder = tmp_path / "tests"
    folder.mkdir()
    for path in source_of(SUITES["libretranslate"]["package"], tmp_path).glob(
        "libretranslate/tests/test_api/test_*.py"
    ):
        shutil.copy(path, folder)
    shutil.copy(FOLDER / "libretranslate_conftest.py", folder / "conftest.py")
    tell(check("libretranslate", run_pytest([], folder, tmp_path / "report.xml", LIBRETRANSLATE_URL=server.base)))


def test_openai_python(tmp_path: Path, tell: Tell) -> None:
    sources, plugin = source_of(SUITES["openai-python"]["package"], tmp_path), tmp_path / "plugin"
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(plugin), ASYNCIO]
    subprocess.run(command, check=True, timeout=300)
    for name in ("gpt-3.5-turbo-instruct", "gpt-6-astra"):  # as its tests ask for
        write_lyricist(tmp_path / "checkpoints" / name, text="This is a test.\n")
    words = [f"tests/api_resources/test_{name}.py" for name in ("completions", "models")]
    with serving(tmp_path / "checkpoints", tmp_path) as server:
        variables = {"TEST_API_BASE_URL": f"{server.base}/v1", "PYTHONPATH": str(plugin)}
        outcomes = run_pytest(["-o", "addopts=", *words], sources, tmp_path / "report.xml", **variables)
    tell(check("openai-python", outcomes))


def test_deepl_python(tmp_path: Path, tell: Tell) -> None:
    files = map(str, sorted(Path(deepl_python.__file__).parent.glob("suite_*.py")))
    outcomes = run_pytest(["-m", "", *files], ROOT, tmp_path / "report.xml", PYTHONPATH=str(ROOT))
    tell(check("deepl-python", outcomes))


def test_deepl_node(tmp_path: Path, node: Scripts, tell: Tell) -> None:
    with deepl_serving(tmp_path) as server:
        outcomes = node("deepl-suite.mjs", server.base, json.dumps(TEXTS), limit_s=600)
    tell(check("deepl-node", outcomes))
