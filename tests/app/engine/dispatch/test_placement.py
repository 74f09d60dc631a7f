from __future__ import annotations

import pytest

from app.engine.dispatch import placement
from app.engine.dispatch.placement import cpu_workers, device_names, threads_each, torch_device


def test_devices_are_named_by_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    assert device_names("cuda:0, cpu,cpu") == ["cuda:0", "cpu"]
    monkeypatch.setattr(placement, "cuda_device_count", lambda: 2)
    assert device_names("auto") == ["cuda:0", "cuda:1"]
    assert device_names("auto", cpu_workers=2) == ["cuda:0", "cuda:1"]
    monkeypatch.setattr(placement, "cuda_device_count", lambda: 0)
    assert device_names("auto") == ["cpu"]


def test_several_cpu_workers_are_devices_of_their_own_on_one_cpu() -> None:
    names = device_names("cuda:1,cpu", cpu_workers=3)
    assert names == ["cuda:1", "cpu:0", "cpu:1", "cpu:2"]
    assert [torch_device(name) for name in names] == ["cuda:1", "cpu", "cpu", "cpu"]


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
