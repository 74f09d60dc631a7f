"""The front end's side of `models.checkpoint_trial`: reads each checkpoint in a child process before this process does.
A child that crashes, hangs or takes too much memory costs the folder that it was reading, which is refused by name."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from models.checkpoint import CONFIG, MOST_JSON_BYTES, CheckpointError, require_file, sha256

_END_S = 5.0  # of a child that has closed its output
_LONGEST_ANSWER = 1_000_000  # bytes
MOST_S = 120.0  # without an answer, on a machine that is busy otherwise; the child has half of that of the CPU


class CheckpointTrials:
    """A checkpoint that was sound is not tried again in the lifetime of this object, wherever it lies and however often
    it is loaded: config.json has the checksums of the other files. Blocking: call it in a thread.

    limit_s: for one folder. command: of the child."""

    def __init__(self, limit_s: float = MOST_S, command: Sequence[str] = ("-m", "models.checkpoint_trial")) -> None:
        self.limit_s, self._command = limit_s, tuple(command)
        self._sound: set[str] = set()  # SHA-256 of config.json
        self._lock = threading.Lock()  # of the child and what follows
        self._child: subprocess.Popen[bytes] | None = None
        self._asked: list[Path] = []  # of the child, in the order of its answers
        self._read = b""  # of its answers, beyond the last one taken
        self._answers: dict[Path, str | None] = {}  # its problem, or None

    def begin(self, folders: Sequence[Path]) -> None:
        """Starts the child on the folders that `require` will be called for, in this order."""
        with self._lock:
            self._start([folder for folder in folders if _digest(folder) not in self._sound])

    def require(self, folder: Path) -> None:
        """Raises CheckpointError unless the child has read the folder, or another with the same config.json."""
        digest = _digest(folder)
        with self._lock:
            if digest in self._sound:
                return
            if folder not in self._asked and folder not in self._answers:
                self._start([folder])
            while folder not in self._answers:
                self._take_answer()
            if (problem := self._answers.pop(folder)) is not None:
                raise CheckpointError(problem)
            if digest:
                self._sound.add(digest)

    def _start(self, folders: list[Path]) -> None:
        self._end()
        if not folders:
            return
        self._asked, self._read = folders, b""
        self._child = child = subprocess.Popen(
            [sys.executable, *self._command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={
                **{name: value for name, value in os.environ.items() if not name.startswith("PARLANCE_")},
                "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)),
            },
            start_new_session=True,  # Ctrl-C is for the front end
        )
        assert child.stdin is not None
        with suppress(BrokenPipeError), child.stdin as lines:  # a child that has ended is noticed by its answer
            lines.write(b"".join(os.fsencode(folder).hex().encode() + b"\n" for folder in folders))

    def _end(self) -> None:
        child, self._child, self._asked = self._child, None, []
        if child is not None:
            child.kill()
            child.wait()
            if child.stdout is not None:
                child.stdout.close()

    def _take_answer(self) -> None:
        """The answer for the first folder, which may be the child's end; another child then reads the rest."""
        assert self._child is not None
        folder, rest = self._asked[0], self._asked[1:]
        line = self._next_line()
        try:
            self._answers[folder], self._asked = json.loads(line or b""), rest
            if not rest:
                self._end()
        except ValueError:
            busy = line is None
            how = "kept its reader busy for too long" if busy else f"ended its reader ({_end_of(self._child)})"
            self._answers[folder] = f"{folder} {how}: no checkpoint does; the model was not loaded."
            self._start(rest)

    def _next_line(self) -> bytes | None:
        """Of the child; b"" at its end, None after `limit_s` without a whole line. Two answers may come at once: so no
        reader with a buffer, in which `poll` sees none of them."""
        assert self._child is not None and self._child.stdout is not None
        descriptor, end_s = self._child.stdout.fileno(), time.monotonic() + self.limit_s
        watched = select.poll()  # not select, which takes no descriptor beyond 1023
        watched.register(descriptor, select.POLLIN)
        while b"\n" not in self._read:
            left_s = end_s - time.monotonic()
            if left_s <= 0 or len(self._read) > _LONGEST_ANSWER or not watched.poll(left_s * 1000):
                return None
            if not (part := os.read(descriptor, 65_536)):
                return b""
            self._read += part
        line, _, self._read = self._read.partition(b"\n")
        return line


def _digest(folder: Path) -> str:
    """Of config.json; "" where there is none that a checkpoint may have, for which the child refuses the folder."""
    try:
        require_file(folder / CONFIG, MOST_JSON_BYTES)
        return sha256(folder / CONFIG)
    except (OSError, ValueError):
        return ""


def _end_of(child: subprocess.Popen[bytes]) -> str:
    try:
        status = child.wait(_END_S)
    except subprocess.TimeoutExpired:  # it has answered what is no answer, and goes on
        child.kill()
        status = child.wait()
    return signal.Signals(-status).name if status < 0 else f"status {status}"
