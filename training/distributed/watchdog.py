"""How a process of a run stops: on SIGINT and SIGTERM, and within seconds of the death of a peer.

The first signal asks the loop to finish the running update, save and stop; a second one ends the process as it would
without this module. A process of a group ends even if its main thread is blocked, and one of them prints why."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from types import FrameType
from typing import Any

from torch import distributed
from torch.distributed.distributed_c10d import Store

CHECK_IN_S = 3.0  # for survivors to check in; they notice a death at about the same time
GRACE_S = 6.0  # for the main thread to end by itself before the process exits
SAVING_S = 25.0  # the same if all processes are alive, and save a last snapshot; torchrun kills after 30
LAST_STEPS_S = 0.5  # the same, after a process has printed the reason
SIGTERM_EXIT_CODE = 128 + signal.SIGTERM


class Terminated(BaseException):
    """torchrun has sent SIGTERM to this process."""


def is_peer_failure(error: BaseException) -> bool:
    """Whether a collective failed because of another process."""
    if isinstance(error, Terminated | distributed.DistError):
        return True
    # gloo raises a bare RuntimeError that names its own source file
    return isinstance(error, RuntimeError) and ("gloo" in str(error) or "Connection closed by peer" in str(error))


class Watchdog:
    """Watches for dead peers. store: a second connection to the group's store, as the main one may be blocked."""

    def __init__(self, store: Store, rank: int, hosts: list[str]) -> None:
        self.store, self.rank, self.hosts = store, rank, hosts
        self.lock = threading.Lock()

    def print_once(self, sentence: str) -> None:
        """Prints `sentence` unless a process of the group has already printed one."""
        try:
            first = self.store.add("spoken", 1) == 1
        except distributed.DistError:  # the process that hosted the store is dead: two sentences are better than none
            first = True
        if first:
            print(sentence, file=sys.stderr, flush=True)

    def report_failure(self) -> None:
        """Prints the dead ranks, unless a process has already printed why the run ends."""
        with self.lock:
            if not self._has_printed():
                missing = self._missing_ranks()
                restarts, most = (
                    int(os.environ.get(f"TORCHELASTIC_{name}", "0")) for name in ("RESTART_COUNT", "MAX_RESTARTS")
                )
                way_on = "torchrun starts it again" if restarts < most else "go on with --resume where it had saved"
                sentence = f"The run has been stopped; {way_on}."
                if missing:
                    ranks = " and ".join(f"rank {rank} (on {self.hosts[rank]})" for rank in missing)
                    have = f"of {len(self.hosts)} processes {'has' if len(missing) == 1 else 'have'} died"
                    sentence = f"The run has stopped, because {ranks} {have}; {way_on}."
                # a dead process may have left an unfinished progress bar
                self.print_once(f"\nerror: {sentence}")

    def watch(self) -> None:
        """Makes SIGTERM end this process, even while the main thread waits for a GPU that waits for a peer."""
        reader, writer = socket.socketpair()
        writer.setblocking(False)
        signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._on_sigterm)
        threading.Thread(target=self._await_sigterm, args=(reader, writer), daemon=True).start()

    def _has_printed(self) -> bool:
        try:
            return self.store.check(["spoken"])
        except distributed.DistError:
            return False

    def _missing_ranks(self) -> list[int]:
        keys = {rank: f"alive/{rank}" for rank in range(len(self.hosts))}
        try:
            self.store.set(f"alive/{self.rank}", "")
            until = time.monotonic() + CHECK_IN_S
            while time.monotonic() < until:
                missing = [rank for rank, key in keys.items() if not self.store.check([key])]
                if not missing:
                    break
                time.sleep(0.05)
        except distributed.DistError:
            return []
        return missing

    def _all_alive(self) -> bool:
        """Whether every process has received the signal too, and none has ended: a stop that somebody asked for."""
        missing = self._missing_ranks()
        with contextlib.suppress(distributed.DistError):
            return not missing and self.store.check([f"alive/{self.rank}"])
        return False

    def _on_sigterm(self, number: int, frame: FrameType | None) -> None:
        if not self.lock.locked():  # a locked process is about to exit and finishes printing first
            raise Terminated

    def _await_sigterm(self, reader: socket.socket, writer: socket.socket) -> None:
        while reader.recv(1)[0] != signal.SIGTERM:
            pass
        started = time.monotonic()
        # checks in as well: the main thread may be busy for longer than CHECK_IN_S
        until = started + (SAVING_S if self._all_alive() else GRACE_S)
        while time.monotonic() < until and not self._has_printed():
            time.sleep(0.1)
        time.sleep(LAST_STEPS_S)
        self.report_failure()
        os._exit(SIGTERM_EXIT_CODE)


STOPPING = (
    "\nStopping: the running update or validation is finished and saved first; once more ends the run at once, and what"
    " is younger than its last snapshot is lost.\n"
)


class Stopped(BaseException):
    """The loop has stopped because of a signal, after a snapshot. update, epoch: of the snapshot; finished epochs."""

    def __init__(self, number: int, update: int, epoch: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name} after update {update:,}")
        self.number, self.update, self.epoch = number, update, epoch


class StopSignals:
    """Installs the handlers while entered; without effect outside the main thread. requested: the number of the first
    signal, or 0. announces: whether this process tells the user (rank 0 of a group)."""

    def __init__(self, *, announces: bool) -> None:
        self.requested = 0
        self.announces = announces
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) is not signal.SIG_IGN:  # such as of a shell's background job
                    self._previous[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if not self.requested:
            self.requested = number
            if self.announces:
                # a handler must not use a stream whose buffer the interrupted code may be writing
                os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, STOPPING.encode())
            return
        previous = self._previous[number]
        self.__exit__()
        if callable(previous):
            previous(number, frame)
        else:
            signal.raise_signal(number)
