"""Models without weights for a scheduler in this process, whose steps, prefills and loads fail when a test says so.

Each request is known to the network by the first token of its source (`source_of`), so that the network can tell for
whom it computes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import torch
from torch import Tensor

from app.engine.protocol import messages as m
from app.engine.worker.model_runner import LoadResult, ModelLoader, ModelRunner, PreparedModel
from models.backends.select import Selection
from models.checkpoint import CheckpointConfig, CheckpointError
from models.decoding.options import TokenRules
from models.interface import Prompt
from tests.models.scripted import History, Scripted

FIRST, POISON = 1000, 999  # the source token of request 0; a source token that no prefill survives
EOS, SUPPRESSED, VOCABULARY = 2, (0, 1), 9
SOURCE_TOKENS, NEW_TOKENS, START = 10, 6, 1
TARGET_TOKENS = 1 + 2 * NEW_TOKENS  # positions of a slot


class InjectedError(RuntimeError):
    """An error of the network that a test has ordered."""


def injected(kind: str) -> Exception:
    return torch.OutOfMemoryError("CUDA out of memory.") if kind == "memory" else InjectedError("a hiccup")


def source_of(request: int, *tokens: int) -> list[int]:
    return [FIRST + request, *tokens]


def rules_of(folder: int) -> TokenRules:
    """Of the model in this folder: every kind of rules that checkpoints have."""
    eos = None if folder % 5 == 4 else EOS
    return TokenRules(eos, SUPPRESSED, renormalise=folder % 2 == 0, forced_end=eos is not None and folder % 3 == 2)


class FaultyNetwork(Scripted):
    """step_fault: an error, and the number of rows that the failing step has read by then. prefill_faults: errors of
    the next prefills. What it has done since the last `forget`: computed, for which requests; rows, of each request in
    each step; lost, the requests of each failed step; refused: those whose prefill failed while no other shared it.
    violations: what no caller of a network may do."""

    _known: ClassVar[dict[tuple[int, History], list[float]]] = {}

    def __init__(self, seed: int) -> None:
        super().__init__(VOCABULARY, seed=seed)
        self.step_fault: tuple[Exception, int] | None = None
        self.prefill_faults: list[Exception] = []
        self.prefilled: set[int] = set()
        self.violations: list[str] = []
        self.forget()

    def forget(self) -> None:
        self.computed: set[int] = set()
        self.rows: list[Counter[int]] = []
        self.lost: list[set[int]] = []
        self.refused: set[int] = set()

    def logits(self, history: History) -> list[float]:
        if (self.seed, history) not in self._known:
            self._known[self.seed, history] = super().logits(history)
        return list(self._known[self.seed, history])

    @contextmanager
    def _recorded(self) -> Iterator[None]:
        """A scheduler takes any exception for a failed step, an assertion too."""
        try:
            yield
        except Exception as error:
            self.violations.append(f"{type(error).__name__}: {error}")
            raise

    def prefill(self, state: list[History | None], rows: Sequence[int], prompts: Sequence[Prompt]) -> None:
        requests = [prompt.source[0] - FIRST for prompt in prompts]
        self.computed.update(requests)
        self.prefilled.update(requests)
        error = self.prefill_faults.pop() if self.prefill_faults else None
        if error is None and any(POISON in prompt.source for prompt in prompts):
            error = InjectedError("poisoned")
        if error is not None:
            for row in rows[: len(rows) // 2 + 1]:  # half done
                state[row] = None
            if len(prompts) == 1:
                self.refused.update(requests)
            raise error
        with self._recorded():
            super().prefill(state, rows, prompts)

    def step(self, state: list[History | None], tokens: Tensor, group: int = 1) -> Tensor:
        self._begin(state, tokens, group)
        with self._recorded():
            return super().step(state, tokens, group)

    def likeliest(self, state: list[History | None], tokens: Tensor, suppressed: tuple[int, ...]) -> Tensor:
        self._begin(state, tokens, 1)
        with self._recorded():
            logits = super().step(state, tokens)
        logits[:, list(suppressed)] = -torch.inf
        return logits.argmax(dim=1)

    def _begin(self, state: list[History | None], tokens: Tensor, group: int) -> None:
        """Notes whose rows the step has; raises the ordered error when it has read some of them."""
        with self._recorded():
            histories = state[: len(tokens)]
            assert None not in histories, "a row is stepped and was never filled"
            sources = [history[0] for history in histories if history is not None]
            for first in range(0, len(sources), group):
                assert len({*sources[first : first + group]}) == 1, "a group of rows has two sources"
        rows = Counter(source[0] - FIRST for source in sources)
        self.computed.update(rows)
        self.rows.append(rows)
        if self.step_fault is not None:
            (error, read), self.step_fault = self.step_fault, None
            super().step(state, tokens[:read])
            self.lost.append({*rows})
            raise error

    def copy(
        self,
        state: list[History | None],
        sources: Sequence[int],
        destinations: Sequence[int],
        since: Sequence[int] | None = None,
    ) -> None:
        with self._recorded():
            super().copy(state, sources, destinations, since)


class ScriptedRunner(ModelRunner):
    """Its checkpoints are folders with the names 0, 1, 2 ...: the even ones are translators, the odd ones language
    models. broken: folders that cannot be read. install_fault: of the next model. lost: the device fails its check."""

    def __init__(self, slots: int) -> None:
        super().__init__("cpu", 0, slots)
        self.broken: set[str] = set()
        self.install_fault: Exception | None = None
        self.lost = False

    def check(self) -> None:
        if self.lost:
            raise RuntimeError("the device is lost")

    def read(self, load: m.Load) -> PreparedModel:
        if load.folder in self.broken:
            raise CheckpointError(f"{load.folder} is broken.")
        folder = int(load.folder)
        network, rules = FaultyNetwork(folder), rules_of(folder)
        config = CheckpointConfig(
            kind="lyrics" if folder % 2 else "translator",
            architecture={},
            target_prefix=(START,),
            eos=rules.eos,
            suppressed=rules.suppressed,
            renormalise=rules.renormalise,
            forced_end=rules.forced_end,
            max_source_tokens=0 if folder % 2 else SOURCE_TOKENS,
            max_new_tokens=NEW_TOKENS,
        )
        checkpoint = cast(Any, SimpleNamespace(config=config))
        return PreparedModel(cast(Any, network), Selection(network, "fp32", False, "it is scripted"), checkpoint)

    def install(self, name: str, prepared: PreparedModel, to_come: Sequence[m.Load] = ()) -> None:
        if self.install_fault is not None:
            error, self.install_fault = self.install_fault, None
            raise error
        super().install(name, prepared, to_come)

    def network(self, name: str) -> FaultyNetwork:
        return cast(FaultyNetwork, self.models[name].network)


class ScriptedLoader(ModelLoader):
    """Reads in the calling thread, when the test says so."""

    def __init__(self, runner: ScriptedRunner) -> None:
        self._runner, self.waiting = runner, list[m.Load]()

    def begin(self, message: m.Load) -> None:
        self.waiting.append(message)

    def next_result(self) -> LoadResult:
        return LoadResult.of(self.waiting.pop(0), self._runner.read)
