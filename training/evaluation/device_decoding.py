"""How many texts are decoded on a device: the precision and the slots where no option names them."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence

import torch

from models.backends.select import Network, candidates
from models.decoding.decoder import decode
from models.decoding.options import DecodingOptions, Hypothesis, TokenRules
from models.interface import Precision, Prompt

CPU_SLOTS, GPU_SLOTS = 64, 1024  # rows of a batch: a GPU reads its weights once for all of them


def default_precision(device: torch.device) -> Precision:
    """fp32 on a CPU, where scores should not depend on the machine; on a GPU bf16, if it has that."""
    return "fp32" if device.type == "cpu" else candidates(device)[0]


def default_slots(device: torch.device) -> int:
    return CPU_SLOTS if device.type == "cpu" else GPU_SLOTS


def decode_in_memory(
    network: Network,
    rules: TokenRules,
    prompts: Sequence[Prompt],
    options: Sequence[DecodingOptions],
    *,
    slots: int,
    precision: Precision,
    progress: Callable[[int], object] | None = None,
) -> tuple[list[list[Hypothesis]], int]:
    """`decode`, begun again with half the slots whenever the GPU's memory runs out, as it may beside a training; also
    returns the slots. OutOfMemoryError if the widest beam does not fit."""
    least, reported = max((each.beam for each in options), default=1), 0
    while True:
        finished = [0]

        def report(count: int, finished: list[int] = finished) -> None:
            """Prompts that an earlier attempt has finished and reported count once."""
            nonlocal reported
            finished[0] += count
            if progress is not None and finished[0] > reported:
                progress(finished[0] - reported)
            reported = max(reported, finished[0])

        try:
            return decode(network, rules, prompts, options, slots=slots, precision=precision, progress=report), slots
        except torch.OutOfMemoryError:
            if slots <= least:
                raise
        slots = max(slots // 2, least)
        gc.collect()  # the failed decoder's caches
        torch.cuda.empty_cache()
