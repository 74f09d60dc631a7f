"""Runs the project's CUDA code without a GPU: tensors that claim to be on CUDA and compute on the CPU.

    with simulated_cuda(devices=2) as cuda:
        runner = ModelRunner("cuda:1", 0, 16)
        ...
        cuda.reset_counts()
        decoder.step()
        assert cuda.counts.waits == 0

Inside, `torch.cuda` has devices, streams, events, pinned memory and graphs that behave as CUDA's do as far as a program
can tell without timing: devices do not mix, a graph records what runs on its own stream and device, asynchronous copies
end late, memory is counted and runs out. Kernels compute in order, so a race between two streams is not found, nor is
a kernel's own error. Numbers are the CPU's."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from models import exactness
from models.backends.cuda import selection
from models.backends.torch import cuda_graph
from tests.cuda_simulator.counts import Counts
from tests.cuda_simulator.device import PoolId, SimulatedDevice
from tests.cuda_simulator.graphs import Capture, SimulatedGraph
from tests.cuda_simulator.operators import DeviceIndices, Operators, SimulatedTensor
from tests.cuda_simulator.streams import Event, Stream

GIB = 1 << 30
Device = torch.device | str | int | None


class SimulatedCuda:
    """The devices of one simulation. counts: of all devices together. capture: the one under way.
    graphs: those that are recorded and alive."""

    def __init__(self, devices: int = 1, memory_bytes: int = 16 * GIB, *, frees_workspaces: bool = False) -> None:
        self.counts = Counts()
        self.devices = [SimulatedDevice(index, memory_bytes, self) for index in range(devices)]
        self.operators = Operators(self)
        self.capture: Capture | None = None
        self.graphs = weakref.WeakSet[SimulatedGraph]()
        self.frees_workspaces = frees_workspaces
        self._current = 0
        self._pools = itertools.count(1)
        self._pinned: dict[int, StorageWeakRef] = {}
        self._synchronisations_fail = False

    # For tests

    def reset_counts(self) -> None:
        self.counts = Counts()

    def fail_allocation_after(self, number: int, *, times: int = 1, in_captures: bool = False, device: int = 0) -> None:
        """After `number` further allocations, the next `times` run out of memory. in_captures: count and refuse only
        those of graphs that are being recorded."""
        self.devices[device].fail_allocations(number, times, in_captures=in_captures)

    def limit_memory(self, total_bytes: int, device: int = 0) -> None:
        self.devices[device].total_bytes = total_bytes

    def lose(self, device: int = 0) -> None:
        """Every later call on the device fails, until `replace`."""
        self.devices[device].lost = True

    def replace(self, device: int = 0) -> None:
        """The device works again, as for a new process."""
        self.devices[device].lost = False
        self.fail_allocation_after(0, times=0, device=device)

    # What torch.cuda calls

    @property
    def current(self) -> SimulatedDevice:
        return self.devices[self._current]

    def device(self, device: Device = None) -> SimulatedDevice:
        """RuntimeError for an index that no device has."""
        if isinstance(device, str):
            device = torch.device(device)
        index = device.index if isinstance(device, torch.device) else device
        if index is None:
            return self.current
        if not 0 <= index < len(self.devices):
            raise torch.AcceleratorError("CUDA error: invalid device ordinal")
        return self.devices[index]

    def set_device(self, device: Device) -> None:
        chosen = self.device(device)
        chosen.check()
        self._current = chosen.index

    def exchange_device(self, index: int) -> int:
        before = self._current
        if index >= 0:
            self._current = self.device(index).index
        return before

    def set_stream(self, stream: Stream) -> None:
        """Makes the stream's device the current one too, as torch does."""
        stream.owner.stream = stream
        self._current = stream.owner.index

    def synchronize(self, device: Device = None) -> None:
        chosen = self.device(device)
        chosen.check()
        if self.capture is not None:
            raise self.capture.illegal("waiting for a device")
        self.check_synchronisation("torch.cuda.synchronize")
        chosen.counts.synchronised("torch.cuda.synchronize")
        for stream in (chosen.default_stream, chosen.stream):
            stream.finish()

    def empty_cache(self) -> None:
        for device in self.devices:
            device.empty_cache()

    def new_pool_id(self) -> PoolId:
        return (0, next(self._pools))

    def pin(self, tensor: Tensor) -> Tensor:
        storage = StorageWeakRef(tensor.untyped_storage())
        self._pinned[storage.cdata] = storage
        return tensor

    def is_pinned(self, tensor: Tensor) -> bool:
        """The weak reference keeps the storage's address from being given to another one."""
        return tensor.untyped_storage()._cdata in self._pinned if tensor.device.type == "cpu" else False

    def set_sync_debug_mode(self, mode: int | str) -> None:
        self._synchronisations_fail = mode in (2, "error")

    def check_synchronisation(self, cause: str) -> None:
        if self._synchronisations_fail:
            raise RuntimeError(f"called a synchronizing CUDA operation ({cause})")

    def properties(self, device: Device = None) -> Any:
        """Of an H100, as far as the project asks."""
        return SimpleNamespace(
            name="Simulated GPU",
            total_memory=self.device(device).total_bytes,
            major=9,
            minor=0,
            multi_processor_count=132,
        )

    def replacements(self) -> dict[str, Any]:
        """Names in torch.cuda -> what stands for them. torch.cuda.device, .stream and .graph are PyTorch's own."""
        cuda = self

        class NewStream(Stream):
            def __init__(self, device: Device = None, priority: int = 0, **_: Any) -> None:
                owner = cuda.device(device)
                super().__init__(owner, next(owner.stream_ids))

        class NewEvent(Event):
            def __init__(self, *_: Any, **__: Any) -> None:
                super().__init__(lambda: cuda.current.stream)

        class CUDAGraph(SimulatedGraph):
            def __init__(self, keep_graph: bool = False) -> None:
                super().__init__(cuda)

        return {
            "_lazy_init": lambda: None,
            "init": lambda: None,
            "is_initialized": lambda: True,
            "is_available": lambda: True,
            "device_count": lambda: len(self.devices),
            "current_device": lambda: self._current,
            "set_device": self.set_device,
            "_exchange_device": self.exchange_device,
            "_maybe_exchange_device": self.exchange_device,
            "synchronize": self.synchronize,
            "Stream": NewStream,
            "Event": NewEvent,
            "current_stream": lambda device=None: self.device(device).stream,
            "default_stream": lambda device=None: self.device(device).default_stream,
            "set_stream": self.set_stream,
            "CUDAGraph": CUDAGraph,
            "is_current_stream_capturing": lambda: self.current.stream.capture is not None,
            "empty_cache": self.empty_cache,
            "mem_get_info": lambda device=None: (
                self.device(device).total_bytes - self.device(device).used_bytes,
                self.device(device).total_bytes,
            ),
            "memory_allocated": lambda device=None: self.device(device).allocated_bytes,
            "memory_reserved": lambda device=None: self.device(device).used_bytes,
            "max_memory_allocated": lambda device=None: self.device(device).most_bytes,
            "reset_peak_memory_stats": lambda device=None: self.device(device).reset_most(),
            "get_device_properties": self.properties,
            "get_device_name": lambda device=None: self.properties(device).name,
            "get_device_capability": lambda device=None: (9, 0),
            "is_bf16_supported": lambda including_emulation=True: True,
            "set_sync_debug_mode": self.set_sync_debug_mode,
        }


