"""The share of a CPU's int8 peak and of its memory bandwidth that a decoding cell reaches.

Work is counted, not measured: the multiply-adds of the products with weights, which run in int8, and the bytes of
weights (int8) and of keys and values (fp32) that steps and encoder read at least. Attention's own products, norms,
softmax and the search are left out, so that 100 % cannot be reached. Peaks are measured with as many threads as the
setting has: the kernels' own instruction on registers, and reading as many bytes as a step reads.
"""

from __future__ import annotations

import ctypes
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.limit import bytes_per_step
from benchmarks.processes import Work
from models.backends.native.build import compile_to, runnable
from models.backends.native.cpu import cpu_flags
from models.networks.transformer import TransformerConfig

PEAK_S = 0.3
KEY_BYTES = 2  # of a number in the caches of int8 translators


@dataclass(frozen=True, slots=True)
class Demand:
    """What a cell needs. multiply_adds: int8, of weights. bytes: read from memory."""

    multiply_adds: float
    bytes: float


def demand(config: TransformerConfig, work: Work, processes: int) -> Demand:
    """Of all sentences of `work`, of one source length and one limit, in `processes` that read their own copy of the
    weights each. The beam's first step, whose rows are equal, counts as any other."""
    width, inner = config.d_model, config.heads * config.head_width
    square, feed_forward = width * inner, 2 * width * config.d_ff
    encoder = config.encoder_layers * (4 * square + feed_forward)
    cross = config.decoder_layers * 2 * square  # keys and values of a source token
    row = config.decoder_layers * (6 * square + feed_forward) + width * config.target_vocabulary
    source_tokens = sum(map(len, work.sources))
    rows = work.beam * sum(work.limits)
    batch = -(-work.concurrent // processes)
    steps = max(work.limits)
    batches = -(-len(work.sources) // work.concurrent)
    source_length = -(-source_tokens // len(work.sources))
    lengths = {"beam": work.beam, "source_length": source_length, "target_length": steps}
    # keys and values alone, then the weights: they differ in their elements
    weights = bytes_per_step(config, batch=0, element=1, **lengths)
    caches = bytes_per_step(config, batch=batch, element=1, **lengths) - weights
    step = weights + KEY_BYTES * caches
    read = batches * processes * (steps * step + encoder + cross)
    return Demand(source_tokens * (encoder + cross) + rows * row, read)


@cache
def library() -> ctypes.CDLL | None:
    """None on a CPU without int8 instructions of ours, or without a compiler."""
    variants = runnable("", cpu_flags())
    if not variants:
        return None
    probe = replace(variants[0], sources=("roofline.c",), headers=(), folder=Path(__file__).parent)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "roofline.so"
        try:
            compile_to(path, probe, patient=True)
        except OSError:
            return None
        built = ctypes.CDLL(str(path))
    built.multiply_adds.restype, built.multiply_adds.argtypes = ctypes.c_int64, (ctypes.c_int64, ctypes.c_void_p)
    built.read_all.restype, built.read_all.argtypes = ctypes.c_uint64, (ctypes.c_void_p, ctypes.c_int64)
    return built


@cache
def int8_peak(threads: int) -> float | None:
    """Multiply-adds a second of `threads` threads together, at their best; None where it cannot be measured."""
    if (probe := library()) is None:
        return None
    sinks = [np.zeros(64, np.int8) for _ in range(threads)]
    rounds, best = 1 << 20, 0.0

    with ThreadPoolExecutor(threads) as pool:
        ended = time.perf_counter() + PEAK_S
        while time.perf_counter() < ended:
            began = time.perf_counter()
            counts = list(pool.map(lambda sink: probe.multiply_adds(rounds, sink.ctypes.data), sinks))
            best = max(best, sum(counts) / (time.perf_counter() - began))
    return best or None


@cache
def read_bandwidth(size: int, copies: int, threads: int) -> float | None:
    """Bytes a second that `threads` threads read together at their best, each its part of one of `copies` arrays of
    `size` bytes. Arrays that fit a cache are read from there, as weights that fit it are."""
    if (probe := library()) is None:
        return None
    arrays = [np.ones(size // 8, np.uint64) for _ in range(copies)]
    readers = max(1, threads // copies)
    lines = size // (64 * readers) * readers  # of a cache, so that every reader's part is whole lines
    parts = [part for array in arrays for part in np.split(array[: 8 * lines], readers)]
    best = 0.0
    with ThreadPoolExecutor(len(parts)) as pool:
        ended = time.perf_counter() + PEAK_S
        while time.perf_counter() < ended:
            began = time.perf_counter()
            list(pool.map(lambda part: probe.read_all(part.ctypes.data, part.nbytes), parts))
            best = max(best, sum(part.nbytes for part in parts) / (time.perf_counter() - began))
    return best or None


def shares(config: TransformerConfig, work: Work, seconds: float, processes: int, threads: int) -> dict[str, float]:
    """The columns of a cell whose `work` took `seconds`; {} where the peaks cannot be measured. threads: of each
    process."""
    needed = demand(config, work, processes)
    step = int(bytes_per_step(config, batch=0, beam=1, source_length=1, target_length=1, element=1))
    peak, bandwidth = int8_peak(processes * threads), read_bandwidth(step, processes, processes * threads)
    if peak is None or bandwidth is None:
        return {}
    return {
        "int8_share": round(needed.multiply_adds / seconds / peak, 3),
        "bandwidth_share": round(needed.bytes / seconds / bandwidth, 3),
        "int8_peak_gmac_s": round(peak / 1e9),
        "bandwidth_gb_s": round(bandwidth / 1e9),
    }
