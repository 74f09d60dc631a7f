"""PyTorch is asked for its GPUs in a process of its own. A folder in front of the real torch stands for builds of it
and for drivers that this machine does not have."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from app.engine.dispatch.placement import CudaReport, cuda_report, device_environment, has_trace, visible_entries

CPU_BUILD = "__version__ = '2.13.0+cpu'\nclass version:\n    cuda = None\n"
BUILD = """
import os
__version__ = "2.13.0+cu130"
float32 = None
class version:
    cuda = "13.0"
class _Properties:
    name, major, minor = "NVIDIA H100 80GB HBM3", 9, 0
class _Number:
    def __init__(self, value):
        self.value = value
    def __add__(self, other):
        return _Number(self.value + other)
    def sum(self):
        return _Number(2 * self.value)
    def item(self):
        return self.value
def ones(size, device):
    {ones}
    return _Number(1.0)
class cuda:
    @staticmethod
    def init():
        {init}
    @staticmethod
    def device_count():
        named = os.environ.get("CUDA_VISIBLE_DEVICES", "0,1").split(",")
        return 1 if named[0].startswith("MIG-") else len(named)
    @staticmethod
    def get_device_properties(index):
        return _Properties
    @staticmethod
    def mem_get_info(index):
        return 60 << 30, 80 << 30
"""


def torch_of(folder: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    (folder / "torch.py").write_text(source, encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])


def build(init: str = "pass", ones: str = "pass") -> str:
    return BUILD.format(init=init, ones=ones)


def ask(folder: Path, monkeypatch: pytest.MonkeyPatch, source: str, timeout_s: float = 20.0) -> CudaReport:
    torch_of(folder, monkeypatch, source)
    return cuda_report(timeout_s)


@pytest.fixture(autouse=True)
def _no_devices_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.delenv(name, raising=False)


def test_every_gpu_is_reported_with_its_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = ask(tmp_path, monkeypatch, build())
    assert list(found.gpus) == [0, 1]
    assert (found.gpus[1].free_bytes, found.gpus[1].total_bytes, found.problem) == (60 << 30, 80 << 30, None)
    shown = "cuda:0 NVIDIA H100 80GB HBM3 (compute capability 9.0, 60.0 of 80.0 GiB free)"
    assert str(found).startswith(shown)
    assert "PyTorch 2.13.0+cu130" in str(found)


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (CPU_BUILD, "PyTorch 2.13.0+cpu is built without CUDA"),
        (
            build(
                'raise RuntimeError("The NVIDIA driver on your system is too old (found version 12020). Please update'
                ' your GPU driver by downloading one.")'
            ),
            "the NVIDIA driver on your system is too old (found version 12020)",
        ),
        (
            build(
                'raise RuntimeError("Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions?'
                ' Error 803: system has unsupported display driver / cuda driver combination")'
            ),
            "error 803: system has unsupported display driver / cuda driver combination",
        ),
        (build("os._exit(0)"), "the process that asked PyTorch for its GPUs gave no report"),
        (build("os.kill(os.getpid(), 11)"), "the process that asked PyTorch for its GPUs was ended by signal 11"),
        ("print('{ no JSON')\nraise SystemExit(0)", "the process that asked PyTorch for its GPUs gave no report"),
        (
            "raise ImportError('libcudart.so.13: cannot open shared object file')",
            "the process that asked PyTorch for its GPUs gave no report"
            " (ImportError: libcudart.so.13: cannot open shared object file)",
        ),
    ],
)
def test_a_reason_is_given_where_there_is_no_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, problem: str
) -> None:
    found = ask(tmp_path, monkeypatch, source)
    assert found.gpus == {}
    assert found.problem == problem


def test_a_gpu_without_code_for_it_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    message = "CUDA error: no kernel image is available for execution on the device"
    found = ask(tmp_path, monkeypatch, build(ones=f'if device == "cuda:0": raise RuntimeError({message!r})'))
    assert list(found.gpus) == [1]
    assert found.problem == f"cuda:0, NVIDIA H100 80GB HBM3, cannot be used: {message}"


def test_a_driver_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = time.monotonic()
    found = ask(tmp_path, monkeypatch, build("import time; time.sleep(600)"), timeout_s=1)
    assert time.monotonic() - started < 60
    assert found.problem == "PyTorch did not report its GPUs within 1 s"


def test_several_mig_instances_are_reported_by_a_process_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-a,MIG-b,MIG-c")
    assert list(ask(tmp_path, monkeypatch, build()).gpus) == [0, 1, 2]


def test_an_empty_list_of_devices_needs_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("", "-1", "none"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
        assert cuda_report(0.0) == CudaReport(problem="CUDA_VISIBLE_DEVICES names no device")


@pytest.mark.parametrize(
    ("outer", "name", "visible"),
    [
        (None, "cuda:0", "0"),
        (None, "cuda:3", "3"),
        ("2,5", "cuda:1", "5"),
        (" 2 , 5", "cuda:0", "2"),
        ("GPU-8932f937,GPU-1", "cuda:1", "GPU-1"),
        ("MIG-GPU-8932f937/1/0,MIG-2", "cuda:0", "MIG-GPU-8932f937/1/0"),
        ("4,-1,5", "cuda:1", "-1"),  # CUDA ignores what follows an invalid entry
        ("4", "cuda:1", "-1"),
    ],
)
def test_a_process_sees_one_device_alone(outer: str | None, name: str, visible: str) -> None:
    environment = {"PATH": "/bin"} if outer is None else {"CUDA_VISIBLE_DEVICES": outer}
    result = device_environment(name, environment)
    assert result["CUDA_VISIBLE_DEVICES"] == visible
    assert result["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"


def test_a_cpu_process_and_a_chosen_order_are_left_alone() -> None:
    assert device_environment("cpu:1", {"A": "b"}) == {"A": "b"}
    assert device_environment("cuda:0", {"CUDA_DEVICE_ORDER": "FASTEST_FIRST"})["CUDA_DEVICE_ORDER"] == "FASTEST_FIRST"
    assert visible_entries({}) is None


@pytest.mark.parametrize(
    ("file", "trace"),
    [("nvidia0", True), ("nvidiactl", True), ("dxg", True), ("nvhost-gpu", True), ("nvme0", False), ("nvram", False)],
)
def test_device_files_hint_at_a_gpu(tmp_path: Path, file: str, trace: bool) -> None:
    (tmp_path / file).touch()
    assert has_trace(tmp_path) == trace