@contextlib.contextmanager
def simulated_cuda(
    devices: int = 1, memory_bytes: int = 16 * GIB, *, frees_workspaces: bool = False
) -> Iterator[SimulatedCuda]:
    """torch.cuda with so many devices, in this thread. Tensors of the simulation are of no use after it.
    frees_workspaces: whether a graph that is freed frees the cuBLAS workspace of its capture stream; versions of
    PyTorch differ."""
    cuda = SimulatedCuda(devices, memory_bytes, frees_workspaces=frees_workspaces)
    set_no_op_guard()
    with contextlib.ExitStack() as stack:
        for name, value in cuda.replacements().items():
            stack.enter_context(mock.patch.object(torch.cuda, name, value))
        # below `graph_pool_handle`, which callers may have bound by name
        stack.enter_context(mock.patch("torch.cuda.graphs._graph_pool_handle", cuda.new_pool_id))
        # made once for a process, on the device that is current then
        stack.enter_context(mock.patch.object(torch.cuda.graph, "default_capture_stream", None))
        stack.enter_context(mock.patch.dict(cuda_graph._idle_streams, clear=True))  # of earlier simulations
        # a CPU build has no such function, which torch.cuda.graph calls
        stack.enter_context(mock.patch.object(torch._C, "_host_emptyCache", lambda: None, create=True))
        # the driver is not there; `operators.launch` stands for it
        stack.enter_context(mock.patch.object(selection, "launcher", lambda device: cuda.operators.launch))
        stack.enter_context(mock.patch.object(exactness, "TENSORS", {*exactness.TENSORS, SimulatedTensor}))
        # asks the build for cuDNN, and warns that it has none
        stack.enter_context(mock.patch("torch.backends.cudnn.is_acceptable", lambda tensor: False))
        # torch.tensor(..., device="cuda") makes a CPU tensor and copies it, instead of asking the build for CUDA
        torch._C._set_only_lift_cpu_tensors(True)
        stack.callback(torch._C._set_only_lift_cpu_tensors, False)
        stack.enter_context(DeviceIndices(cuda))
        stack.enter_context(cuda.operators)
        yield cuda


def set_no_op_guard() -> None:
    """PyTorch selects a tensor's device by the guard of its device type. A CPU build has none for CUDA and refuses
    tensors that claim it, so this registers the one of `meta`, which does nothing (c10/core/impl/DeviceGuardImpl
    Interface.h). It stays: without a GPU nothing else asks for it."""
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"))
    registry = (ctypes.c_void_p * 24).in_dll(library, "_ZN3c104impl26device_guard_impl_registryE")
    cuda, meta = 1, 14  # c10/core/DeviceType.h
    if not registry[cuda]:
        registry[cuda] = registry[meta]
