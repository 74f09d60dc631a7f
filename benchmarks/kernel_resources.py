"""What the CUDA kernels of a decode step need, from their machine code and by counting: no GPU is used.

python -m benchmarks.kernel_resources [--arch 80 90 120] [--dtype bf16] [--json] [--out FILE]

Kernels of the shape `base` (benchmarks/shapes.py), compiled by Triton: registers, stack (spilled registers), shared
memory, and the share of a multiprocessor's warps that run at once (occupancy, limited by registers, shared memory and
threads; it hides latency, and small tiles stay below it on purpose: their number is what fills the GPU).

Steps of 1 to 512 rows, 32 positions of source and of target in the caches: launches, which are the nodes of the
recorded graph, and bytes. `read` counts every argument once a launch, as if each kernel's repeated reads hit a cache;
`over the least` divides it by the weights and caches that any step has to read (benchmarks/limit.py). `with repeats`
also counts a weight once for every tile of rows and an input once for every tile of columns: what reaches the L2 cache.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benchmarks.limit import bytes_per_step
from benchmarks.report import finish, goal
from benchmarks.shapes import SHAPES, random_network
from models.backends.cuda.build import Cubin, Specification, compiled
from models.backends.cuda.launch import Launch
from models.backends.cuda.transformer_step import DTYPES, choice_launch, launches
from models.networks.transformer import Transformer

POSITIONS = 32
ROWS = (1, 32, 128, 512)
NODES_GOAL = 60
USAGE = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")


class Multiprocessor(NamedTuple):
    """Limits of one multiprocessor (CUDA C++ Programming Guide, technical specifications per compute capability).
    shared: bytes; reserved: bytes of these that the system takes for each block."""

    threads: int
    blocks: int
    shared: int
    reserved: int = 1024
    registers: int = 65_536


MULTIPROCESSORS = {
    80: Multiprocessor(2048, 32, 164 << 10),
    90: Multiprocessor(2048, 32, 228 << 10),
    100: Multiprocessor(2048, 32, 228 << 10),
    120: Multiprocessor(1536, 24, 100 << 10),
}


def occupancy(arch: int, made: Cubin, registers: int) -> float:
    """The share of a multiprocessor's warps that can run at once."""
    limits, warps = MULTIPROCESSORS[arch], made.threads // 32
    per_warp = -(-registers * 32 // 256) * 256
    blocks = min(
        limits.blocks,
        limits.threads // made.threads,
        limits.registers // (per_warp * warps),
        limits.shared // (made.shared + limits.reserved),
    )
    return blocks * made.threads / limits.threads


def usage(made: Cubin) -> tuple[int, int]:
    """Registers of a thread and bytes of its stack, by NVIDIA's cuobjdump, which comes with Triton."""
    import triton

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(made.data)
        command = [triton.knobs.nvidia.cuobjdump.path, "-res-usage", str(path)]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = USAGE.search(printed)
    assert found is not None, printed
    return int(found[1]), int(found[2]) + int(found[4])


def choice(rows: int, vocabulary: int, *, draw: bool) -> Launch:
    integers, floats = torch.zeros(rows, dtype=torch.long), torch.zeros(rows, dtype=torch.float64)
    tables = torch.zeros(3, dtype=torch.long), integers, integers, (integers, floats, floats)
    numbers, results = torch.zeros(rows, POSITIONS, dtype=torch.float64), torch.empty(2, rows)
    return choice_launch(torch.empty(rows, vocabulary), *tables, numbers, results, renormalise=True, draw=draw)


def step(network: Transformer, rows: int, group: int = 1) -> list[Launch]:
    """The launches of a greedy step on the device, choice included."""
    vocabulary = network.config.target_vocabulary
    return [*launches(network, rows, group, (POSITIONS, POSITIONS)), choice(rows, vocabulary, draw=False)]


def kernels(network: Transformer, arch: int) -> Iterator[dict[str, Any]]:
    vocabulary = network.config.target_vocabulary
    found = [(launch, f"{rows} rows") for rows in (1, 128) for launch in step(network, rows)]
    found += [(launch, "beam 4") for launch in launches(network, 4, 4) if launch.kernel == "attend_source"]
    found.append((choice(1, vocabulary, draw=True), "sampling"))
    by_specification = {Specification.of(launch, arch): (launch, used) for launch, used in reversed(found)}
    for specification, (launch, used) in reversed(by_specification.items()):
        made = compiled(specification)
        registers, stack = usage(made)
        yield {
            "arch": arch,
            "kernel": specification.kernel,
            "for": used,
            "constants": " ".join(f"{name}={value}" for name, value in launch.constants),
            "programs": launch.grid[0] * launch.grid[1],
            "threads": made.threads,
            "registers": registers,
            "stack": stack,
            "shared": made.shared,
            "occupancy": round(occupancy(arch, made, registers), 3),
            "code": len(made.data),
        }


def size(tensor: Tensor, share: float = 1.0) -> float:
    return tensor.numel() * tensor.element_size() * share


def bytes_read(launch: Launch) -> tuple[float, float]:
    """Of one launch: every argument once, and with the repeats of its tiles."""
    arguments, constants = launch.arguments, dict(launch.constants)
    tensors = [a for a in arguments if isinstance(a, Tensor)]
    if launch.kernel == "linear":
        x, weight, bias, norm_weight, norm_bias, residual, *_ = tensors
        rest = constants["BIAS"] * size(bias) + constants["RESIDUAL"] * size(residual)
        rest += constants["NORM"] * (size(norm_weight) + size(norm_bias))
        return size(x) + size(weight) + rest, size(x) * launch.grid[0] + size(weight) * launch.grid[1] + rest
    if launch.kernel == "attend_own":  # the last position comes with the query
        qkv, cache, _, context = tensors
        once = size(qkv) + size(cache[: len(context)]) * (POSITIONS - 1) / cache.size(1)
    elif launch.kernel == "attend_source":
        query, cache, *_ = tensors
        once = size(query) + size(cache[: len(query)]) / (len(query) // launch.grid[0])
    elif launch.kernel == "embed":
        once = 2 * size(tensors[-1])
    else:
        once = size(tensors[0])
        return once, once * (3 if constants["RENORMALISE"] else 4)  # largest logit, sum of exponentials
    return once, once


def steps(network: Transformer) -> Iterator[dict[str, Any]]:
    for rows in ROWS:
        found = step(network, rows)
        once, repeated = (sum(column) for column in zip(*map(bytes_read, found), strict=True))
        # of steps to twice the positions, less one, the mean reads as many
        lengths = {"source_length": POSITIONS, "target_length": 2 * POSITIONS - 1}
        element = next(network.parameters()).element_size()
        least = bytes_per_step(network.config, batch=rows, beam=1, element=element, **lengths)
        yield {
            "rows": rows,
            "launches": len(found),
            "by kernel": dict(Counter(launch.kernel for launch in found)),
            "read_mb": round(once / 1e6, 1),
            "least_mb": round(least / 1e6, 1),
            "over the least": round(once / least, 3),
            "with repeats_mb": round(repeated / 1e6, 1),
        }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", type=int, nargs="+", default=[80, 90, 120], choices=list(MULTIPROCESSORS))
    parser.add_argument("--dtype", default="bf16", choices=list(DTYPES))
    parser.add_argument("--shape", default="base", choices=list(SHAPES))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    network = random_network(SHAPES[options.shape]).to(DTYPES[options.dtype])
    stepped = list(steps(network))
    compiled_kernels = [row for arch in options.arch for row in kernels(network, arch)]
    goals = [
        goal(
            "graph nodes of a greedy or sampling step", max(row["launches"] for row in stepped), NODES_GOAL, "", "lower"
        ),
        goal("spilled registers, bytes of stack", max(row["stack"] for row in compiled_kernels), 0, "bytes", "lower"),
        goal("bytes read over weights and caches, 512 rows", stepped[-1]["over the least"], 2.0, "", "lower"),
    ]
    finish("kernel_resources", [*stepped, *compiled_kernels], goals, as_json=options.json, out=options.out)


if __name__ == "__main__":
    main()
