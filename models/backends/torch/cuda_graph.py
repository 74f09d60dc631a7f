"""CUDA graphs: all kernels of a step in one launch, at a tenth of the host's time. Rows and lengths are rounded up to
few recorded shapes. Tensors are static: tokens are copied in, and logits must be read before the next step."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from models.interface import Decodable, Prompt


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


@dataclass(slots=True)
class GraphedState:
    """The network's own state, the graphs' input tokens [slots], and the recorded graphs: by shape, and by what they do
    beside a plain step."""

    inner: Any
    tokens: Tensor
    slots: int
    source_length: int
    target_length: int
    recordings: dict[tuple[StepShape, Hashable], Recording] = field(default_factory=dict)


def cuda_graph(run: Callable[[], Tensor]) -> Recording:
    """Captures the launches of `run` without executing them. All graphs of a device share one memory pool."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=_pool()):
        logits = run()
    return Recording(graph.replay, logits)


_pool = cache(torch.cuda.graph_pool_handle)


class Graphed:
    """A `Decodable` that steps `network` with graphs. record: captures a step; replaceable for tests without CUDA."""

    def __init__(self, network: Recordable, record: Callable[[Callable[[], Tensor]], Recording] = cuda_graph) -> None:
        self.network, self.record = network, record

    @property
    def device(self) -> torch.device:
        return self.network.device

    def allocate(self, slots: int, source_length: int, target_length: int) -> GraphedState:
        tokens = torch.zeros(slots, dtype=torch.long, device=self.device)
        inner = self.network.allocate(slots, source_length, target_length)
        return GraphedState(inner, tokens, slots, source_length, target_length)

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
        """Replays the graph of this shape and variant, or runs `step` and records it. Returns the static result."""
        recording = state.recordings.get((shape, variant))
        if recording is not None:
            recording.replay()
            return recording.logits
        result = step()  # the first run is eager: libraries initialise themselves, which must not be captured
        state.recordings[shape, variant] = self.record(step)
        return result

    def warm_up(self, state: GraphedState, groups: Sequence[int] = (1,)) -> int:
        """Records the shapes of short sequences for any number of rows before the first request; longer shapes are
        recorded on demand. Only valid before any prefill. Returns the number of graphs."""
        prompt = Prompt((1,) * min(2, state.source_length), (1,))
        for group in groups:
            most = state.slots // group
            for beams in {min(1 << power, most) for power in range(most.bit_length() + 1)}:
                rows = beams * group
                self.network.prefill(state.inner, range(rows), [prompt] * rows)
                self.step(state, state.tokens[:rows].clone(), group)
        return len(state.recordings)
