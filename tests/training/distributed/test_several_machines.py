"""Two machines train together by the commands of docs/training.md; one is killed, and comes back."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import groupby, pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from safetensors.torch import load_file

from tests.readme import ROOT
from tests.training.distributed import machines
from tests.training.distributed.machines import Machine
from tests.training.distributed.test_process_group import assert_close
from tests.training.runs import timeless
from tests.training.small import pairs
from tests.training.throttled import EPOCHS

pytestmark = pytest.mark.slow
PATIENCE_S = 240  # for processes that start on a busy machine
TRAIN = ["-m", "tests.training.throttled", "translator", "--source", "aa", "--target", "bb", "--device", "cpu"]


@pytest.fixture(autouse=True)
def _namespaces() -> None:
    if reason := machines.why_none():
        pytest.skip(reason)


class Documented(NamedTuple):
    """The first machine's command: its environment, and torchrun's options."""

    environment: dict[str, str]
    options: list[str]


def documented() -> Documented:
    section = (ROOT / "docs/training.md").read_text("utf-8").partition("\n## Several machines\n")[2]
    block = re.search(r"^```bash\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    assert block
    exports, command = block[1].replace("\\\n", "").splitlines()
    assert exports.startswith("export ") and command.startswith("torchrun ")
    words = shlex.split(command)
    return Documented(dict(word.split("=", 1) for word in shlex.split(exports)[1:]), words[1 : words.index("-m")])


class Updates(NamedTuple):
    """A line of `tests.training.throttled`."""

    update: int
    rank: int
    processes: int


def updates(machine: Machine) -> list[Updates]:
    file = machine.folder / "updates"
    lines = file.read_text().splitlines() if file.exists() else []
    return [Updates(*map(int, line.split())) for line in lines]


def wait_until(condition: Callable[[], object], *running: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end
        assert all(process.poll() is None for process in running)
        time.sleep(0.1)


@pytest.mark.parametrize("lost_rank", [1, 0])
def test_a_killed_machine_comes_back(lost_rank: int, tmp_path: Path) -> None:
    """The machine without the store is killed: as rank 1, with a disk of its own, and as rank 0, which reads and writes
    the run's folder. The other goes on from the last snapshot, and so do both once it is back. A run that changes its
    number of processes adds in another order: without dropout the weights are those of one process but for rounding,
    and the same updates and validations are written once each."""
    kept, lost = tmp_path / "kept", tmp_path / "lost"
    shared = tmp_path / "shared"
    for folder in (kept, lost, shared):
        folder.mkdir()
        for name, seed in (("pairs", 0), ("others", 1)):
            given = pairs(41, seed=seed)
            lines = [f"{s}\t{t}\n" for s, t in zip(given.sources, given.targets, strict=True)]
            (folder / f"{name}.tsv").write_text("".join(lines))
    out = kept / "m" if lost_rank == 1 else shared / "m"
    corpus = ["--train", "pairs.tsv", "--valid", "others.tsv"]
    environment, options = documented()
    environment |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HURRY": str(tmp_path / "hurry")}
    # torchrun gives the ranks by address
    host, other = ("10.0.0.1", "10.0.0.2") if lost_rank == 1 else ("10.0.0.2", "10.0.0.1")

    def run(machine: Machine) -> subprocess.Popen[bytes]:
        given = [option.replace("10.0.0.1", host) for option in options]
        if machine.address == other:
            given = [re.sub(r"(--local-addr)=.*", rf"\1={other}", option) for option in given]
            given = [option.replace("is_host=true", "is_host=false") for option in given]
        command = [sys.executable, "-m", "torch.distributed.run", *given, *TRAIN, *corpus]
        where = "m" if lost_rank == 1 else str(out)
        return machine.start([*command, "--out", where], **environment, UPDATES=str(machine.folder / "updates"))

    with machines.network({host: kept, other: lost}) as (survivor, victim):
        stays, leaves = run(survivor), run(victim)
        wait_until(lambda: (out / "resume").exists(), stays, leaves)
        wait_until(lambda: updates(survivor) and updates(survivor)[-1].update >= 3, stays, leaves)
        assert updates(survivor)[-1][1:] == (1 - lost_rank, 2)
        victim.kill()
        leaves.wait()
        wait_until(lambda: updates(survivor)[-1].processes == 1, stays)
        before = len(updates(victim))
        back = run(victim)
        wait_until(lambda: len(updates(victim)) > before + 1, stays, back)
        (tmp_path / "hurry").touch()
        assert (stays.wait(PATIENCE_S), back.wait(PATIENCE_S)) == (0, 0)

    parts = [list(part) for _, part in groupby(updates(survivor), lambda line: line.processes)]
    assert [part[0].processes for part in parts] == [2, 1, 2]
    for earlier, later in pairwise(parts):  # from a snapshot, and none of the updates is left out
        assert 0 < later[0].update <= earlier[-1].update + 1
    writer, reader = (kept, lost) if lost_rank == 1 else (lost, kept)
    assert len((writer / "out").read_text().splitlines()) == 1
    result = json.loads((writer / "out").read_text())
    assert (reader / "out").read_text() == ""
    assert lost_rank == 0 or not (lost / "m").exists()
    assert "torchrun starts it again" in (kept / "errors").read_text()

    one = subprocess.run(
        [sys.executable, *TRAIN, *corpus, "--out", "m"],
        cwd=lost if lost_rank == 1 else kept,
        env={**os.environ, **environment, "UPDATES": str(tmp_path / "one")},
        check=True,
        capture_output=True,
        text=True,
    )
    expected = (lost if lost_rank == 1 else kept) / "m"
    assert json.loads(one.stdout)["validation (greedy)"]["bleu"] == result["validation (greedy)"]["bleu"]
    assert_close(load_file(out / "model.safetensors"), load_file(expected / "model.safetensors"))
    rows = [timeless(folder) for folder in (out, expected)]
    assert sum("valid_loss" in row for row in rows[0]) == EPOCHS
    for a, b in zip(*rows, strict=True):
        assert a == pytest.approx(b, abs=1e-4)
