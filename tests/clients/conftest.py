"""One server for all clients, and Node for the npm clients."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.readme import ROOT
from tests.serving import Server, serving
from tests.tiny import write_all

NODE = Path(__file__).parent / "node"
Scripts = Callable[..., Any]


SUITES_TOLD = pytest.StashKey[list[str]]()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash.get(SUITES_TOLD, []):
        terminalreporter.write_line(line)


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Says a line after the tests."""
    return request.config.stash.setdefault(SUITES_TOLD, []).append


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_all(tmp_path_factory.mktemp("clients") / "checkpoints")


@pytest.fixture(scope="session")
def server(checkpoints: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """de → en, en → es and a lyricist, for every client."""
    with serving(checkpoints, tmp_path_factory.mktemp("open")) as server:
        yield server


@pytest.fixture(scope="session")
def guarded(checkpoints: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, str]]:
    """The same server with keys required."""
    folder = tmp_path_factory.mktemp("guarded")
    command = [sys.executable, "-m", "app.keys", "--file", str(folder / "keys"), "add", "clients"]
    key = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    with serving(checkpoints, folder, KEYS_FILE=str(folder / "keys")) as server:
        yield server, key


@pytest.fixture(scope="session")
def node() -> Scripts:
    """node("openai.mjs", base, ...) is the JSON value that the script prints."""
    for name in ("node", "npm"):
        assert shutil.which(name), f"{name} is missing: apt-get install nodejs npm"
    installed = NODE / "node_modules" / ".package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < (NODE / "package-lock.json").stat().st_mtime:
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=NODE, check=True, timeout=300)

    def run(script: str, *arguments: str, folder: Path = NODE, limit_s: float = 60) -> Any:
        environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        command = ["node", script, *arguments]
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=limit_s, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run
