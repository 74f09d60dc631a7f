"""torchrun itself, and the deaths that it sees."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.training.small import pairs, text

pytestmark = pytest.mark.slow
LISTENS = "0A"  # TCP_LISTEN in /proc/net/tcp
SING = ["lyrics", "--corpus", "song.txt", "--device", "cpu", "--max-epochs", "4"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "song.txt").write_text(text(300))
    for name, seed in (("pairs", 0), ("others", 1)):
        given = pairs(41, seed=seed)
        lines = [f"{s}\t{t}\n" for s, t in zip(given.sources, given.targets, strict=True)]
        (tmp_path / f"{name}.tsv").write_text("".join(lines))
    return tmp_path


def torchrun(folder: Path, *command: str, restarts: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", f"--max-restarts={restarts}"]
    return train(folder, *launcher, "-m", "tests.training.mortal", *command, **environment)


def processes(folder: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return train(folder, "-m", "tests.training.mortal", *command, "--processes", "2", **environment)


def train(folder: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path.cwd()), "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


def sentences(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What our processes said on standard error."""
    return [line for line in done.stderr.splitlines() if line.startswith("error: ")]


def weights(out: Path) -> bytes:
    return (out / "model.safetensors").read_bytes()


def test_a_killed_process_ends_the_run_which_then_goes_on(folder: Path) -> None:
    assert torchrun(folder, *SING, "--out", "whole").returncode == 0
    for rank, other in ((1, 0), (0, 1)):
        out = f"without {rank}"
        killed = torchrun(folder, *SING, "--out", out, MORTAL_RANK=str(rank), MORTAL_AT="5")
        assert killed.returncode != 0
        [sentence] = sentences(killed)
        assert f"rank {rank} (on " in sentence
        assert f"rank {other} " not in sentence
        assert "--resume" in sentence
        assert killed.stdout == ""
        assert not (folder / out / "model.safetensors").exists()
        gone_on = torchrun(folder, *SING, "--out", out, "--resume")
        assert gone_on.returncode == 0, gone_on.stderr
        assert weights(folder / out) == weights(folder / "whole")


@pytest.mark.parametrize("at", ["1", "5"])
def test_torchrun_starts_a_run_again_that_then_goes_on_by_itself(folder: Path, at: str) -> None:
    """Also where it died before its first snapshot."""
    whole = torchrun(folder, *SING, "--out", "whole")
    died = torchrun(folder, *SING, "--out", "died", restarts=1, MORTAL_RANK="1", MORTAL_AT=at)
    assert died.returncode == 0, died.stderr
    [sentence] = sentences(died)
    assert "starts it again" in sentence
    assert weights(folder / "died") == weights(folder / "whole")
    assert json.loads(died.stdout) == json.loads(whole.stdout)


def test_translator_trains_under_torchrun(folder: Path) -> None:
    translate = ["translator", "--source", "aa", "--target", "bb", "--train", "pairs.tsv", "--valid", "others.tsv"]
    done = torchrun(folder, *translate, "--out", "m", "--max-epochs", "2", "--device", "cpu")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["validation (greedy)"]["sentences"] == 41
    assert done.stderr.count("Warning") == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([*SING, "--out", "song.txt"], "song.txt is a file; --out names a folder."),
        (["lyrics", "--corpus", "none.txt", "--out", "m"], "none.txt"),
        ([*SING, "--out", "m", "--resume"], "m has no run to resume"),
    ],
)
def test_user_mistake_is_printed_once(folder: Path, arguments: list[str], sentence: str) -> None:
    """And is none that another start could mend: `--max-restarts` repeats it and no more."""
    done = torchrun(folder, *arguments)
    assert done.returncode != 0
    [said] = sentences(done)
    assert sentence in said
    assert "exitcode  : 2" in done.stderr
    assert "training/__main__.py" not in done.stderr  # no traceback of ours


def test_a_finished_run_is_not_taken_for_one_that_died(folder: Path) -> None:
    assert torchrun(folder, *SING, "--out", "m").returncode == 0
    before = weights(folder / "m")
    longer = [*SING[:-1], "8", "--out", "m"]
    done = torchrun(folder, *longer, restarts=1)
    assert done.returncode != 0
    assert all("already holds a model" in sentence for sentence in sentences(done))
    assert weights(folder / "m") == before


