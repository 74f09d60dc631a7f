"""CUDA graphs: all kernels of a step in one launch, at a tenth of the host's time. Rows and lengths are rounded up to
few recorded shapes. Tensors are static: tokens are copied in, and logits must be read before the next step."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from models.backends.memory import out_of_memory
from models.interface import Decodable, Prompt

log = logging.getLogger(__name__)


class StepShape(NamedTuple):
    """The sizes that a step's tensors are cut to. group: consecutive rows that share one source; length, width: target
    (the new one included) and source positions in use; ragged, source_ragged: whether some rows use fewer."""

    rows: int
    group: int
    length: int
    width: int
    ragged: bool = True
    source_ragged: bool = True

    def rounded(self, slots: int, length: int, width: int) -> StepShape:
        """The next larger recorded shape, within the slots and their lengths: powers of two for rows (beams if group >
        1) and for positions, from 32 on."""
        beams = min(round_up(-(-self.rows // self.group)), slots // self.group)
        return StepShape(
            beams * self.group,
            self.group,
            min(max(32, round_up(self.length)), length),
            min(max(32, round_up(self.width)), width),
        )


def round_up(number: int) -> int:
    """The next power of two."""
    return 1 << max(0, number - 1).bit_length()


class Recordable(Decodable, Protocol):
    """A `Decodable` with a step in three parts: `shape` on the host, `advance` on the device, `stepped` on the host.
    vocabulary: the number of logits of a row."""

    @property
    def vocabulary(self) -> int: ...

    def shape(self, state: Any, rows: int, group: int) -> StepShape: ...

    def advance(self, state: Any, tokens: Tensor, shape: StepShape) -> Tensor: ...

    def stepped(self, state: Any, rows: int) -> None: ...

    def reorder(self, state: Any, parents: Tensor, shape: StepShape) -> None:
        """After `advance`, on the device: row i takes the target tokens of row parents[i], for all rows at once.
        parents [rows]: rows with the same source and as many tokens; a row that keeps its own names itself."""
        ...


@dataclass(slots=True)
class Recording:
    """The graph of one shape and its static logits."""

    replay: Callable[[], None]
    logits: Tensor


class Recorder(Protocol):
    """Makes recordings of steps."""

    def record(self, step: Callable[[], Tensor]) -> Recording: ...


@dataclass(slots=True)
class GraphedState:
    """The network's own state, the graphs' input tokens [slots], and the recorded graphs: by shape, and by what they do
    beside a plain step. unrecorded: those for which there was no memory."""

    inner: Any
    recorder: Recorder
    tokens: Tensor
    slots: int
    source_length: int
    target_length: int
    recordings: dict[tuple[StepShape, Hashable], Recording] = field(default_factory=dict)
    unrecorded: set[tuple[StepShape, Hashable]] = field(default_factory=set)


class GraphRecorder:
    """Captures steps on one device. Its graphs share a pool of memory and a stream, and no other graph that is alive
    uses either: PyTorch refuses a pool after all graphs in it are freed, and frees the stream's cuBLAS workspace, which
    is in the pool, with any graph of the stream."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        idle = _idle_streams.setdefault(device, [])
        with torch.cuda.device(device):
            self._pool = torch.cuda.graph_pool_handle()
            self._stream = idle.pop() if idle else torch.cuda.Stream()  # type: ignore[no-untyped-call]
        weakref.finalize(self, idle.append, self._stream)

    def record(self, step: Callable[[], Tensor]) -> Recording:
        """Captures the launches of `step` without executing them, on this device, whichever is the current one. After
        an exception, later captures use a new pool: no other graph may hold the pool of the failed one."""
        graph, capture = torch.cuda.CUDAGraph(), torch.cuda.stream(self._stream)
        try:  # torch.cuda.graph leaves its stream the current one if the capture cannot be ended
            with torch.cuda.device(self.device), capture, torch.cuda.graph(graph, self._pool, self._stream):
                result = step()
        except BaseException:
            self._pool = torch.cuda.graph_pool_handle()
            raise
        return Recording(graph.replay, result)


