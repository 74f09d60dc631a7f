"""Simulated devices: their memory, and what makes them fail."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from tests.cuda_simulator.counts import Counts
from tests.cuda_simulator.streams import Stream

if TYPE_CHECKING:
    from tests.cuda_simulator.simulator import SimulatedCuda

BLOCK = 512
"""The caching allocator's granularity in bytes."""

WORKSPACE = 32 << 20
"""Bytes of cuBLAS's workspace on an H100 (aten/src/ATen/cuda/CublasHandlePool.cpp)."""

PoolId = tuple[int, int]


class Memory:
    """One allocation. All views of a tensor share it; it is freed with the last of them. pool: None outside graphs."""

    __slots__ = ("__weakref__", "bytes", "device", "pool")

    def __init__(self, device: SimulatedDevice, size: int, pool: GraphPool | None) -> None:
        self.device, self.bytes, self.pool = device, -(-size // BLOCK) * BLOCK, pool
        device.allocate(self)

    def __del__(self) -> None:
        if self.bytes:
            self.device.free(self)


@dataclass(slots=True, eq=False)
class GraphPool:
    """The memory of the graphs that were captured into one pool. uses: such graphs that are alive."""

    uses: int = 0
    live: int = 0  # bytes that tensors hold
    reserved: int = 0  # the most bytes that tensors held
    allocations: int = 0


class SimulatedDevice:
    """Device cuda:index. Memory outside graph pools stays reserved until `empty_cache`, as in PyTorch's allocator."""

    def __init__(self, index: int, total_bytes: int, cuda: SimulatedCuda) -> None:
        self.index, self.total_bytes, self.cuda = index, total_bytes, cuda
        self.name = torch.device("cuda", index)
        self.default_stream = self.stream = Stream(self, 0)
        self.stream_ids = itertools.cycle(range(1, 33))  # torch.cuda.Stream() hands out 32 streams in turn
        self.lost = False
        self.pools: dict[PoolId, GraphPool] = {}
        self._live = self._reserved = self.most_bytes = 0
        self._workspaces: dict[int, Memory] = {}  # by stream
        self._until_failure: int | None = None  # allocations that still succeed
        self._failures = 0
        self._failures_in_captures = False

    @property
    def counts(self) -> Counts:
        return self.cuda.counts

    def check(self) -> None:
        """Every call fails after the device is lost, with the error of a process whose context is broken."""
        if self.lost:
            raise torch.AcceleratorError("CUDA error: unspecified launch failure")

    @property
    def used_bytes(self) -> int:
        return self._reserved + sum(pool.reserved for pool in self.pools.values())

    @property
    def allocated_bytes(self) -> int:
        return self._live + sum(pool.live for pool in self.pools.values())

    def reset_most(self) -> None:
        self.most_bytes = self.allocated_bytes

    def fail_allocations(self, after: int, times: int, *, in_captures: bool) -> None:
        self._until_failure, self._failures, self._failures_in_captures = after, times, in_captures

    def allocate(self, memory: Memory) -> None:
        """OutOfMemoryError above the device's size, or where a test asked for it."""
        size, memory.bytes = memory.bytes, 0  # until it is granted
        self.counts.allocations += 1
        if self._failures and (memory.pool is not None or not self._failures_in_captures):
            assert self._until_failure is not None
            self._until_failure -= 1
            if self._until_failure < 0:
                self._failures -= 1
                raise self._out_of_memory(size)
        if self._growth(memory, size) + self.used_bytes > self.total_bytes:
            self.empty_cache()  # as the allocator does before it gives up
            if self._growth(memory, size) + self.used_bytes > self.total_bytes:
                raise self._out_of_memory(size)
        memory.bytes = size
        if memory.pool is not None:
            memory.pool.allocations += 1
            memory.pool.live += size
            memory.pool.reserved = max(memory.pool.reserved, memory.pool.live)
        else:
            self._live += size
            self._reserved = max(self._reserved, self._live)
        self.most_bytes = max(self.most_bytes, self.allocated_bytes)

    def _growth(self, memory: Memory, size: int) -> int:
        live, reserved = self._live, self._reserved
        if memory.pool is not None:
            live, reserved = memory.pool.live, memory.pool.reserved
        return max(0, live + size - reserved)

    def _out_of_memory(self, size: int) -> torch.OutOfMemoryError:
        return torch.OutOfMemoryError(
            f"CUDA out of memory. Tried to allocate {size} bytes. GPU {self.index} has a total capacity of"
            f" {self.total_bytes} bytes of which {self.total_bytes - self.used_bytes} bytes is free."
        )

    def free(self, memory: Memory) -> None:
        if memory.pool is not None:
            memory.pool.live -= memory.bytes
        else:
            self._live -= memory.bytes

    def empty_cache(self) -> None:
        self.check()
        self._reserved = self._live
        for key, pool in list(self.pools.items()):
            if not pool.uses and not pool.live:
                del self.pools[key]

    def workspace(self) -> Memory:
        """cuBLAS's scratch memory, allocated by the stream's first product: in a capture from the graph's pool, which
        it keeps from being freed."""
        key, capture = self.stream.stream_id, self.stream.capture
        if key not in self._workspaces:
            self._workspaces[key] = Memory(self, WORKSPACE, None if capture is None else capture.pool)
        return self._workspaces[key]

    def free_workspace(self, stream: Stream) -> None:
        self._workspaces.pop(stream.stream_id, None)

    def use_pool(self, key: PoolId) -> GraphPool:
        """A pool for one more graph. RuntimeError for one whose graphs were all freed while the allocator still has it:
        c10/cuda/CUDACachingAllocator.cpp, create_or_incref_pool, torch 2.11 to 2.13."""
        pool = self.pools.get(key)
        if pool is not None and not pool.uses:
            raise RuntimeError("it->second->use_count > 0 INTERNAL ASSERT FAILED at CUDACachingAllocator.cpp")
        pool = self.pools.setdefault(key, GraphPool())
        pool.uses += 1
        return pool