def test_unknown_option_is_printed_once(folder: Path) -> None:
    done = torchrun(folder, *SING, "--out", "m", "--unheard-of", "3")
    assert done.returncode != 0
    assert done.stderr.count("--unheard-of is no option") == 1


def test_processes_option_trains_as_torchrun_does(folder: Path) -> None:
    whole = torchrun(folder, *SING, "--out", "whole")
    done = processes(folder, *SING, "--out", "own")
    assert done.returncode == 0, done.stderr
    assert weights(folder / "own") == weights(folder / "whole")
    assert json.loads(done.stdout) == json.loads(whole.stdout)
    again = processes(folder, *SING, "--out", "own")
    assert again.returncode == 2
    assert again.stderr.startswith("error: own already holds a model; go on with its run with --resume, ")
    assert again.stderr.count("\n") == 1


def test_killed_process_of_processes_option_is_reported_in_one_line(folder: Path) -> None:
    killed = processes(folder, *SING, "--out", "m", MORTAL_RANK="0", MORTAL_AT="5")
    assert killed.returncode == 1
    [sentence] = sentences(killed)
    assert "rank 0 (on " in sentence
    assert "Traceback" not in killed.stderr
    resumed = processes(folder, *SING, "--out", "m", "--resume")
    assert resumed.returncode == 0, resumed.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_to_a_group_saves_once_and_resumes_bit_for_bit(folder: Path, number: signal.Signals, code: int) -> None:
    command = [*SING[:-1], "24", "--processes", "2"]
    started = subprocess.Popen(
        [sys.executable, "-m", "tests.training.mortal", *command, "--out", "m"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path.cwd()), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while not (folder / "m" / "metrics.jsonl").exists():
        assert started.poll() is None, started.communicate()
        time.sleep(0.05)
    started.send_signal(number)
    out, errors = started.communicate(timeout=120)
    assert started.returncode == code, errors
    assert out == ""
    assert errors.count("Stopped: ") == errors.count("Stopping: ") == 1, errors
    assert "error: " not in errors
    assert "Traceback" not in errors
    assert "Received" not in errors  # torchrun's own log
    assert processes(folder, *command[:-2], "--out", "m", "--resume").returncode == 0
    assert processes(folder, *command[:-2], "--out", "whole").returncode == 0
    assert weights(folder / "m") == weights(folder / "whole")


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="reads Linux's table of sockets")
def test_processes_of_one_machine_listen_on_loopback_alone(folder: Path) -> None:
    """Whoever connects to PyTorch's store can run code in the run: it holds pickles and has no password."""
    with started(folder, *SING[:-1], "500", "--processes", "2", "--out", "m") as run:
        while not (folder / "m" / "metrics.jsonl").exists():
            assert run.poll() is None, run.communicate()
            time.sleep(0.05)
        listening = listening_addresses(str(folder))
    assert len(listening) >= 2  # gloo's, of each process
    assert {address for address in listening if not address.is_loopback} == set()


@contextlib.contextmanager
def started(folder: Path, *command: str) -> Iterator[subprocess.Popen[str]]:
    run = subprocess.Popen(
        [sys.executable, "-m", "tests.training.mortal", *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path.cwd()), "OMP_NUM_THREADS": "1", "RUN_OF_TEST": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield run
    finally:
        run.terminate()
        run.communicate(timeout=60)


def listening_addresses(run: str) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """Of the TCP sockets of all processes whose environment names this run."""
    inodes: set[str] = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"RUN_OF_TEST={run}" in process.joinpath("environ").read_text().split("\0"):
                links = [str(path.readlink()) for path in process.joinpath("fd").iterdir()]
                inodes |= {link[8:-1] for link in links if link.startswith("socket:[")}
    addresses = []
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENS and fields[9] in inodes:
                digits = bytes.fromhex(fields[1].partition(":")[0])
                words = struct.unpack(f"={len(digits) // 4}I", digits)  # 32 bits each, in the machine's order
                addresses.append(ipaddress.ip_address(struct.pack(f">{len(words)}I", *words)))
    return addresses
