from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Sequence, Set
from pathlib import Path

import pytest

from app.engine import async_engine
from app.engine.dispatch.cpu_pinning import CannotPin, Core, CoreSet, CpuTopology, pin, read_topology
from app.engine.dispatch.placement import cpu_workers, worker_config
from app.engine.interface import EngineSettings
from app.engine.metrics.collector import Metrics
from app.main import create_engine
from app.settings import Settings
from tests.app.engine.engine_thread import Running, options
from tests.app.engine.fake_process import FakeProcess, a_supervisor
from tests.request_builders import translation_request

on_linux = pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no other system pins processes")


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{text}\n")


def machine(
    root: Path, cores: Sequence[Sequence[int]], nodes: Sequence[str] = (), name: str = "core_cpus_list"
) -> Path:
    """A /sys. cores: the CPUs of each. nodes: the list of CPUs of each NUMA node."""
    system = root / "sys/devices/system"
    for core in cores:
        for cpu in core:
            write(system / f"cpu/cpu{cpu}/topology/{name}", ",".join(map(str, core)))
    for number, cpus in enumerate(nodes):
        write(system / f"node/node{number}/cpulist", cpus)
    return root


def one_socket(root: Path) -> Path:
    """8 cores of two hyperthreads, numbered as Intel's and AMD's are: CPU 8 is the other half of core 0."""
    return machine(root, [(core, core + 8) for core in range(8)], ["0-15"])


def two_sockets(root: Path) -> Path:
    """Two of 4 cores each, with hyperthreads."""
    return machine(root, [(core, core + 8) for core in range(8)], ["0-3,8-11", "4-7,12-15"])


def shares(root: Path, processes: int, allowed: Set[int], most: int = 0) -> list[str]:
    names = [f"cpu:{number}" for number in range(processes)]
    return [str(cores) for cores in pin(names, read_topology(root, allowed), most).values()]


def test_hyperthreads_of_a_core_stay_together(tmp_path: Path) -> None:
    expected = ["CPUs 0-3,8-11 (4 cores of NUMA node 0)", "CPUs 4-7,12-15 (4 cores of NUMA node 0)"]
    assert shares(one_socket(tmp_path), 2, set(range(16))) == expected
    assert shares(one_socket(tmp_path), 8, set(range(16)))[3] == "CPUs 3,11 (1 core of NUMA node 0)"


def test_processes_are_spread_over_nodes_and_none_crosses_from_one_to_the_other(tmp_path: Path) -> None:
    root, everything = two_sockets(tmp_path), set(range(16))
    assert shares(root, 2, everything) == [
        "CPUs 0-3,8-11 (4 cores of NUMA node 0)",
        "CPUs 4-7,12-15 (4 cores of NUMA node 1)",
    ]
    assert shares(root, 2, everything, most=1) == [
        "CPUs 0,8 (1 core of NUMA node 0)",
        "CPUs 4,12 (1 core of NUMA node 1)",
    ]
    # 8 cores for 1 and for 3 processes: with more than these, one of them would be of both nodes
    assert shares(root, 1, everything) == ["CPUs 0-3,8-11 (4 cores of NUMA node 0)"]
    assert shares(root, 3, everything) == [
        "CPUs 0-1,8-9 (2 cores of NUMA node 0)",
        "CPUs 2-3,10-11 (2 cores of NUMA node 0)",
        "CPUs 4-5,12-13 (2 cores of NUMA node 1)",
    ]


def test_uneven_nodes_give_every_process_the_same_number_of_cores(tmp_path: Path) -> None:
    root = machine(tmp_path, [(cpu,) for cpu in range(11)], ["0-2", "3-10"])
    assert shares(root, 2, set(range(11))) == [
        "CPUs 3-6 (4 cores of NUMA node 1)",
        "CPUs 7-10 (4 cores of NUMA node 1)",
    ]


def test_container_uses_its_own_cores_alone(tmp_path: Path) -> None:
    """Three CPUs of different cores: the other half of each belongs to another container."""
    root = two_sockets(tmp_path)
    assert read_topology(root, {3, 5, 6}).cores == (Core((3,), 0), Core((5,), 1), Core((6,), 1))
    assert shares(root, 2, {3, 5, 6}) == ["CPU 3 (1 core of NUMA node 0)", "CPU 5 (1 core of NUMA node 1)"]


