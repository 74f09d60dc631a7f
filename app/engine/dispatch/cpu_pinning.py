"""Cores for each CPU device process: the topology of the machine, and its division among processes.

A core is a physical one, with its hyperthreads. The cores of one process are of one NUMA node, because a process has
its own copy of all weights, which Linux places on the node of the thread that first writes them: a process that never
leaves its node reads all weights from local memory. Processes are spread over the nodes, so that few of them share the
memory bandwidth of one. The front end is not pinned: where every core is given away, it could have none of its own, and
where some are left, the system finds them idle."""

from __future__ import annotations

import contextlib
import math
import os
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


class CannotPin(ValueError):
    """PARLANCE_CPU_PINNING is true, and processes cannot be pinned as it asks. The message is a sentence."""


@dataclass(frozen=True, slots=True)
class Core:
    """cpus: the numbers of its hyperthreads that this process may use, in ascending order."""

    cpus: tuple[int, ...]
    node: int = 0


@dataclass(frozen=True, slots=True)
class CoreSet:
    """The cores of one process; at least one, all of one NUMA node."""

    cores: tuple[Core, ...]

    @property
    def cpus(self) -> frozenset[int]:
        return frozenset(cpu for core in self.cores for cpu in core.cpus)

    def __str__(self) -> str:
        """Such as "CPUs 0-3,8-11 (4 cores of NUMA node 0)"."""
        cpus, cores = "CPU" if len(self.cpus) == 1 else "CPUs", "core" if len(self.cores) == 1 else "cores"
        return f"{cpus} {_cpu_list(self.cpus)} ({len(self.cores)} {cores} of NUMA node {self.cores[0].node})"


@dataclass(frozen=True, slots=True)
class CpuTopology:
    """cores: the physical cores on which this process may run, in the order of their first CPUs. quota: the CPU limit
    of its control groups, in CPUs."""

    cores: tuple[Core, ...]
    quota: float = math.inf

    @property
    def usable_cores(self) -> int:
        return min(len(self.cores), max(1, int(min(self.quota, len(self.cores)))))

    def divide(self, processes: int, most: int = 0) -> list[CoreSet]:
        """As many cores for each process as all of them can have on one node, and at most `most`, if it is not 0; the
        others are left over. CannotPin if there are more processes than usable cores."""
        if processes > (count := self.usable_cores):
            raise CannotPin(
                f"PARLANCE_CPU_PINNING is true, and {processes} CPU processes (PARLANCE_CPU_WORKERS) need a core each:"
                f" this server may use {count} core{'s' * (count != 1)}."
            )
        by_node = Counter(core.node for core in self.cores)
        each = min(self.usable_cores // processes, most or self.usable_cores)
        while sum(count // each for count in by_node.values()) < processes:
            each -= 1
        free = {node: [core for core in self.cores if core.node == node] for node in sorted(by_node)}
        sets = []
        for _ in range(processes):
            roomiest = max(free.values(), key=len)  # of equal nodes the first
            sets.append(CoreSet(tuple(roomiest[:each])))
            del roomiest[:each]
        return sorted(sets, key=lambda chosen: chosen.cores[0].node)


def read_topology(root: Path = Path("/"), allowed: Set[int] | None = None) -> CpuTopology:
    """The cores of this machine that this process may use, as Linux describes them in the file systems below `root`.
    allowed: CPU numbers; None: the affinity of the calling thread, which cpusets of containers bound. CannotPin on
    other systems, and where Linux does not say which CPUs share a core."""
    if allowed is None:
        if not hasattr(os, "sched_getaffinity"):
            raise CannotPin(
                "PARLANCE_CPU_PINNING is true, and this system pins no process to cores, as Linux does; leave it false."
            )
        allowed = os.sched_getaffinity(0)
    system = root / "sys/devices/system"
    node_of = {
        cpu: int(folder.name.removeprefix("node"))
        for folder in system.glob("node/node[0-9]*")
        for cpu in _read_cpus(folder / "cpulist") & allowed
    }
    cores = set[Core]()
    for cpu in allowed:
        folder = system / f"cpu/cpu{cpu}/topology"
        siblings = _read_cpus(folder / "core_cpus_list") or _read_cpus(folder / "thread_siblings_list")  # before 5.3
        if cpu not in siblings:
            raise CannotPin(
                f"PARLANCE_CPU_PINNING is true, and {folder} does not say which CPUs share a core; leave it false."
            )
        cores.add(Core(tuple(sorted(siblings & allowed)), node_of.get(cpu, 0)))
    return CpuTopology(tuple(sorted(cores, key=lambda core: core.cpus)), cpu_quota(root))


def pin(names: Sequence[str], topology: CpuTopology, cpu_threads: int = 0) -> dict[str, CoreSet]:
    """The cores of each CPU process among the device processes `names`. cpu_threads: of each; 0: as many as cores.
    CannotPin if there are too few cores."""
    processes = [name for name in names if name.startswith("cpu")]
    if not processes:
        return {}
    return dict(zip(processes, topology.divide(len(processes), cpu_threads), strict=True))


@contextmanager
def affinity(cpus: Set[int]) -> Iterator[None]:
    """Pins the calling thread within the context. A process that it starts there is born pinned, so that the libraries
    which that process imports count its cores alone, and so that none of their threads runs elsewhere. OSError if no
    CPU of these may be used any more."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _read_cpus(file: Path) -> Set[int]:
    """Of a list such as "0-3,8"; empty where the file is missing."""
    try:
        parts = file.read_text().strip().split(",")
    except OSError:
        return set()
    bounds = [part.partition("-") for part in parts if part]
    return {cpu for first, _, last in bounds for cpu in range(int(first), int(last or first) + 1)}


def _cpu_list(cpus: Set[int]) -> str:
    """Such as "0-3,8", as `taskset -c` and Linux write it."""
    spans = list[tuple[int, int]]()
    for cpu in sorted(cpus):
        if spans and cpu == spans[-1][1] + 1:
            spans[-1] = spans[-1][0], cpu
        else:
            spans.append((cpu, cpu))
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def cpu_quota(root: Path = Path("/")) -> float:
    """The CPU limit of this process' control groups, in CPUs: the lowest of all levels; infinity without one."""
    quota, mounts = math.inf, root / "sys/fs/cgroup"
    with contextlib.suppress(OSError):
        for line in os.fsdecode((root / "proc/self/cgroup").read_bytes()).splitlines():  # of any bytes
            _, controllers, path = line.split(":", 2)  # "0::/a/b" of version 2, "4:cpu,cpuacct:/a/b" of version 1
            if controllers and "cpu" not in controllers.split(","):
                continue
            group = Path(path.lstrip("/"))
            for level in (group, *group.parents):
                quota = min(quota, _quota_of(mounts / controllers / level))
    return quota


def _quota_of(group: Path) -> float:
    with contextlib.suppress(OSError, ValueError):  # ValueError: "max", no limit
        time_us, period_us = (group / "cpu.max").read_text().split()
        return int(time_us) / int(period_us)
    with contextlib.suppress(OSError, ValueError):
        time_us, period_us = ((group / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        return int(time_us) / int(period_us) if int(time_us) > 0 else math.inf
    return math.inf
