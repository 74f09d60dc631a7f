"""A pool of processes that work on numbered chunks; results come in the order of the chunks.

A pool of its own rather than `concurrent.futures`: chunks come from a pipe as well, so that one wait watches pipe and
processes; Ctrl-C ends the processes at once; and a process that dies is noticed at once."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Generic, Self, TypeVar

import torch

from training.errors import TrainingError

C = TypeVar("C")
R = TypeVar("R")
AHEAD = 4  # chunks a process, that may be finished while an earlier one is not: a bound of the memory
POLL_S = 0.02  # between two looks at a pipe with lines that wait for more
DIED = "A process of this command has died, perhaps for lack of memory."


class WorkerPool(Generic[C, R]):
    """Calls `work` with each chunk, in `processes` processes, or in this one if there is a single one. work: picklable
    where processes cannot be forked. Close it, or use it in `with`, to end the processes."""

    def __init__(self, work: Callable[[C], R], processes: int) -> None:
        self._work = work
        self._connections: list[Connection] = []
        self._processes: list[BaseProcess] = []
        if processes > 1:
            threads = max(1, torch.get_num_threads() // processes)
            # a fork shares the weights and takes no time, but OpenMP's threads do not survive it
            cuda: bool = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
            can_fork = sys.platform == "linux" and threads == 1 and not cuda
            context = multiprocessing.get_context("fork") if can_fork else multiprocessing.get_context("spawn")
            for _ in range(processes):
                ours, theirs = context.Pipe()
                # a forked process holds copies of these ends, and would not see this process die
                inherited = [*self._connections, ours] if can_fork else []
                process = context.Process(target=_serve, args=(theirs, inherited, work, threads), daemon=True)
                with warnings.catch_warnings():  # Python 3.12 warns of every fork beside threads, OpenBLAS's too
                    warnings.simplefilter("ignore", DeprecationWarning)
                    process.start()
                theirs.close()
                self._connections.append(ours)
                self._processes.append(process)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for connection in self._connections:
            connection.close()
        for process in self._processes:
            process.kill()
            process.join()
        self._connections, self._processes = [], []

    def ordered(self, chunks: Iterator[C | None], wake: int | None = None) -> Iterator[R]:
        """The result of each chunk, in the order of the chunks. None in `chunks`: there is none yet; the file
        descriptor `wake` becomes readable when there may be one. A TrainingError of `chunks`, such as of a broken
        line, is raised after the results of the chunks before. TrainingError if a process dies."""
        if not self._processes:
            for chunk in chunks:
                if chunk is None:
                    wait([] if wake is None else [wake], POLL_S)
                else:
                    yield self._work(chunk)
            return
        idle, busy = deque(self._connections), dict[Connection, int]()
        done = dict[int, R]()
        sent = returned = 0
        exhausted = False
        failure: TrainingError | None = None
        while True:
            waiting = False  # for a pipe
            while idle and not exhausted and not waiting and sent - returned < AHEAD * len(self._processes):
                try:
                    chunk = next(chunks)
                except StopIteration:
                    exhausted = True
                    break
                except TrainingError as error:
                    failure, exhausted = error, True
                    break
                if chunk is None:
                    waiting = True
                    break
                connection = idle.popleft()
                self._send(connection, chunk)
                busy[connection] = sent
                sent += 1
            if exhausted and not busy:
                if failure is not None:
                    raise failure
                return
            watched: Sequence[Connection | int] = [*busy, *([wake] if waiting and wake is not None else [])]
            for ready in wait(watched, POLL_S if waiting else None):
                if isinstance(ready, Connection):
                    done[busy.pop(ready)] = self._received(ready)
                    idle.append(ready)
                else:
                    time.sleep(POLL_S / 4)  # lines of a slow pipe come one by one, and are worth a moment's wait
            while returned in done:
                yield done.pop(returned)
                returned += 1

    def _send(self, connection: Connection, chunk: C) -> None:
        try:
            connection.send(chunk)
        except OSError:
            raise TrainingError(DIED) from None

    def _received(self, connection: Connection) -> R:
        try:
            result, failure = connection.recv()
        except (EOFError, OSError):
            raise TrainingError(DIED) from None
        if failure is not None:
            raise failure
        return result  # type: ignore[no-any-return]


def _serve(connection: Connection, inherited: Sequence[Connection], work: Callable[[C], object], threads: int) -> None:
    """A process of the pool: answers chunks until the other end closes."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches all processes of a terminal; the first ends the others
    for other in inherited:
        other.close()
    torch.set_num_threads(threads)
    while True:
        try:
            chunk = connection.recv()
        except (EOFError, OSError):
            return
        try:
            message: tuple[object, Exception | None] = (work(chunk), None)
        except TrainingError as error:
            message = (None, TrainingError(str(error)))
        except MemoryError:
            message = (None, MemoryError())
        except Exception as error:  # of the network or this program: the first process reports it
            message = (None, RuntimeError(f"{error}\n{traceback.format_exc()}"))
        try:
            connection.send(message)
        except OSError:
            return
