"""The least time that a step can take on a device: the bytes it must move over the bandwidth of a plain copy."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch

from models.networks.transformer import TransformerConfig

REPEATS = 10


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
        for _ in range(REPEATS):
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


def bytes_per_step(
    config: TransformerConfig, *, batch: int, beam: int, source_length: int, target_length: int, element: int
) -> float:
    """Bytes of weights and caches that a step moves at least, on the average of the steps 1..target_length.

    Each row reads its own keys and values so far and writes one of each. The source's are shared by the hypotheses of
    a beam, so they count once a sentence. Activations and logits, which can stay on the chip, do not count.
    """
    inner = config.heads * config.head_width
    a_position = 2 * config.decoder_layers * inner
    read = (target_length + 1) / 2
    caches = a_position * (batch * beam * (read + 1) + batch * source_length)
    return element * (decoder_parameters(config) + caches)
