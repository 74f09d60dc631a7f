"""How many of our files a warm request passes, in all processes: the way that somebody follows who reads the code."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.readme import ROOT
from tests.serving import Server, serving
from tests.tiny import GERMAN

pytestmark = pytest.mark.slow  # a server of its own

TRANSLATION = {"q": GERMAN[0], "source": "de", "target": "en"}
CONTINUATION = {"prompt": "分开", "max_new_tokens": 8, "seed": 7}
SETTINGS = {"PRECISION": "int8", "LOG_LEVEL": "error"}


@pytest.fixture(scope="module")
def recorded(tiny_checkpoints: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Path]]:
    folder = tmp_path_factory.mktemp("calls")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("RECORD_CALLS", str(folder))
        environment.setenv("RECORD_ROOT", str(ROOT))
        preload = ROOT / "tests/call_recorder"
        with serving(tiny_checkpoints, tmp_path_factory.mktemp("server"), preload=preload, **SETTINGS) as server:
            yield server, folder


@pytest.mark.parametrize(("path", "body", "most"), [("/translate", TRANSLATION, 40), ("/generate", CONTINUATION, 32)])
def test_warm_request_passes_few_files(
    recorded: tuple[Server, Path], path: str, body: dict[str, object], most: int
) -> None:
    server, folder = recorded
    for _ in range(2):
        server.ask(path, body)
    (folder / "on").touch()
    time.sleep(0.2)
    server.ask(path, body)
    (folder / "on").unlink()
    written = [folder / str(pid) for pid in (server.process.pid, *server.workers())]
    until = time.monotonic() + 30
    while not all(file.exists() for file in written) and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(0.1)
    passed = {line for file in written for line in file.read_text().splitlines()}
    for file in written:
        file.unlink()
    ours = sorted(name for name in passed if name.startswith(("app/", "models/")))
    assert {"app/connection_limits.py", "app/engine/worker/scheduler.py"} <= {*ours}, "both processes were recorded"
    assert len(ours) <= most, "\n".join(ours)
