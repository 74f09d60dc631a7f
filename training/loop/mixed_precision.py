"""Mixed precision: the format of the forward pass, of products that stay in fp32 on a GPU, and fp16 loss scaling.

| format | products of weights | recurrent layers on cuDNN | other fp32 products (Muon) | logits and loss |
|---|---|---|---|---|
| fp32 | fp32 | fp32 | fp32 | fp32 |
| bf16 | bf16, summed in fp32 | TF32 | TF32 | fp32, of a bf16 product |
| fp16 | fp16, summed in fp32 | fp16 | TF32 | fp32, of an fp16 product |

Weights, gradients, their norm and the optimizer's state are in fp32 throughout. TF32 has fp32's range and 10 bits of
mantissa, 3 more than bf16: a run in bf16 loses nothing by it, while one in fp32 is asked for its digits."""

from __future__ import annotations

import contextlib
from typing import Literal

import torch
from torch import Tensor, nn

from training.errors import TrainingError
from training.snapshot import State

NumberFormat = Literal["fp32", "bf16", "fp16"]
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
INITIAL_SCALE = 2.0**4  # for a loss summed over thousands of tokens; doubles after every 2,000 good updates
MAX_CONSECUTIVE_SKIPS = 30  # the scale is then 2^-26; a smaller one will not help
# AMX wins from this d_model on: this project's fp32 kernels train at 2.9 times its speed at 128, 1.1 at 256, 0.8 at 384
AMX_WIDTH = 384


def select_format(device: torch.device, wanted: str, network: nn.Module, kernels: str) -> NumberFormat:
    """`auto` picks the fastest: bf16 on CUDA devices that have it, else fp16; bf16 on CPUs with AMX, unless this
    project's kernels train the network faster in fp32; fp32 elsewhere. AVX512-BF16 alone takes 3 times as long as those
    kernels. kernels: the fp32 kernels of the network; "": PyTorch's."""
    if wanted in ("fp32", "bf16", "fp16"):
        return wanted  # type: ignore[return-value]
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"
    # they beat AMX on a Transformer narrower than `AMX_WIDTH` and on a GRU of any width
    kernels_outrun_amx = bool(kernels) and getattr(getattr(network, "config", None), "d_model", 0) < AMX_WIDTH
    amx = device.type == "cpu" and torch.cpu._is_amx_tile_supported()
    return "bf16" if amx and not kernels_outrun_amx else "fp32"


def set_gpu_products(number_format: NumberFormat) -> None:
    """PyTorch's settings for the whole process: TF32 and the format of sums, by the table above."""
    tf32 = number_format != "fp32"
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False


class MixedPrecision:
    """Weights, gradients and the optimizer stay in fp32. In fp16 the loss is scaled up before the backward pass, so
    that small gradients do not underflow, and gradients are unscaled before clipping. An update with overflowed
    gradients is skipped, and the scale is halved."""

    def __init__(self, device: torch.device, wanted: str, network: nn.Module, kernels: str) -> None:
        self.device, self.format = device, select_format(device, wanted, network, kernels)
        self.fp32_products = "fp32"
        if device.type == "cuda":
            set_gpu_products(self.format)
            self.fp32_products = "fp32" if self.format == "fp32" else "TF32"
        self.scaler = torch.amp.GradScaler(device.type, init_scale=INITIAL_SCALE, enabled=self.format == "fp16")
        self.skipped_in_a_row = 0

    def autocast(self) -> contextlib.AbstractContextManager[object]:
        if self.format == "fp32":
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=DTYPES[self.format])

    def overflowed(self, norm: Tensor) -> bool:
        """Whether to skip this update. norm: of unscaled gradients, read for fp16. TrainingError if no scale helps."""
        if not self.scaler.is_enabled():
            return False
        overflow = not bool(norm.isfinite())
        self.scaler.update()
        self.skipped_in_a_row = self.skipped_in_a_row + 1 if overflow else 0
        if self.skipped_in_a_row >= MAX_CONSECUTIVE_SKIPS:
            raise TrainingError(
                f"The gradients overflowed fp16 in {self.skipped_in_a_row} updates in a row: lower the learning rate,"
                " or train in bf16 or fp32 (precision)."
            )
        return overflow

    def state(self) -> State:
        return {"scaler": self.scaler.state_dict(), "skipped_in_a_row": self.skipped_in_a_row}

    def restore(self, state: State) -> None:
        """A snapshot in another format has no scale; the scale then starts anew."""
        if self.scaler.is_enabled() and state["scaler"]:
            self.scaler.load_state_dict(state["scaler"])
        self.skipped_in_a_row = state["skipped_in_a_row"]
