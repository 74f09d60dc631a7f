"""Imports as people and servers start them: in a process that can be ended."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.engine.registry.model_import import ModelImport, ModelImporter
from models import checkpoint as checkpoints
from tests.readme import ROOT
from tests.stand_in_hub import StandInHub, stand_in_hub
from tests.training.importers.marian import folders

pytestmark = pytest.mark.slow
NAME = "Helsinki-NLP/opus-mt-de-en"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandInHub]:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub-cache"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with stand_in_hub() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.address)
        hub.add(NAME, folders.write(tmp_path / "original"))
        yield hub


def importer(folder: Path, done: list[str]) -> ModelImporter:
    async def load(name: str) -> None:
        checkpoints.read(folder / name)
        done.append(name)

    return ModelImporter(folder, load, load, lambda _: False)


async def ended(made: ModelImport) -> ModelImport:
    while made.state == "running":
        await asyncio.sleep(0.05)
    return made


def test_cancelled_import_leaves_its_name_free(hub: StandInHub, tmp_path: Path) -> None:
    into, loaded = tmp_path / "checkpoints", list[str]()
    into.mkdir()

    async def run() -> None:
        imports = importer(into, loaded)
        hub.rate = 50_000
        made = await imports.start("de-en")
        while made.stage != "download" or not made.bytes:
            assert made.state == "running", made.error
            await asyncio.sleep(0.05)
        assert (await imports.cancel(made.id)).state == "cancelled"
        assert list(into.iterdir()) == []
        hub.rate = 0
        again = await ended(await imports.start("de-en"))
        assert (again.state, again.error) == ("done", None)

    asyncio.run(run())
    assert [path.name for path in into.iterdir()] == loaded == ["opus-mt-de-en"]


def test_import_over_a_model_of_ones_own_fails_with_a_sentence(
    hub: StandInHub, tiny_checkpoints: Path, tmp_path: Path
) -> None:
    into = tmp_path / "checkpoints"
    into.mkdir()
    (into / "mine").symlink_to(tiny_checkpoints / "tiny-de-en")
    hub.add("someone/mine", folders.write(tmp_path / "other"))
    made = asyncio.run(run_import(into, "someone/mine"))
    assert made.state == "failed"
    assert made.error == (
        f"{into}/mine was trained, not imported: it stays as it is; import someone/mine under another name, with --out."
    )
    assert (into / "mine").is_symlink()


async def run_import(into: Path, name: str) -> ModelImport:
    return await ended(await importer(into, []).start(name))


def test_hostile_file_that_ends_the_process_is_told_and_leaves_nothing(
    hub: StandInHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library that crashes, as it may in a hostile file, is a module that is found before the real one."""
    into = tmp_path / "checkpoints"
    crash = "import os, signal\nfrom pathlib import Path\n"
    crash += f"(Path({str(into)!r}) / '.opus-mt-de-en.new').mkdir()\nos.kill(os.getpid(), signal.SIGSEGV)\n"
    (tmp_path / "crashing").mkdir()
    (tmp_path / "crashing" / "sitecustomize.py").write_text(
        "import sys\nfrom importlib.abc import Loader, MetaPathFinder\nfrom importlib.util import spec_from_loader\n"
        "class Crash(MetaPathFinder, Loader):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'training.importers.hub_download': return spec_from_loader(name, self)\n"
        "    def create_module(self, spec): return None\n"
        f"    def exec_module(self, module): exec({crash!r})\n"
        "sys.meta_path.insert(0, Crash())\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'crashing'}:{ROOT}")
    monkeypatch.syspath_prepend(tmp_path / "crashing")
    into.mkdir()
    (into / ".opus-mt-de-en.lock").touch()  # as the process holds while it writes
    command = [sys.executable, "-m", "parlance", "import", "de-en", "--into", str(into)]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert told.returncode == 2
    sentence = "was ended (SIGSEGV), as a damaged or hostile file of a model can do"
    assert told.stderr.splitlines()[-1] == f"error: The import {sentence}."
    assert list(into.iterdir()) == []
    (into / ".opus-mt-de-en.lock").touch()
    made = asyncio.run(run_import(into, "de-en"))
    assert (made.state, made.error) == ("failed", f"The import of de-en {sentence}; nothing was imported.")
    assert list(into.iterdir()) == []


def test_interrupted_command_leaves_no_half_folder(hub: StandInHub, tmp_path: Path) -> None:
    into = tmp_path / "checkpoints"
    hub.rate = 50_000
    command = subprocess.Popen(
        [sys.executable, "-m", "parlance", "import", "de-en", "--into", str(into)],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while not any("/lfs/" in path for _, path, _ in list(hub.requests)):
        assert command.poll() is None
        time.sleep(0.05)
    command.send_signal(signal.SIGINT)
    _, said = command.communicate(timeout=60)
    assert command.returncode == 130
    assert "Traceback" not in said
    assert not into.exists() or list(into.iterdir()) == []
