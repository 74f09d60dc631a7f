"""Machines of a network, as far as torchrun and gloo can tell: two network namespaces of this machine with a cable
between them. Needs root, the program `ip` and a kernel that makes namespaces."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

INTERFACE = "eth0"


@dataclass(frozen=True)
class Machine:
    """namespace: its name; folder: the working directory of its processes."""

    namespace: str
    address: str
    folder: Path

    def start(self, command: Sequence[str | Path], **environment: str) -> subprocess.Popen[bytes]:
        """Appends the output to the files `out` and `errors` of the folder."""
        with (self.folder / "out").open("ab") as out, (self.folder / "errors").open("ab") as errors:
            return subprocess.Popen(
                ["ip", "netns", "exec", self.namespace, *command],
                cwd=self.folder,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=errors,
            )

    def kill(self) -> None:
        """All of its processes, as they die with a machine; the kernel closes their connections."""
        for pid in _ip("netns", "pids", self.namespace).split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


def why_none() -> str:
    """Why this machine cannot make network namespaces, or "" where it can."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "network namespaces need the program ip (Debian: iproute2)"
    trial = f"parlance-{os.getpid()}"
    done = subprocess.run(["ip", "netns", "add", trial], capture_output=True, text=True, check=False)
    if done.returncode:
        return f"ip netns add: {done.stderr.strip()}"
    _ip("netns", "del", trial)
    return ""


@contextlib.contextmanager
def network(folders: dict[str, Path]) -> Iterator[list[Machine]]:
    """Two machines: the folder of each by its address."""
    machines = [Machine(f"parlance-{os.getpid()}-{n}", *given) for n, given in enumerate(folders.items())]
    with contextlib.ExitStack() as stack:
        for machine in machines:
            _ip("netns", "add", machine.namespace)
            stack.callback(_ip, "netns", "del", machine.namespace)  # its end of the cable goes with it
            stack.callback(machine.kill)
        first, second = (machine.namespace for machine in machines)
        _ip("-n", first, "link", "add", INTERFACE, "type", "veth", "peer", "name", INTERFACE, "netns", second)
        for machine in machines:
            _ip("-n", machine.namespace, "addr", "add", f"{machine.address}/24", "dev", INTERFACE)
            for interface in ("lo", INTERFACE):
                _ip("-n", machine.namespace, "link", "set", interface, "up")
        yield machines


def _ip(*arguments: str) -> str:
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout
