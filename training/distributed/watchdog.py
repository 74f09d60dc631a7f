"""How a process of a group ends where another has died, or torchrun tells it to: within seconds, with one sentence
of one process on the terminal, wherever it stands."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from types import FrameType

from torch import distributed
from torch.distributed.distributed_c10d import Store

CHECK_IN_S = 3.0  # for survivors to say that they live; they notice a death at about the same time
GRACE_S = 6.0  # for the main thread to end by itself before it is left where it hangs
LAST_STEPS_S = 0.5  # and so much where somebody has already said why
SIGTERM_EXIT_CODE = 128 + signal.SIGTERM


class Terminated(BaseException):
    """torchrun has told this process to end."""


def is_peer_failure(error: BaseException) -> bool:
    """Whether a collective has failed because of the others."""
    if isinstance(error, Terminated | distributed.DistError):
        return True
    # gloo raises a bare RuntimeError that names its own source file
    return isinstance(error, RuntimeError) and ("gloo" in str(error) or "Connection closed by peer" in str(error))


class Watchdog:
    """store: a connection of its own to the group's key-value store, since the process's other may be blocked."""

    def __init__(self, store: Store, rank: int, hosts: list[str]) -> None:
        self.store, self.rank, self.hosts = store, rank, hosts
        self.lock = threading.Lock()

    def first_to_speak(self) -> bool:
        """True for one process of the group and one time."""
        try:
            return bool(self.store.add("spoken", 1) == 1)
        except distributed.DistError:  # the process that kept it is dead: better two sentences than none
            return True

    def _spoken(self) -> bool:
        try:
            return self.store.check(["spoken"])
        except distributed.DistError:
            return False

    def say(self, sentence: str) -> None:
        if self.first_to_speak():
            print(sentence, file=sys.stderr, flush=True)

    def say_who_died(self) -> None:
        with self.lock:
            if not self._spoken():
                # the dead may have left a progress bar without an end of line
                self.say(f"\nerror: {_failure_sentence(self._missing(), self.hosts)}")

    def _missing(self) -> list[int]:
        """Ranks that do not check in."""
        keys = {rank: f"alive/{rank}" for rank in range(len(self.hosts))}
        try:
            self._check_in()
            until = time.monotonic() + CHECK_IN_S
            while time.monotonic() < until:
                missing = [rank for rank, key in keys.items() if not self.store.check([key])]
                if not missing:
                    break
                time.sleep(0.05)
        except distributed.DistError:
            return []
        return missing

    def _check_in(self) -> None:
        self.store.set(f"alive/{self.rank}", "")

    def watch(self) -> None:
        """From now on SIGTERM ends this process, even where the main thread waits for a GPU that waits for a peer."""
        reader, writer = socket.socketpair()
        writer.setblocking(False)
        signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._end)
        threading.Thread(target=self._await_end, args=(reader, writer), daemon=True).start()

    def _end(self, number: int, frame: FrameType | None) -> None:
        if not self.lock.locked():  # else it is about to end, and wants to finish its sentence
            raise Terminated

    def _await_end(self, reader: socket.socket, writer: socket.socket) -> None:
        while reader.recv(1)[0] != signal.SIGTERM:
            pass
        with contextlib.suppress(distributed.DistError):
            self._check_in()  # the main thread may be at work for longer than the others wait
        until = time.monotonic() + GRACE_S
        while time.monotonic() < until and not self._spoken():
            time.sleep(0.1)
        time.sleep(LAST_STEPS_S)
        self.say_who_died()
        os._exit(SIGTERM_EXIT_CODE)


def _failure_sentence(missing: list[int], hosts: list[str]) -> str:
    starts, most = (int(os.environ.get(f"TORCHELASTIC_{name}", "0")) for name in ("RESTART_COUNT", "MAX_RESTARTS"))
    way_on = "torchrun starts it again" if starts < most else "go on with --resume where it had saved"
    if not missing:
        return f"The run has been stopped; {way_on}."
    who = " and ".join(f"rank {rank} (on {hosts[rank]})" for rank in missing)
    have = "has" if len(missing) == 1 else "have"
    return f"The run has stopped, because {who} of {len(hosts)} processes {have} died; {way_on}."
