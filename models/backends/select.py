"""The number format that a network is decoded in."""

from __future__ import annotations

import contextlib
import copy
import time
from typing import TypeVar, get_args

import torch
from torch import nn

from models.backends.torch.products import MakeProduct, dense, exact_int8, quantized
from models.interface import Decodable, Network, Precision, Prompt

PRECISIONS: tuple[Precision, ...] = get_args(Precision)
DTYPES: dict[Precision, torch.dtype] = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
N = TypeVar("N", bound=nn.Module)


class RefusedError(ValueError):
    """The precision is not for this machine or device."""


def prepared(network: N, precision: Precision) -> tuple[N, MakeProduct]:
    """The network whose tensors to use, cast where its format is another, and how PyTorch is to multiply with its
    weights. RefusedError if it cannot do so here."""
    if precision not in PRECISIONS:
        raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}, not {precision!r}")
    first = next(network.parameters())
    if precision == "int8":
        if first.device.type != "cpu":
            raise RefusedError("int8 is for CPUs; use bf16 or fp16 on this device")
        if not exact_int8():
            raise RefusedError("this CPU does not sum int8 products exactly; use fp32 or bf16")
        return prepared(network, "fp32")[0], quantized
    if first.dtype == DTYPES[precision]:
        return network, dense
    return copy.deepcopy(network).to(DTYPES[precision]).eval(), dense


def candidates(device: torch.device) -> tuple[Precision, ...]:
    """What `fastest` may choose from, unless it is refused: the first where nothing is much faster. On CUDA bf16
    without measuring, where the device has it; fp16 may overflow in a network that was trained without it, and is for
    who asks for it."""
    if device.type == "cpu":
        return ("fp32", "int8", "bf16")
    has_bf16 = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return ("bf16",) if has_bf16 else ("fp32",)


WORTH_IT = 1.25  # times faster; less is noise, and every process of a service should choose alike


def fastest(network: Network, device: torch.device) -> tuple[Decodable, dict[Precision, float]]:
    """The network in the precision whose steps are clearly the fastest on this device now, and the milliseconds of each
    precision, that one's first: the sum of a step of one row and a step of sixteen."""
    made: dict[Precision, Decodable] = {}
    for precision in candidates(device):
        with contextlib.suppress(RefusedError):
            made[precision] = network.decodable(precision)
    times = {name: sum(step_ms(decodable, rows) for rows in (1, 16)) for name, decodable in made.items()}
    chosen = next(iter(times))
    for name in times:
        if times[chosen] > WORTH_IT * times[name]:
            chosen = name
    return made[chosen], {chosen: times[chosen], **times}


def step_ms(decodable: Decodable, rows: int, steps: int = 4) -> float:
    """Milliseconds of the quickest of a few steps of so many rows."""
    state = decodable.allocate(rows, 16, steps + 1)
    decodable.prefill(state, range(rows), [Prompt((1,) * 16, (1,))] * rows)
    tokens = torch.ones(rows, dtype=torch.long, device=decodable.device)
    durations = []
    for _ in range(steps):
        started = time.perf_counter()
        decodable.step(state, tokens)[0, 0].item()
        durations.append(time.perf_counter() - started)
    return min(durations) * 1000