_idle_streams: dict[torch.device, list[torch.cuda.Stream]] = {}
"""Streams of recorders that are gone. PyTorch has 32 for each device and would then give one to two recorders."""


class Graphed:
    """A `Decodable` that steps `network` with graphs. recorder: makes the recorder of one state."""

    def __init__(self, network: Recordable, recorder: Callable[[torch.device], Recorder] = GraphRecorder) -> None:
        self.network, self.recorder = network, recorder

    @property
    def device(self) -> torch.device:
        return self.network.device

    def allocate(self, slots: int, source_length: int, target_length: int) -> GraphedState:
        tokens = torch.zeros(slots, dtype=torch.long, device=self.device)
        inner = self.network.allocate(slots, source_length, target_length)
        return GraphedState(inner, self.recorder(self.device), tokens, slots, source_length, target_length)

    def prefill(self, state: GraphedState, rows: Sequence[int], prompts: Sequence[Prompt]) -> None:
        self.network.prefill(state.inner, rows, prompts)

    def copy(
        self,
        state: GraphedState,
        sources: Sequence[int],
        destinations: Sequence[int],
        since: Sequence[int] | None = None,
    ) -> None:
        self.network.copy(state.inner, sources, destinations, since)

    @torch.inference_mode()
    def step(self, state: GraphedState, tokens: Tensor, group: int = 1) -> Tensor:
        count = len(tokens)
        state.tokens[:count].copy_(tokens, non_blocking=True)
        shape = self.shape(state, count, group)
        logits = self.run(state, shape, lambda: self.network.advance(state.inner, state.tokens[: shape.rows], shape))
        self.network.stepped(state.inner, count)
        return logits[:count]

    def shape(self, state: GraphedState, rows: int, group: int) -> StepShape:
        """The recorded shape of the next step over `rows` rows."""
        shape = self.network.shape(state.inner, rows, group)
        return shape.rounded(state.slots, state.target_length, state.source_length)

    def run(
        self, state: GraphedState, shape: StepShape, step: Callable[[], Tensor], variant: Hashable = None
    ) -> Tensor:
        """Replays the graph of this shape and variant, or runs `step` and records it. Returns the static result. A
        graph for which there was no memory is not tried again."""
        recording = state.recordings.get((shape, variant))
        if recording is not None:
            recording.replay()
            return recording.logits
        return self._first_run(state, shape, step, variant)

    @torch.inference_mode()
    def _first_run(
        self, state: GraphedState, shape: StepShape, step: Callable[[], Tensor], variant: Hashable
    ) -> Tensor:
        result = step()  # the first run is eager: libraries initialise themselves, which must not be captured
        if (shape, variant) not in state.unrecorded:
            self._record(state, shape, step, variant)
        return result

    def _record(self, state: GraphedState, shape: StepShape, step: Callable[[], Tensor], variant: Hashable) -> None:
        try:
            state.recordings[shape, variant] = state.recorder.record(step)
        except Exception as error:
            if not (out_of_memory(error) or (error.__context__ is not None and out_of_memory(error.__context__))):
                raise
            state.unrecorded.add((shape, variant))
            rows, length = shape.rows, shape.length
            log.warning("no memory for the graph of %d rows of %d tokens: such steps run without one", rows, length)

    def warm_up(self, state: GraphedState, groups: Sequence[int] = (1,)) -> int:
        """Records the shapes of short sequences for any number of rows before the first request; longer shapes are
        recorded on demand. Only valid before any prefill. The largest come first: their pool's memory suffices for the
        others. Returns the number of graphs."""
        prompt = Prompt((1,) * min(2, state.source_length), (1,))
        for group in groups:
            most = state.slots // group
            for beams in sorted({min(1 << power, most) for power in range(most.bit_length() + 1)}, reverse=True):
                rows = beams * group
                self.network.prefill(state.inner, range(rows), [prompt] * rows)
                self.step(state, state.tokens[:rows].clone(), group)
        return len(state.recordings)
