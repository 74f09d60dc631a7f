"""A machine on which torch.compile cannot work trains eagerly, says why, and computes what it would without it."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.training.counting import looping
from tests.training.loop.test_backend_note import backend_line
from tests.training.loop.test_task_losses import translation_task
from tests.training.runs import timeless, translate
from training.config.run_config import LoopConfig
from training.distributed.process_group import Workers
from training.kernels import torch_compile
from training.kernels.torch_compile import missing_for_compile
from training.kernels.training_backend import TranslatorBackend
from training.report.progress_report import ProgressReport

pytestmark = [
    pytest.mark.usefixtures("no_curves"),
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),  # PyTorch's own, when it loads its compiler
]
# "auto" is bf16 on CPUs that have it
ON, OFF = (LoopConfig(ema_decay=0.9, precision="fp32", compile=choice) for choice in ("on", "off"))
NO_COMPILER = "there is no compiler g++ (environment variable CXX)"


@pytest.fixture(autouse=True)
def _pytorch_trains(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our kernels draw dropout in another way than PyTorch's operators, compiled or not."""
    monkeypatch.setenv("PARLANCE_NATIVE", "none")
    for name in ("CC", "CXX", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    written: list[str] = []
    monkeypatch.setattr(ProgressReport, "note", lambda report, text: written.append(text))
    return written


def without_compilers(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("PATH", str(folder))


@pytest.mark.parametrize(("device", "wanted"), [("cpu", NO_COMPILER), ("cuda", "there is no compiler gcc or clang (")])
def test_a_missing_compiler_is_found_before_the_run(
    device: str, wanted: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(torch_compile, "find_spec", lambda name: name)
    without_compilers(monkeypatch, tmp_path)
    assert missing_for_compile(device).startswith(wanted)
    program = tmp_path / "own-compiler"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("CC" if device == "cuda" else "CXX", "own-compiler --fast")
    assert not missing_for_compile(device).startswith("there is no compiler")


def test_each_missing_part_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CXX", "sh")  # any program will do
    monkeypatch.setenv("CC", "sh")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    headers = tmp_path / "include"
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(headers))
    assert missing_for_compile("cpu").startswith(f"Python's headers are not installed ({headers}/Python.h")
    headers.mkdir()
    (headers / "Python.h").touch()
    assert missing_for_compile("cpu") == ""
    with monkeypatch.context() as patch:
        patch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=os.ST_NOEXEC))
        noexec = f"its cache {tmp_path}/cache is on a file system mounted noexec: name another folder in"
        assert missing_for_compile("cpu") == f"{noexec} TORCHINDUCTOR_CACHE_DIR"
    (tmp_path / "file").touch()
    monkeypatch.setattr(torch_compile, "find_spec", lambda name: name)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "file" / "triton"))
    unwritable = f"its cache {tmp_path}/file/triton cannot be written (Not a directory): name another folder in"
    assert missing_for_compile("cuda") == f"{unwritable} TRITON_CACHE_DIR"
    monkeypatch.setattr(torch_compile, "find_spec", lambda name: None)
    assert missing_for_compile("cuda") == "this PyTorch comes without Triton"


def test_a_run_without_a_compiler_is_the_eager_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    translate(tmp_path / "off", 1, loop=OFF)
    without_compilers(monkeypatch, tmp_path)
    translate(tmp_path / "on", 1, loop=ON)
    assert same_weights(tmp_path / "off", tmp_path / "on")
    assert backend_line(tmp_path / "on").endswith(f"; torch.compile is not used, because {NO_COMPILER}")