def test_kernel_without_nodes_and_with_the_old_file_names(tmp_path: Path) -> None:
    root = machine(tmp_path, [(0, 1), (2, 3)], name="thread_siblings_list")
    assert shares(root, 2, {0, 1, 2, 3}) == ["CPUs 0-1 (1 core of NUMA node 0)", "CPUs 2-3 (1 core of NUMA node 0)"]


@pytest.mark.parametrize(
    ("group", "files"),
    [
        ("0::/kubepods/pod1", {"kubepods/pod1/cpu.max": "max 100000", "kubepods/cpu.max": "250000 100000"}),
        ("0::/outside/of/this/namespace", {"cpu.max": "250000 100000"}),
        (
            "5:memory:/\n4:cpu,cpuacct:/docker/1",
            {"cpu,cpuacct/docker/1/cpu.cfs_quota_us": "250000", "cpu,cpuacct/docker/1/cpu.cfs_period_us": "100000"},
        ),
    ],
)
def test_no_more_cores_are_taken_than_the_control_groups_grant_time_of(
    tmp_path: Path, group: str, files: dict[str, str]
) -> None:
    root = one_socket(tmp_path)
    write(root / "proc/self/cgroup", group)
    for name, text in files.items():
        write(root / "sys/fs/cgroup" / name, text)
    topology = read_topology(root, set(range(16)))
    assert topology.usable_cores == 2
    assert [len(cores.cores) for cores in pin(["cpu:0", "cpu:1"], topology).values()] == [1, 1]


def test_control_group_may_have_any_name(tmp_path: Path) -> None:
    root = one_socket(tmp_path)
    write(root / "proc/self/cgroup", "")
    (root / "proc/self/cgroup").write_bytes(b"0::/caf\xe9\n")
    write(root / "sys/fs/cgroup/cpu.max", "250000 100000")
    assert read_topology(root, set(range(16))).usable_cores == 2


def test_control_groups_without_a_limit(tmp_path: Path) -> None:
    root = one_socket(tmp_path)
    write(root / "proc/self/cgroup", "4:cpu:/\n0::/")
    write(root / "sys/fs/cgroup/cpu.max", "max 100000")
    write(root / "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1")
    write(root / "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000")
    assert read_topology(root, set(range(16))).usable_cores == 8


def test_more_processes_than_cores_are_refused(tmp_path: Path) -> None:
    """Two hyperthreads are one core."""
    with pytest.raises(CannotPin) as refused:
        shares(machine(tmp_path, [(0, 1), (2, 3)]), 3, {0, 1, 2, 3})
    assert str(refused.value) == (
        "PARLANCE_CPU_PINNING is true, and 3 CPU processes (PARLANCE_CPU_WORKERS) need a core each: this server may use"
        " 2 cores."
    )


def test_systems_that_cannot_pin_say_so_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CannotPin, match=r"cpu0/topology does not say which CPUs share a core; leave it false\.$"):
        read_topology(tmp_path, {0})
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    with pytest.raises(CannotPin, match=r"^PARLANCE_CPU_PINNING is true, and this system pins no process to cores"):
        read_topology()


def test_gpu_processes_are_not_pinned(tmp_path: Path) -> None:
    topology = read_topology(one_socket(tmp_path), {0, 8})
    assert pin(["cuda:0", "cuda:1"], topology) == {}
    assert pin(["cuda:0", "cpu"], topology) == {"cpu": CoreSet((Core((0, 8)),))}


def test_pinned_process_has_a_thread_for_each_core(tmp_path: Path) -> None:
    topology = read_topology(two_sockets(tmp_path), set(range(16)))
    workers = cpu_workers(0, topology.usable_cores)
    assert workers == 4
    assert cpu_workers(0, usable_cores=2) == 2
    settings, names = EngineSettings(checkpoints=tmp_path), [f"cpu:{number}" for number in range(workers)]
    assert worker_config(settings, workers, pin(names, topology)).threads == 2
    assert worker_config(settings, 1, pin(["cpu"], topology)).threads == 4
    given = EngineSettings(checkpoints=tmp_path, cpu_threads=1)
    assert worker_config(given, workers, pin(names, topology, 1)).threads == 1
    more = EngineSettings(checkpoints=tmp_path, cpu_threads=8)
    assert worker_config(more, workers, pin(names, topology, 8)).threads == 2


