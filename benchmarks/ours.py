"""Parlance as served: the engine's own runner, in processes like the server's device processes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.engine.protocol import messages as m
from app.engine.protocol.messages import Load
from benchmarks.processes import Work
from models.decoding.options import DecodingOptions
from models.interface import Prompt

if TYPE_CHECKING:
    from app.engine.worker.model_runner import LoadedModel

PRECISIONS = ("auto", "int8", "bf16", "fp32")  # the server's default first


@dataclass(frozen=True, slots=True)
class Parlance:
    """threads: of each process, 0 for all cores. slots: rows that a process works on at once."""

    folder: str
    processes: int
    threads: int
    precision: str
    slots: int = 64
    device: str = "cpu"

    def __str__(self) -> str:
        return f"{self.precision}, {self.processes} × {self.threads or 'all'} threads"

    def open(self) -> Opened:
        return Opened(self)

    def tokens(self, answer: Any) -> list[list[int]]:
        return [list(tokens) for tokens in answer]


class Opened:
    def __init__(self, setting: Parlance) -> None:
        from app.engine.worker.model_runner import ModelRunner

        runner = ModelRunner(setting.device, setting.threads, setting.slots, setting.precision)
        runner.install("raced", runner.read(Load("raced", setting.folder)))
        self.model: LoadedModel = runner.models["raced"]
        self.slots = setting.slots

    def join(self, requests: Sequence[m.Decode]) -> None:
        self.model.decoder.join([(r.id, Prompt(tuple(r.source), tuple(r.prefix)), r.options) for r in requests])

    def requests(self, work: Work) -> Iterator[m.Decode]:
        config = self.model.config
        for number, (source, limit) in enumerate(zip(work.sources, work.limits, strict=True)):
            prefix = list(config.target_prefix)
            options = DecodingOptions(max_new_tokens=limit, beam_size=work.beam, scores=False, streamed=False)
            yield m.Decode(number, "raced", list(source), prefix, math.inf, options)

    def translate(self, work: Work) -> list[tuple[int, ...]]:
        """The tokens of each sentence, the end token left out."""
        return [tokens for _, tokens in sorted(self.run(work).items())]

    def run(self, work: Work) -> dict[int, tuple[int, ...]]:
        """A freed row is filled again once an eighth of the rows are free, as `models.decoding.decoder.decode` does it;
        long sources first."""
        result: dict[int, tuple[int, ...]] = {}
        waiting = sorted(self.requests(work), key=lambda request: len(request.source))
        concurrent = min(work.concurrent, self.slots // work.beam)
        active = 0
        while waiting or active:
            room = concurrent - active
            if waiting and (room * 8 >= concurrent or not active):
                joining = [waiting.pop() for _ in range(min(room, len(waiting)))]
                self.join(joining)
                active += len(joining)
            for key, hypotheses in self.model.decoder.step().finished:
                assert isinstance(key, int)
                result[key] = hypotheses[0].tokens
                active -= 1
        return result

    def answer(self, question: Any) -> Any:
        """benchmarks.gpu requests single steps: see `benchmarks.steps`."""
        return question.measure(self)
