"""Runs the `sh` blocks of a page from top to bottom, as a reader would, in a folder that looks like a fresh checkout.

What differs from a reader's shell: ports are free ones; the installation is that of the tests; HF_ENDPOINT names a
stand-in for the Hub, and `docker` is `tests/stand_in_docker.py`. A block that serves goes on in its terminal until the
next one that serves; the blocks after it are typed into a second terminal, which knows nothing of the first."""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.readme import BLOCK, CUT, ROOT, json_values, same_shape

SERVES = re.compile(r"^(?:\w+=\S+ )*(?:parlance|make) serve\b", re.MULTILINE)
ALIKE = 0.5  # of the letters of two texts: weights differ from machine to machine, and so may words
FREE_TEXT = ("translatedText", "text", "message")
SOURCES = ("app", "benchmarks", "constraints.txt", "docker-compose.yml", "Dockerfile", "Makefile", "models", "parlance")
SOURCES += ("pyproject.toml", "training")
LIMIT_S = 1800  # no measure of speed: only so that a hang ends


class Step(NamedTuple):
    """command: a block; output: what it printed on both outputs, "" of one that serves."""

    command: str
    output: str


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def checkout(folder: Path) -> Path:
    """A folder with the sources, and an environment in which they are installed."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in SOURCES:
        (folder / name).symlink_to(ROOT / name)
    programs = folder / ".venv/bin"
    programs.mkdir(parents=True)
    for name in ("python", "python3", "pip"):
        (programs / name).write_text(f'#!/bin/sh\nexec {shlex.quote(str(Path(sys.executable).parent / name))} "$@"\n')
    (programs / "parlance").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m parlance "$@"\n')
    (programs / "docker").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m tests.stand_in_docker "$@"\n')
    (programs / "activate").write_text(f"PATH={shlex.quote(str(programs))}:$PATH\n")
    for program in programs.iterdir():
        program.chmod(0o755)
    for mark in (".torch", ".installed"):  # so that `make install` finds everything installed
        (folder / ".venv" / mark).touch()
    return folder


class Tutorial:
    """A page that is run in `folder`. ports: what each port of the page is here; every page has 8000."""

    def __init__(self, page: str, folder: Path, **environment: str) -> None:
        self.text = (ROOT / page).read_text(encoding="utf-8")
        self.folder = folder
        self.ports = {port: str(free_port()) for port in ("6379", "8000", "8001", "8443")}
        self.base = f"http://127.0.0.1:{self.ports['8000']}"
        own = {"PYTHONPATH": str(ROOT), "PARLANCE_PORT": self.ports["8000"], "PORT": self.ports["8000"]}
        own |= {"OMP_NUM_THREADS": "1", "PARLANCE_CPU_WORKERS": "1", "HF_HOME": str(folder / ".hub-cache")}
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PARLANCE_", "BASH_"))}
        self.environment = {**inherited, **own, **environment}
        self._first, self._second = (folder / f".terminal-{number}" for number in (1, 2))
        for terminal in (self._first, self._second):
            terminal.write_text(f"cd {shlex.quote(str(folder))}\n")
        self._server: subprocess.Popen[bytes] | None = None

    def run(self, served: Mapping[str, str] | None = None) -> Iterator[Step]:
        """Each block after it has been run and its answer, if the page shows one, has been compared.

        served: a command that serves -> the address at which it serves already, and is not started again."""
        blocks = list(BLOCK.finditer(self.text))
        for block, below in zip(blocks, [*blocks[1:], None], strict=True):
            kind, body = block.groups()
            if kind != "sh":
                continue
            if "Stop the server" in self.text[: block.start()].rpartition("```")[2]:
                self.stop()
            if address := (served or {}).get(body.strip()):
                self.base = address
                self.ports["8000"] = address.rpartition(":")[2]
                continue
            if SERVES.search(body):
                self._serve(body)
                yield Step(body, "")
                continue
            done = self._shell(body)
            output = done.stdout + done.stderr
            assert done.returncode == 0, f"{body}\n{output[-3000:]}"
            shown_kind, shown = below.groups() if below else ("", "")
            if shown_kind == "json":
                problems = differing(json_values(shown), json_values(done.stdout))
                assert problems == [], f"{body}\n{problems}\n{output[-3000:]}"
            elif shown_kind == "text":
                problems = missing(shown, output)
                assert problems == [], f"{body}\n{problems}\n{output[-3000:]}"
            yield Step(body, output)

    @property
    def _terminal(self) -> Path:
        """The file with the state of the shell into which commands are typed."""
        return self._first if self._server is None else self._second

    def _script(self, body: str, terminal: Path) -> str:
        for shown, port in self.ports.items():
            body = re.sub(rf"\b{shown}\b", port, body)
        return f". {shlex.quote(str(terminal))}\nset -eo pipefail\n{body}"

    def _shell(self, body: str) -> subprocess.CompletedProcess[str]:
        kept = shlex.quote(str(self._terminal))
        script = f'{self._script(body, self._terminal)}\n{{ export -p; printf "cd %q\\n" "$PWD"; }} > {kept}'
        command = ["bash", "-c", script]
        with subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                output, errors = process.communicate(timeout=LIMIT_S)
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        return subprocess.CompletedProcess(command, process.returncode, output, errors)

    def _serve(self, body: str) -> None:
        self.stop()
        log = self.folder / "serve.log"
        with log.open("ab") as output:
            self._server = subprocess.Popen(
                ["bash", "-c", self._script(body, self._first)],
                cwd=self.folder,
                env=self.environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            assert self._server.poll() is None, f"{body}\n{log.read_text()[-3000:]}"
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{self.base}/health/ready", timeout=5).close()
                return
            time.sleep(0.1)
        raise AssertionError(f"{body}\nis not ready: {log.read_text()[-3000:]}")

    def stop(self) -> None:
        """As Ctrl-C in the terminal of the server."""
        if self._server is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._server.pid, signal.SIGINT)
            self._server.wait(60)
            self._server = None


def alike(shown: str, got: str) -> bool:
    """Whether two texts have most letters in common, in order; numbers count as equal."""
    first, second = (re.sub(r"\d[\d.,]*", "0", text).split() for text in (shown, got))
    return difflib.SequenceMatcher(None, " ".join(first), " ".join(second)).ratio() >= ALIKE


def differing(shown: Any, got: Any, path: str = "answer") -> list[str]:
    """Where an answer is not what the page shows: other keys, types or nesting, or a text that is hardly the same."""
    if problems := same_shape(shown, got, path):
        return problems
    if isinstance(shown, dict):
        return [p for key in shown if key != CUT for p in differing(shown[key], got[key], f"{path}.{key}")]
    if isinstance(shown, list):
        members = shown[: shown.index(CUT)] if CUT in shown else shown
        return [p for i, member in enumerate(members) for p in differing(member, got[i], f"{path}[{i}]")]
    if isinstance(shown, str) and isinstance(got, str) and path.rpartition(".")[2].partition("[")[0] in FREE_TEXT:
        return [] if alike(shown, got) else [f"{path} is {got!r} and the page shows {shown!r}"]
    return []


def missing(shown: str, output: str) -> list[str]:
    """The lines of a page that no printed line is like; a line with … is only part of one, and is left out."""
    printed = re.split(r"[\r\n]+", output)
    lines = [line for line in shown.splitlines() if line.strip() and CUT not in line]
    return [f"nothing printed is like {line!r}" for line in lines if not any(alike(line, other) for other in printed)]
