"""A hub, or a model, that would harm whoever imports: one sentence in time, within a gibibyte, and nothing is written,
changed or left outside the cache."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import hostile_hub
from tests.hostile_hub import FAULTS, SLOW, Fault
from tests.readme import ROOT
from tests.stand_in_hub import Faults, StandInHub, stand_in_hub
from tests.training.importers.marian import folders

MOST_S, MOST_BYTES = 30.0, 1 << 30


class Runner:
    """A process that imports, into `into`. own: a person's file beside it, which is in the cache's reach."""

    def __init__(self, world: Path, hub: StandInHub) -> None:
        self.world, self.hub, self.into = world, hub, world / "checkpoints"
        self.cache = world / "cache" / "hub"
        self.own = world / "own" / ("a" * 64)
        self.own.parent.mkdir(parents=True)
        self.up = "../" * 4 + f"own/{self.own.name}"  # from the cache's blobs of a model
        self.own.write_text("years of work", encoding="utf-8")
        mine = self.into / "mine"
        mine.mkdir(parents=True)
        (mine / "model.safetensors").write_bytes(b"weights of mine")
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.lower().endswith("_proxy") and name != "HF_TOKEN"
        }
        environment |= {"HF_ENDPOINT": hub.address, "HF_HOME": str(world / "cache"), "HF_HUB_CACHE": str(self.cache)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.training.importers.import_runner"],
            cwd=world,
            env={**environment, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def run(self, *names: str, window_s: float = 10.0, update: bool = True) -> dict[str, Any]:
        assert self.process.stdin is not None and self.process.stdout is not None
        options = ["--into", str(self.into), *(["--update"] if update else [])]
        asked = {"arguments": ["import-marian", *names, *options], "window_s": window_s}
        self.process.stdin.write(json.dumps(asked).encode() + b"\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline() or b"{}")
        assert answer, f"the import ended its process ({self.process.wait()})"
        assert isinstance(answer, dict)
        return answer

    def outside(self) -> dict[str, str]:
        """All files but those of the cache, with their digests."""
        paths = (path for path in self.world.rglob("*") if path.is_file() and self.cache not in path.parents)
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = folders.write(tmp_path_factory.mktemp("honest") / "model")
    (folder / "README.md").write_text("---\nlicense: cc-by-4.0\n---\n# A model\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    with stand_in_hub() as hub:
        runner = Runner(tmp_path_factory.mktemp("world") / "x", hub)
        with runner.process:
            yield runner
            runner.process.kill()


def with_paths(said: object, runner: Runner) -> object:
    """Replaces @OWN and @UP."""
    return json.loads(json.dumps(said).replace("@OWN", str(runner.own)).replace("@UP", runner.up))


def spoil(fault: Fault, runner: Runner, honest: Path, folder: Path) -> None:
    hub = runner.hub
    hub.up = runner.up
    hub.faults = Faults(answer=fault.answer)
    if change := fault.info:
        hub.faults.info = lambda said: with_paths(change(said), runner)
    if fault.hub is not None:
        fault.hub(hub)
    folder.mkdir()
    for path in honest.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    if fault.folder is not None:
        fault.folder(folder)


ROWS = [pytest.param(fault, id=fault.name, marks=[pytest.mark.slow] if fault.name in SLOW else []) for fault in FAULTS]


@pytest.mark.parametrize("fault", ROWS)
def test_hostile_hub_costs_a_sentence(fault: Fault, runner: Runner, honest: Path, tmp_path: Path) -> None:
    spoil(fault, runner, honest, tmp_path / "spoilt")
    name = f"someone/fault-{FAULTS.index(fault)}"
    runner.hub.add(name, tmp_path / "spoilt")
    before, began = runner.outside(), time.monotonic()
    answer = runner.run(name, window_s=fault.window_s)
    assert time.monotonic() - began < MOST_S
    assert answer["peak"] < MOST_BYTES
    after = runner.outside()
    if answer["status"] == 0:
        assert fault.sentence == hostile_hub.IMPORTED
        assert answer["said"].endswith(f"{name.partition('/')[2]} is ready.\n")
        made = runner.into / name.partition("/")[2]
        after = {path: digest for path, digest in after.items() if made not in Path(path).parents}
    else:
        errors = [line for line in answer["said"].splitlines() if line.startswith("error: ")]
        assert len(errors) == 1 and answer["said"].endswith(errors[0] + "\n")
        assert fault.sentence in errors[0] and errors[0].endswith(".") and errors[0].isprintable()
        assert len(errors[0]) < 1100 and "Traceback" not in answer["said"]
        assert answer["status"] in (2, os.EX_TEMPFAIL)
    assert after == before
    assert not list(runner.into.glob(".*"))  # no lock, and no half folder


@pytest.mark.slow
def test_name_is_free_after_a_failed_import(runner: Runner, honest: Path, tmp_path: Path) -> None:
    for number, wanted in enumerate(("a path for a checksum", "weights that drip", "reset", "pickle: a program")):
        fault, name = next(fault for fault in FAULTS if fault.name == wanted), f"someone/mended-{number}"
        spoil(fault, runner, honest, tmp_path / str(number))
        runner.hub.add(name, tmp_path / str(number))
        assert runner.run(name, window_s=fault.window_s)["status"] != 0
        runner.hub.faults = Faults()
        runner.hub.add(name, honest)
        answer = runner.run(name)
        assert answer["status"] == 0, answer["said"]