def test_process_that_is_started_again_gets_the_same_cores(fake: type[FakeProcess]) -> None:
    async def scene() -> None:
        pinned = {"cpu:0": CoreSet((Core((0,)),)), "cpu:1": CoreSet((Core((1,)),))}
        supervisor = a_supervisor([], ("cpu:0", "cpu:1"), pinned=pinned)
        supervisor.devices["cpu:1"].pause_s = 0.01
        supervisor.spawn_all()
        while len(fake.started) < 2:
            await asyncio.sleep(0.001)
        fake.started[1].on_death("cpu:1")
        while len(fake.started) < 3:
            await asyncio.sleep(0.001)
        assert [(process.device, process.cores) for process in fake.started[:2]] == list(pinned.items())
        assert (fake.started[2].device, fake.started[2].cores) == ("cpu:1", pinned["cpu:1"])
        await supervisor.stop()

    asyncio.run(scene())


def affinities(pid: int) -> set[frozenset[int]]:
    """Of all threads of a process."""
    return {frozenset(os.sched_getaffinity(int(thread.name))) for thread in Path(f"/proc/{pid}/task").iterdir()}


@pytest.mark.slow
@on_linux
def test_real_processes_have_a_core_each_also_after_a_crash(
    tiny_checkpoints: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topology = read_topology()
    if topology.usable_cores < 2:
        pytest.skip("it needs two cores")
    first, second = (cores.cpus for cores in topology.divide(2, 1))
    everything = os.sched_getaffinity(0)
    caplog.set_level(logging.INFO, "app")
    running = Running(options(tiny_checkpoints, cpu_workers=2, cpu_pinning=True, precision="auto"))
    try:
        devices = running.pool.supervisor.devices

        def pids() -> list[int]:
            both = [device.process.pid for device in devices.values() if device.state == "ready" and device.process]
            return [pid for pid in both if pid is not None]

        running.until(lambda: len(pids()) == 2, "not both are ready")
        before = pids()
        assert [affinities(pid) for pid in before] == [{first}, {second}]
        os.kill(before[1], signal.SIGKILL)
        running.until(lambda: len(pids()) == 2 and pids() != before, "no new process")
        assert affinities(pids()[0]) == {first}
        assert affinities(pids()[1]) == {second}
        answer = running.do(running.pool.translate([translation_request("ich möchte ein bier", "de", "en")]))[0]
        assert running.do(own_affinity()) == everything  # the event loop has pinned no process but these
    finally:
        running.close()
    assert answer.model == "tiny-de-en"
    place = f" on {topology.divide(2, 1)[1]}"
    assert [text.endswith(place) for text in caplog.messages if text.startswith("cpu:1 runs in process")] == [True] * 2


@pytest.mark.slow
@on_linux
def test_process_whose_core_is_gone_runs_on_the_others(
    tiny_checkpoints: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after the cpuset of a running container was changed."""
    gone = CpuTopology((Core((1023,), 7),))
    monkeypatch.setattr(async_engine, "read_topology", lambda: gone)
    running = Running(options(tiny_checkpoints, cpu_workers=1, cpu_pinning=True))
    try:
        running.ready()
        (device,) = running.pool.supervisor.devices.values()
        assert device.process is not None
        assert device.process.pid is not None
        assert affinities(device.process.pid) == {frozenset(os.sched_getaffinity(0))}
    finally:
        running.close()
    assert "the process of cpu is not pinned to CPU 1023 (1 core of NUMA node 7): Invalid argument" in caplog.messages


async def own_affinity() -> Set[int]:
    return os.sched_getaffinity(0)


def test_server_that_cannot_pin_ends_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse() -> CpuTopology:
        raise CannotPin("It cannot.")

    monkeypatch.setattr(async_engine, "read_topology", refuse)
    with pytest.raises(SystemExit) as ended:
        create_engine(Settings(cpu_pinning=True, devices="cpu"), Metrics())
    assert (ended.value.code, capsys.readouterr().err) == (2, "Parlance cannot start: It cannot.\n")
