"""fp16 with its scale, and which format a device gets."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from models.backends.native import build
from tests.models.kernels import compiled
from tests.training.counting import STEP_BY_ONE, looping
from tests.training.runs import Killed, assert_same_run, kill_at, sing, translate
from training import snapshot
from training.config.run_config import LoopConfig, OptimizerConfig
from training.errors import TrainingError
from training.kernels import training_backend
from training.loop import mixed_precision
from training.loop.mixed_precision import AMX_WIDTH, INITIAL_SCALE, MAX_CONSECUTIVE_SKIPS, select_format

pytestmark = pytest.mark.usefixtures("no_curves")
CPU, CUDA = torch.device("cpu"), torch.device("cuda")


class Slope:
    """A weight [2] with a loss that falls with (3, 4), times the factor of each batch."""

    def __init__(self, factors: list[float]) -> None:
        self.network = nn.Linear(2, 1, bias=False)
        self.network.weight.data.zero_()
        self.factors, self.dtypes = factors, set[torch.dtype]()

    def batches(self, epoch: int) -> list[float]:
        return self.factors

    def loss(self, batch: float) -> tuple[Tensor, int]:
        output = self.network(torch.tensor([[3.0, 4.0]]))
        self.dtypes.add(output.dtype)
        return output.sum().float() * batch, 2

    def validate(self) -> float | None:
        return None

    def carried(self) -> dict[str, Tensor]:
        return {}

    def restore(self, carried: dict[str, Tensor]) -> None:
        """Nothing."""

    def weight(self) -> list[float]:
        return self.network.weight.flatten().tolist()  # type: ignore[no-any-return]


CLIPPED = OptimizerConfig(name="sgd", learning_rate=1.0, clip_norm=1.0)


@pytest.mark.parametrize("wanted", ["fp32", "bf16", "fp16"])
def test_gradients_are_clipped_unscaled(wanted: str) -> None:
    """A norm of 5 becomes one of 1. Clipped before the scale is taken off, it would become 1/scale."""
    task = Slope([1.0])
    looping(task, optimizer=CLIPPED, max_epochs=1, precision=wanted).run()
    assert task.weight() == pytest.approx([-0.6, -0.8], rel=1e-5)
    assert task.dtypes == {{"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[wanted]}


def test_small_gradients_are_not_clipped_at_any_loss_scale() -> None:
    task = Slope([2.0**-8, 2.0**-8])
    looping(task, optimizer=CLIPPED, max_epochs=1, precision="fp16").run()
    assert task.weight() == pytest.approx([-6 / 256, -8 / 256])


def test_overflowing_update_is_skipped_and_counted() -> None:
    task = Slope([1.0, 2.0**14, 1.0])  # 3 · 2^14 · 2 tokens · 2^4 is too large for fp16
    loop = looping(task, optimizer=STEP_BY_ONE, max_epochs=1, precision="fp16")
    outcome = loop.run()
    assert (outcome.progress.update, outcome.progress.skipped) == (2, 1)
    assert task.weight() == [-6.0, -8.0]
    assert loop.precision.scaler.get_scale() == INITIAL_SCALE / 2
    assert outcome.progress.last_epoch_loss == pytest.approx((0 - 25) / 2)


def test_repeated_overflow_ends_the_run(tmp_path: Path) -> None:
    task = Slope([1.0, *[float("inf")] * 99])
    with pytest.raises(
        TrainingError, match=f"^The gradients overflowed fp16 in {MAX_CONSECUTIVE_SKIPS} updates in a row"
    ):
        looping(task, tmp_path, optimizer=STEP_BY_ONE, max_epochs=1, precision="fp16").run()
    assert task.weight() == [-3.0, -4.0]


FP16 = {"loop": LoopConfig(ema_decay=0.9, precision="fp16")}


def test_loss_scale_is_restored_at_a_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixed_precision, "INITIAL_SCALE", 2.0**20)  # overflows at first
    translate(tmp_path / "whole", **FP16)
    with pytest.MonkeyPatch.context() as patch:
        kill_at(patch, 5)
        with pytest.raises(Killed):
            translate(tmp_path / "parts", **FP16)
    killed = snapshot.load(tmp_path / "parts")
    assert killed["progress"]["skipped"] > 0
    assert killed["precision"]["scaler"]["scale"] < 2.0**20
    translate(tmp_path / "parts", resume=True, **FP16)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.slow
@pytest.mark.parametrize("train", [translate, sing])
@pytest.mark.parametrize("wanted", ["bf16", "fp16"])
def test_half_precision_learns_what_fp32_learns(tmp_path: Path, train: Any, wanted: str) -> None:
    losses = {}
    for name in ("fp32", wanted):
        train(tmp_path / name, loop=LoopConfig(precision=name))  # type: ignore[arg-type]
        losses[name] = snapshot.load(tmp_path / name)["progress"]["last_epoch_loss"]
    assert losses[wanted] == pytest.approx(losses["fp32"], rel=0.02)
    assert losses[wanted] != losses["fp32"]


class Trained(nn.Module):
    """A network as far as its choice of a format goes; width 0: a recurrent one."""

    def __init__(self, kernels: str = "", width: int = 0) -> None:
        super().__init__()
        self.kernels, self.config = kernels, SimpleNamespace(**({"d_model": width} if width else {}))


def kernels_of(network: nn.Module) -> str:
    return getattr(network, "kernels", "")


def test_auto_precision_is_the_fastest_of_each_device(monkeypatch: pytest.MonkeyPatch) -> None:
    def has(amx: bool, avx512_bf16: bool, cuda_bf16: bool) -> None:
        monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: avx512_bf16)
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: cuda_bf16)

    wide = Trained("ours", 512)
    has(amx=False, avx512_bf16=False, cuda_bf16=False)
    assert (
        select_format(CPU, "auto", wide, kernels_of(wide)),
        select_format(CUDA, "auto", wide, kernels_of(wide)),
    ) == ("fp32", "fp16")
    assert (
        select_format(CPU, "bf16", wide, kernels_of(wide)),
        select_format(CUDA, "fp32", wide, kernels_of(wide)),
    ) == ("bf16", "fp32")
    has(amx=True, avx512_bf16=False, cuda_bf16=True)
    assert (
        select_format(CPU, "auto", wide, kernels_of(wide)),
        select_format(CUDA, "auto", wide, kernels_of(wide)),
    ) == ("bf16", "bf16")
    assert select_format(CPU, "fp32", wide, kernels_of(wide)) == "fp32"
    has(amx=False, avx512_bf16=True, cuda_bf16=True)
    assert select_format(CPU, "auto", wide, kernels_of(wide)) == "fp32", "the kernels of this project are faster"


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        (Trained("ours", 128), "fp32"),
        (Trained("ours", AMX_WIDTH - 1), "fp32"),
        (Trained("ours", AMX_WIDTH), "bf16"),
        (Trained("", 128), "bf16"),
        (Trained("ours"), "fp32"),
        (Trained(""), "bf16"),
        (nn.Linear(2, 1), "bf16"),
    ],
)
def test_kernels_in_fp32_are_preferred_to_amx_where_they_are_faster(
    network: nn.Module, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: True)
    assert select_format(CPU, "auto", network, kernels_of(network)) == expected


@pytest.mark.parametrize("train", [translate, sing])
def test_networks_name_their_training_kernels(tmp_path: Path, train: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are small, and a GRU is one: with kernels fp32, without them bf16, whatever this CPU has."""
    compiled(training_backend.training_library())
    compiled(build.fp32_library())
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: True)
    train(tmp_path / "ours", 1)
    monkeypatch.setenv("PARLANCE_NATIVE", "none")
    train(tmp_path / "pytorch", 1)
    ours, pytorch = (snapshot.load(tmp_path / name)["machine"] for name in ("ours", "pytorch"))
    assert ours.startswith("fp32 on cpu") and ", kernels parlance-" in ours
    assert pytorch.startswith("bf16 on cpu") and "kernels" not in pytorch


def test_batches_that_overflow_before_the_first_update_are_not_validated() -> None:
    task = Slope([2.0**14, 1.0, 1.0])
    validated: list[list[float]] = []

    def validate() -> float:
        validated.append(task.weight())
        return 1.0

    task.validate = validate  # type: ignore[method-assign]
    looping(task, optimizer=STEP_BY_ONE, max_epochs=1, precision="fp16", validate_every_updates=2).run()
    assert validated == [[-6.0, -8.0]]