def same_weights(one: Path, other: Path) -> bool:
    assert timeless(one) == timeless(other)
    return (one / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()


class FailingBackward(torch.autograd.Function):
    """The identity, without a gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        raise RuntimeError("Failed to find C compiler. Please specify via CC environment variable.\nMore.")


def failing_compiler(
    monkeypatch: pytest.MonkeyPatch,
    fails_at: int,
    part: str,
    *,
    training: bool = True,
    error: type[Exception] = OSError,
) -> list[int]:
    """torch.compile stands for the functions themselves, until the features of update `fails_at`. calls: of those."""
    calls = [0]

    def compiled(function: Callable[..., Tensor], **options: Any) -> Callable[..., Tensor]:
        def call(*arguments: Any) -> Tensor:
            result = function(*arguments)
            if len(arguments) == 2 and torch.is_grad_enabled() == training:
                calls[0] += 1
                if calls[0] == fails_at and part == "forward":
                    raise error("a recompilation failed")
                if calls[0] == fails_at:
                    passed: Tensor = FailingBackward.apply(result)  # type: ignore[no-untyped-call]
                    return passed
            return result

        return call

    monkeypatch.setattr(torch, "compile", compiled)
    monkeypatch.setattr("training.kernels.training_backend.missing_for_compile", lambda device: "")
    return calls


@pytest.mark.parametrize(
    ("part", "fails_at"),
    [
        pytest.param("forward", 1, marks=pytest.mark.slow),
        pytest.param("forward", 4, marks=pytest.mark.slow),
        pytest.param("backward", 1, marks=pytest.mark.slow),
        ("backward", 4),
    ],
)
def test_a_failed_update_is_repeated_eagerly(
    part: str, fails_at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, notes: list[str]
) -> None:
    translate(tmp_path / "off", 1, loop=OFF)
    calls = failing_compiler(monkeypatch, fails_at, part)
    notes.clear()
    translate(tmp_path / "on", 1, loop=ON)
    assert calls == [fails_at], "the compiled step is not tried again"
    assert same_weights(tmp_path / "off", tmp_path / "on")
    reason = {
        "forward": "it failed (OSError: a recompilation failed)",
        "backward": "it failed (RuntimeError: Failed to find C compiler. Please specify via CC environment variable)",
    }[part]
    assert notes[0] == "Trains with PyTorch in fp32, compiled by torch.compile."
    (note,) = [note for note in notes if note.startswith("From update ")]
    assert note.startswith(f"From update {fails_at} on, updates are computed by PyTorch in fp32, because ")
    assert note.endswith(f"; torch.compile is not used, because {reason}.")
    assert backend_line(tmp_path / "on").endswith(reason)


def test_a_failed_validation_is_repeated_eagerly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, notes: list[str]
) -> None:
    translate(tmp_path / "off", 1, loop=OFF)
    calls = failing_compiler(monkeypatch, 1, "forward", training=False)
    translate(tmp_path / "on", 1, loop=ON)
    assert calls == [1]
    assert sum(note.endswith("because it failed (OSError: a recompilation failed).") for note in notes) == 1
    assert same_weights(tmp_path / "off", tmp_path / "on")


def test_memory_that_runs_out_is_no_failure_of_the_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    failing_compiler(monkeypatch, 1, "forward", error=torch.OutOfMemoryError)
    with pytest.raises(torch.OutOfMemoryError):
        translate(tmp_path / "m", 1, loop=ON)


def test_an_error_of_ours_is_raised_by_the_eager_step(monkeypatch: pytest.MonkeyPatch) -> None:
    failing_compiler(monkeypatch, 0, "forward")
    task = translation_task(0.1)
    task.backend.compile(64)
    monkeypatch.setattr(type(task), "loss", lambda self, batch: [][0])
    loop = looping(task, max_epochs=1)
    with pytest.raises(IndexError):
        loop.run()


def test_a_resume_without_the_compiler_is_said_to_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, notes: list[str]
) -> None:
    with monkeypatch.context() as patch:
        failing_compiler(patch, 0, "forward")
        translate(tmp_path, 1, loop=ON)
    without_compilers(monkeypatch, tmp_path)
    translate(tmp_path, 2, resume=True, loop=ON)
    (note,) = [note for note in notes if note.startswith("This run goes on as ")]
    assert ", compiled before:" in note


def test_a_group_compiles_together_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    class Two(Workers):
        """This process and one whose machine has no compiler."""

        def gather(self, value: Any) -> list[Any]:
            return [value, NO_COMPILER]

    failing_compiler(monkeypatch, 0, "forward")
    task = translation_task(0.1)
    task.backend.compile(64)
    assert task.backend.compiled
    looping(task, workers=Two(0, 2), compile="on")
    assert (task.backend.compiled, task.backend.why_eager) == (False, NO_COMPILER)


@pytest.mark.slow  # the compiler takes its time
def test_a_broken_compiler_is_survived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch's own, with a C++ compiler that is there and fails."""
    broken = tmp_path / "g++"
    broken.write_text("#!/bin/sh\necho no space left >&2\nexit 1\n")
    broken.chmod(0o755)
    translate(tmp_path / "off", 1, loop=OFF)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    torch._dynamo.reset()
    # PyTorch's own way to change a setting: monkeypatch leaves it without a value
    with torch._inductor.config.patch({"cpp.cxx": (str(broken),)}):
        translate(tmp_path / "on", 1, loop=ON)
    assert same_weights(tmp_path / "off", tmp_path / "on")
    assert "; torch.compile is not used, because it failed (" in backend_line(tmp_path / "on")


def test_the_backend_of_a_network_on_cuda_looks_for_what_cuda_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def missing(device: str) -> str:
        asked.append(device)
        return "something is missing"

    monkeypatch.setattr("training.kernels.training_backend.missing_for_compile", missing)
    network = SimpleNamespace(device=torch.device("cuda", 1))
    backend = TranslatorBackend(network)  # type: ignore[arg-type]
    backend.compile(64)
    assert (asked, backend.compiled, backend.why_eager) == (["cuda"], False, "something is missing")
