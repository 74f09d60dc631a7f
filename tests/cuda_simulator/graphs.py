"""torch.cuda.CUDAGraph: records the operators of a capture and runs them again on the same memory."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from tests.cuda_simulator.device import GraphPool, Memory, PoolId, SimulatedDevice
from tests.cuda_simulator.streams import HazardError, Stream

if TYPE_CHECKING:
    from tests.cuda_simulator.simulator import SimulatedCuda


class Recorded(NamedTuple):
    """An operator on CPU tensors. outputs: new tensors, whose memory belongs to the graph."""

    name: str
    operator: Callable[..., Any]
    args: Any
    kwargs: dict[str, Any]
    outputs: tuple[Tensor, ...]


class UsedMemory:
    """Memory that a graph uses and that was not allocated in its capture. operator: the first that uses it."""

    def __init__(self, memory: Memory, operator: str) -> None:
        self.operator, self._pool = operator, memory.pool
        self._allocations_at_end = -1
        self._memory = weakref.ref(memory, self._freed)

    def _freed(self, _: object) -> None:
        if self._pool is not None:
            self._allocations_at_end = self._pool.allocations

    def reusable(self, graphs: GraphPool) -> bool:
        """Whether something else may hold data there by now. Memory that returned to the graph's own pool stays mapped,
        and is given to the next capture in it."""
        if self._memory() is not None:
            return False
        return self._pool is not graphs or graphs.allocations > self._allocations_at_end


class Capture:
    """A capture under way on a stream. inputs: by the id of its memory."""

    def __init__(self, device: SimulatedDevice, stream: Stream, pool: GraphPool) -> None:
        self.device, self.stream, self.pool = device, stream, pool
        self.operators: list[Recorded] = []
        self.inputs: dict[int, UsedMemory] = {}
        self.own = weakref.WeakSet[Memory]()
        self.outputs: list[tuple[weakref.ref[Memory], Tensor]] = []
        self.invalid = False

    def illegal(self, what: str) -> RuntimeError:
        self.invalid = True
        return torch.AcceleratorError(
            f"CUDA error: operation not permitted when stream is capturing ({what}; cudaErrorStreamCaptureUnsupported)"
        )

    def uses(self, name: str, memory: Memory, *, lasting: bool = False) -> None:
        """lasting: memory that stays allocated after the capture though the capture may have allocated it."""
        if (lasting or memory not in self.own) and id(memory) not in self.inputs:
            self.inputs[id(memory)] = UsedMemory(memory, name)

    def made(self, memory: Memory, held: Tensor) -> None:
        self.own.add(memory)
        self.outputs.append((weakref.ref(memory), held))

    def end(self) -> None:
        """Nothing has run: what the capture's tensors hold is undefined until the first replay."""
        for memory, held in self.outputs:
            if memory() is not None and held.is_floating_point():
                held.fill_(torch.nan)
        self.outputs.clear()


class SimulatedGraph:
    """Captures on the current stream. Raises what torch raises for a pool in a wrong state, a capture that an operator
    has invalidated, and a replay after `reset`; `HazardError` for a replay that reads freed memory."""

    def __init__(self, cuda: SimulatedCuda) -> None:
        self._cuda, self._pool_id = cuda, cuda.new_pool_id()
        self._capture: Capture | None = None
        self._recorded: Capture | None = None
        self._pool: GraphPool | None = None

    def capture_begin(self, pool: PoolId | None = None, **_: Any) -> None:
        device = self._cuda.current
        device.check()
        stream = device.stream
        if stream is device.default_stream:
            raise RuntimeError("CUDA graphs must be captured on a non-default stream.")
        if self._cuda.capture is not None:
            raise RuntimeError("another capture is under way")
        if self._recorded is not None:
            raise RuntimeError("This CUDAGraph instance already owns a captured graph.")
        self._pool_id = self._pool_id if pool is None else pool
        self._pool = device.use_pool(self._pool_id)
        self._capture = self._cuda.capture = stream.capture = Capture(device, stream, self._pool)

    def capture_end(self) -> None:
        capture = self._capture
        assert capture is not None, "no capture was begun"
        self._capture = self._cuda.capture = capture.stream.capture = None
        if self._cuda.current.stream is not capture.stream:
            raise RuntimeError("Capture must end on the same stream it began on.")
        if capture.invalid:
            self._release_pool()
            raise torch.AcceleratorError("CUDA error: operation failed due to a previous error during capture")
        capture.end()
        capture.device.counts.recorded_graphs += 1
        if not capture.operators:
            warnings.warn(
                "The CUDA Graph is empty. This usually means that the graph was attempted to be captured on wrong"
                " device or stream.",
                stacklevel=2,
            )
        self._recorded = capture
        self._cuda.graphs.add(self)

    def replay(self) -> None:
        """Runs outside of all modes, and below autograd, as a graph's kernels do."""
        recorded = self._recorded
        if recorded is None:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        recorded.device.check()
        if self._cuda.capture is not None:
            raise self._cuda.capture.illegal("a replay")
        for used in recorded.inputs.values():
            if used.reusable(recorded.pool):
                raise HazardError(f"a graph is replayed after memory was freed that its {used.operator} uses")
        recorded.device.counts.graph_launches += 1
        with _disable_current_modes(), torch.inference_mode():
            for operator in recorded.operators:
                result = operator.operator(*operator.args, **operator.kwargs)
                if len(operator.outputs) == 1:
                    operator.outputs[0].copy_(result if isinstance(result, Tensor) else result[0])
                elif operator.outputs:
                    for output, value in zip(operator.outputs, result, strict=True):
                        output.copy_(value)

    def reset(self) -> None:
        if self._recorded is not None and self._cuda.frees_workspaces:
            self._recorded.device.free_workspace(self._recorded.stream)
        self._recorded = None
        self._cuda.graphs.discard(self)
        self._release_pool()

    def _release_pool(self) -> None:
        if self._pool is not None:
            self._pool.uses -= 1
            self._pool = None

    def pool(self) -> PoolId:
        return self._pool_id

    def __del__(self) -> None:
        self.reset()
