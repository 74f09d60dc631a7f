"""The time of one step of our engine, and the least that it can take: the bytes that it must move over the bandwidth of
a plain copy on the device.

Step time: wall-clock seconds of all steps of a batch after its prefill, over the number of tokens of each row; the
clock stops when the device has ended.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch

from benchmarks.ours import Opened
from benchmarks.processes import Work
from models.networks.transformer import TransformerConfig

COPIES, RUNS = 10, 3


@dataclass(frozen=True, slots=True)
class StepTime:
    """A question to `benchmarks.ours`' engine: seconds a step, the best of some runs after a warm-up."""

    work: Work

    def measure(self, engine: Opened) -> float:
        engine.translate(self.work)
        return min(self._once(engine) for _ in range(RUNS))

    def _once(self, engine: Opened) -> float:
        device, waiting = engine.model.network.device, len(self.work.sources)
        engine.join(list(engine.requests(self.work)))
        synchronise(device)
        started = time.perf_counter()
        while waiting:
            waiting -= len(engine.model.decoder.step().finished)
        synchronise(device)
        return (time.perf_counter() - started) / self.work.limits[0]


@dataclass(frozen=True, slots=True)
class Copying:
    """A process (`Held` by `benchmarks.processes`) with nothing but the device: for a size in bytes it returns the
    bytes/s of a copy on the device, read and written bytes counted."""

    device: str

    @property
    def processes(self) -> int:
        return 1

    def open(self) -> Copying:
        return self

    def answer(self, size: int) -> float:
        device = torch.device(self.device)
        source = torch.ones(size, dtype=torch.uint8, device=device)
        target = torch.empty_like(source)
        best = 0.0
        for _ in range(COPIES):
            synchronise(device)
            started = time.perf_counter()
            target.copy_(source)
            synchronise(device)
            best = max(best, 2 * size / (time.perf_counter() - started))
        return best


def synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def decoder_parameters(config: TransformerConfig) -> int:
    """What every step reads of the weights: the decoder without the cross-attention's keys and values, which are
    computed once a sentence, and the output matrix. Of the embedding it reads a row, which is nothing."""
    width, inner = config.d_model, config.heads * config.head_width
    attention = 4 * width * inner + 3 * inner + width
    cross = 2 * width * inner + inner + width
    feed_forward = 2 * width * config.d_ff + config.d_ff + width
    norms = 3 * 2 * width
    output = config.target_vocabulary * (width + 1)
    return config.decoder_layers * (attention + cross + feed_forward + norms) + output


def bytes_per_step(config: TransformerConfig, work: Work, element: int) -> float:
    """Bytes of weights and caches that a step of forced work moves at least, on the average of its steps.

    Each row reads its own keys and values so far and writes one of each. The source's are shared by the hypotheses of
    a beam, so they count once a sentence. Activations and logits, which can stay on the chip, do not count.
    """
    batch, source_length = len(work.sources), len(work.sources[0])
    a_position = 2 * config.decoder_layers * config.heads * config.head_width
    read = (work.limits[0] + 1) / 2
    caches = a_position * (batch * work.beam * (read + 1) + batch * source_length)
    return element * (decoder_parameters(config) + caches)
