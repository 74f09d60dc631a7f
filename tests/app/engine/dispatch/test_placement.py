from __future__ import annotations

import logging
import math
import os
from pathlib import Path

import pytest

from app.engine.dispatch import placement
from app.engine.dispatch.placement import (
    CudaReport,
    Gpu,
    NoDevice,
    cores,
    cpu_quota,
    cpu_workers,
    place,
    threads_each,
    torch_device,
)

NO_CUDA = CudaReport("2.13.0+cpu", problem="PyTorch 2.13.0+cpu is built without CUDA")


def reaching(*numbers: int, problem: str | None = None) -> CudaReport:
    gpus = {number: Gpu(number, "A100", "8.0", 40 << 30, 39 << 30) for number in numbers}
    return CudaReport("2.13.0", "13.0", "580.65", gpus, problem)


def placed(setting: str, found: CudaReport, workers: int = 1, *, trace: bool = True) -> list[str]:
    return place(setting, workers, report=lambda timeout_s: found, trace=lambda: trace).names


def test_auto_is_every_gpu_that_pytorch_reaches_or_the_cpu() -> None:
    assert placed("auto", reaching(0, 1)) == ["cuda:0", "cuda:1"]
    assert placed("auto", reaching(0, 1), workers=2) == ["cuda:0", "cuda:1"]
    assert placed("auto", reaching(1, problem="cuda:0, K80, cannot be used: CUDA error")) == ["cuda:1"]
    assert placed("auto", NO_CUDA) == ["cpu"]
    assert placed("auto", NO_CUDA, workers=2) == ["cpu:0", "cpu:1"]


def test_a_server_that_falls_back_to_the_cpu_says_why(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "app"):
        result = place("auto", report=lambda timeout_s: NO_CUDA, trace=lambda: True)
    expected = "This server runs on the CPU: PyTorch 2.13.0+cpu is built without CUDA."
    assert result.problem == expected
    assert caplog.messages == [expected]


def test_pytorch_is_not_asked_where_nothing_hints_at_a_gpu() -> None:
    def never(timeout_s: float) -> CudaReport:
        raise AssertionError("a process was started")

    result = place("auto", report=never, trace=lambda: False)
    assert (result.names, result.problem) == (["cpu"], None)
    assert place("cpu", report=never, trace=lambda: True).names == ["cpu"]


def test_a_list_is_taken_as_it_is_if_one_of_its_devices_works() -> None:
    assert placed("cuda:0, cpu,cpu", reaching(0)) == ["cuda:0", "cpu"]
    assert placed("cuda:1,cuda:0", reaching(0, 1), trace=False) == ["cuda:1", "cuda:0"]
    result = place("cuda:0,cuda:1", report=lambda timeout_s: reaching(0))
    assert result.names == ["cuda:0", "cuda:1"]
    assert result.problem == "PARLANCE_DEVICES is cuda:0,cuda:1, and cuda:1 cannot be used: PyTorch reaches cuda:0."


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (NO_CUDA, "PyTorch 2.13.0+cpu is built without CUDA"),
        (reaching(0, 1), "PyTorch reaches cuda:0, cuda:1"),
        (
            CudaReport(problem="PyTorch did not report its GPUs within 60 s"),
            "PyTorch did not report its GPUs within 60 s",
        ),
    ],
)
def test_a_list_without_any_usable_device_is_refused(found: CudaReport, reason: str) -> None:
    with pytest.raises(NoDevice) as refused:
        placed("cuda:4", found)
    assert str(refused.value) == f"PARLANCE_DEVICES is cuda:4: {reason}."


def test_several_cpu_workers_are_devices_of_their_own_on_one_cpu() -> None:
    names = placed("cuda:1,cpu", reaching(0, 1), workers=3)
    assert names == ["cuda:1", "cpu:0", "cpu:1", "cpu:2"]
    assert [torch_device(name) for name in names] == ["cuda:0", "cpu", "cpu", "cpu"]  # of which each process sees one


def test_workers_share_the_cores_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "cores", lambda: 8)
    shares = {workers: threads_each(0, workers) for workers in (1, 2, 3, 20)}
    assert shares == {1: 0, 2: 4, 3: 2, 20: 1}
    assert threads_each(3, 4) == 3


def test_by_default_there_is_a_worker_for_each_of_few_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    result = {}
    for count in (1, 2, 64):
        monkeypatch.setattr(placement, "cores", lambda count=count: count)
        result[count] = cpu_workers(0), cpu_workers(7)
    assert result == {1: (1, 7), 2: (2, 7), 64: (4, 7)}


@pytest.mark.parametrize(
    ("quota", "expected"), [(math.inf, (8, 4, 0, 2)), (16.0, (8, 4, 0, 2)), (3.5, (3, 3, 3, 1)), (0.25, (1, 1, 1, 1))]
)
def test_a_containers_limit_bounds_cores_workers_and_threads(
    monkeypatch: pytest.MonkeyPatch, quota: float, expected: tuple[int, int, int, int]
) -> None:
    """With one worker and no limit torch chooses its threads itself."""
    monkeypatch.setattr(placement, "cpu_quota", lambda: quota)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
    assert (cores(), cpu_workers(0), threads_each(0, 1), threads_each(0, 4)) == expected


@pytest.mark.parametrize(
    ("group", "files", "expected"),
    [
        (b"0::/kubepods/pod1", {"kubepods/pod1/cpu.max": "max 100000", "kubepods/cpu.max": "250000 100000"}, 2.5),
        (b"0::/outside/of/this/namespace", {"cpu.max": "250000 100000"}, 2.5),
        (
            b"5:memory:/\n4:cpu,cpuacct:/docker/1",
            {"cpu,cpuacct/docker/1/cpu.cfs_quota_us": "250000", "cpu,cpuacct/docker/1/cpu.cfs_period_us": "100000"},
            2.5,
        ),
        (b"0::/caf\xe9\n", {"cpu.max": "250000 100000"}, 2.5),  # a group may have any name
        (
            b"4:cpu:/\n0::/",
            {"cpu.max": "max 100000", "cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"},
            math.inf,
        ),
    ],
)
def test_limit_of_control_groups_is_the_lowest_of_all_levels(
    tmp_path: Path, group: bytes, files: dict[str, str], expected: float
) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_bytes(group)
    for name, text in files.items():
        file = tmp_path / "sys/fs/cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
    assert cpu_quota(tmp_path) == expected
