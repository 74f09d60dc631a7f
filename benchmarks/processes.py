"""Contenders in processes of their own, started before the clock: the same pipes and the same clock for everybody.

A crew is one or more processes that hold the same engine; work is split between them. The clock runs from the sending
of the work to the last result, as it does between a server's front end and its device processes.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Protocol, Self

START_S = 180.0
ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Work:
    """Sentences to translate. concurrent: how many at once. limits: the most new tokens of each. forced: the weights
    never choose the end token, so that every output has the length of its limit."""

    sources: tuple[tuple[int, ...], ...]
    limits: tuple[int, ...]
    beam: int
    concurrent: int
    forced: bool = False

    def part(self, index: int, count: int) -> Work:
        """Every count-th sentence, from the index-th on."""
        return replace(
            self,
            sources=self.sources[index::count],
            limits=self.limits[index::count],
            concurrent=-(-self.concurrent // count),
        )


class Held(Protocol):
    """What processes hold, and how many of them. It crosses to them by pickle, so its module is imported there: what
    is heavy, and what the peer would not import, is imported in `open`."""

    @property
    def processes(self) -> int: ...

    def open(self) -> Any: ...


class Setting(Held, Protocol):
    """One way to run one system. `open` gives what translates `Work`; what its `translate` returns, `tokens` makes
    tokens of after the clock has stopped."""

    def tokens(self, answer: Any) -> list[list[int]]: ...


class ContenderError(RuntimeError):
    """A contender failed, ended or did not answer in time; its crew is closed."""


class Processes:
    """Processes that hold the same contender and answer its calls. Closed by `close`, by leaving `with`, and at
    exit."""

    def __init__(self, held: Held, start_s: float = START_S) -> None:
        self._processes: list[subprocess.Popen[bytes]] = []
        self._connections: list[Connection] = []
        for _ in range(held.processes):
            ours, theirs = socket.socketpair()
            with theirs:
                python = getattr(held, "python", sys.executable)  # a peer may have an environment of its own
                command = [python, "-m", "benchmarks.processes", str(theirs.fileno())]
                environment = {
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
                }
                self._processes.append(subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment))
            self._connections.append(Connection(ours.detach()))
        self._exchange([held] * held.processes, start_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _exchange(self, messages: Sequence[Any], timeout_s: float) -> list[Any]:
        """Send the messages, one to a process, and wait for all answers. ContenderError closes the crew."""
        deadline = time.monotonic() + timeout_s
        waiting = self._connections[: len(messages)]
        answers: dict[Connection, Any] = {}
        try:
            for connection, message in zip(waiting, messages, strict=True):
                connection.send(message)
            while missing := [c for c in waiting if c not in answers]:
                ready = wait(missing, max(0.0, deadline - time.monotonic()))
                if not ready:
                    raise ContenderError(f"no answer within {timeout_s:.0f} s")
                for connection in ready:
                    assert isinstance(connection, Connection)
                    answers[connection] = connection.recv()
        except (EOFError, OSError) as error:
            self.close()
            raise ContenderError(f"its process ended ({error!r})") from error
        except ContenderError:
            self.close()
            raise
        for answer in answers.values():
            if isinstance(answer, Failure):
                self.close()
                raise ContenderError(answer.reason)
        return [answers[connection] for connection in waiting]

    def ask(self, question: Any, timeout_s: float) -> Any:
        """What the one process answers to a question of its own kind: `held.open().answer(question)`."""
        (answer,) = self._exchange([question], timeout_s)
        return answer

    def close(self) -> None:
        for connection in self._connections:
            connection.close()
        for process in self._processes:
            process.kill()
            process.wait()


class Crew(Processes):
    """Processes that translate, all in one setting."""

    def __init__(self, setting: Setting, start_s: float = START_S) -> None:
        self.setting = setting
        super().__init__(setting, start_s)

    def translate(self, work: Work, timeout_s: float = 600.0) -> tuple[float, list[list[int]]]:
        """Seconds, and the tokens of each sentence."""
        count = min(len(self._connections), len(work.sources), work.concurrent)
        parts = [work.part(index, count) for index in range(count)]
        started = time.perf_counter()
        answers = self._exchange(parts, timeout_s)
        seconds = time.perf_counter() - started
        tokens: list[list[int]] = [[] for _ in work.sources]
        for index, answer in enumerate(answers):
            tokens[index::count] = self.setting.tokens(answer)
        return seconds, tokens


@dataclass(frozen=True, slots=True)
class Failure:
    reason: str


def serve(connection: Connection) -> None:
    """A crew's process: a setting comes first, then work or questions until the other end closes."""
    engine: Any = None
    while True:
        try:
            message = connection.recv()
        except (EOFError, OSError):
            os._exit(0)
        try:
            if engine is None:
                engine, answer = message.open(), None
            elif isinstance(message, Work):
                answer = engine.translate(message)
            else:
                answer = engine.answer(message)
        except Exception as error:  # it crosses to the parent, which reports it
            first = (str(error).splitlines() or [""])[0]
            connection.send(Failure(f"{type(error).__name__}: {first}"))
        else:
            connection.send(answer)


if __name__ == "__main__":
    from benchmarks import processes  # under its own name: what comes by pickle is not of __main__

    processes.serve(Connection(int(sys.argv[1])))
