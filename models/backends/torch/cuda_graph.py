"""CUDA graphs: a step's kernels launched as one, at a tenth of the host's time.

A graph is recorded for few shapes of a step; rows and lengths are rounded up to the next of them. Its tensors stay
where they are, so tokens are copied in and logits are read before the next step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from models.interface import Decodable, Prompt


class StepShape(NamedTuple):
    """The numbers that a step's tensors are cut to. rows: live ones; group: so many in turn read one source; length,
    width: target positions (the new one included) and source positions that are in use; ragged: whether some rows
    use fewer."""

    rows: int
    group: int
    length: int
    width: int
    ragged: bool = True
    source_ragged: bool = True

    def rounded(self, slots: int, length: int, width: int) -> StepShape:
        """The next larger one of few, within slots of so many source and target positions: powers of two of rows (of
        beams where these stand in groups), of positions from 32 on."""
        beams = min(round_up(-(-self.rows // self.group)), slots // self.group)
        return StepShape(
            beams * self.group,
            self.group,
            min(max(32, round_up(self.length)), length),
            min(max(32, round_up(self.width)), width),
        )


def round_up(number: int) -> int:
    """To a power of two."""
    return 1 << max(0, number - 1).bit_length()


class Recordable(Decodable, Protocol):
    """A `Decodable` whose step has three parts: what the host knows, what the device does, what the host counts."""

    def shape(self, state: Any, rows: int, group: int) -> StepShape: ...

    def advance(self, state: Any, tokens: Tensor, shape: StepShape) -> Tensor: ...

    def stepped(self, state: Any, rows: int) -> None: ...


@dataclass(slots=True)
class Recording:
    """One shape's graph and where it leaves its logits."""

    replay: Callable[[], None]
    logits: Tensor


@dataclass(slots=True)
class GraphedState:
    """The network's own state, the tokens that the graphs read, [slots], and the graphs, which know both."""

    inner: Any
    tokens: Tensor
    slots: int
    source_length: int
    target_length: int
    recordings: dict[StepShape, Recording] = field(default_factory=dict)


def cuda_graph(run: Callable[[], Tensor]) -> Recording:
    """Record what `run` launches, without running it; all graphs of a device share one pool of memory."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=_pool()):
        logits = run()
    return Recording(graph.replay, logits)


_pool = cache(torch.cuda.graph_pool_handle)


class Graphed:
    """A `Decodable` that steps `network` by graphs. record: how a step is recorded (tests have no CUDA)."""

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
        shape = self.network.shape(state.inner, count, group)
        shape = shape.rounded(state.slots, state.target_length, state.source_length)
        logits = self._run(state, shape)
        self.network.stepped(state.inner, count)
        return logits[:count]

    def _run(self, state: GraphedState, shape: StepShape) -> Tensor:
        recording = state.recordings.get(shape)
        if recording is not None:
            recording.replay()
            return recording.logits

        def run() -> Tensor:
            return self.network.advance(state.inner, state.tokens[: shape.rows], shape)

        logits = run()  # the first time for real: libraries set themselves up, which must not be recorded
        state.recordings[shape] = self.record(run)
        return logits

    def warm_up(self, state: GraphedState, groups: Sequence[int] = (1,)) -> int:
        """Record the shapes of short sequences ahead of the first request, for any number of rows; longer ones are
        recorded when they first come. Only before anything was prefilled. Returns how many graphs there are."""
        prompt = Prompt((1,) * min(2, state.source_length), (1,))
        for group in groups:
            most = state.slots // group
            for beams in {min(1 << power, most) for power in range(most.bit_length() + 1)}:
                rows = beams * group
                self.network.prefill(state.inner, range(rows), [prompt] * rows)
                self.step(state, state.tokens[:rows].clone(), group)
        return len(state.recordings)
