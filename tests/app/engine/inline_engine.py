"""Requests answered by a scheduler in this process: real texts, tokens and networks, and no process to wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, cast

from app.engine.admission import Admission
from app.engine.dispatch.dispatcher import Dispatcher
from app.engine.dispatch.supervisor import Supervisor
from app.engine.interface import TranslationRequest
from app.engine.metrics import Metrics
from app.engine.protocol import messages as m
from app.engine.tasks.alignment_task import AlignmentTask
from app.engine.tasks.attention_task import AttentionTask
from app.engine.tasks.gates_task import GatesTask
from app.engine.tasks.generation_task import GenerationTask
from app.engine.tasks.translation_task import TranslationTask
from app.engine.worker.model_runner import ModelRunner
from app.engine.worker.scheduler import Scheduler
from models.child_process import HEADER
from models.decoding.options import DecodingOptions
from tests.app.engine.frames import framed
from tests.app.engine.registries import read_registry
from tests.request_builders import translation_request

SLOTS = 8


class Inline:
    """A device in the same process. sent: every message to it, after serialization; change: a hook for its replies."""

    def __init__(self, root: Path, beam_size: int = 4, change: Callable[[Any], Any] = lambda reply: reply) -> None:
        self.registry, self.scheduler = read_registry(root), Scheduler(ModelRunner("cpu", 1, slots=SLOTS))
        for edition in self.registry.versions.values():
            (loaded,) = self.scheduler.handle(m.Load(edition.key, str(edition.folder)))
            assert isinstance(loaded, m.Loaded)
            self.scheduler.queues[edition.key].model.gradual = False
        self.name, self.outstanding_tokens, self.process, self.change = "cpu", 0, self, change
        self.sent, self.admission = list[Any](), Admission(64, 4096, slots=SLOTS)
        self.metrics = Metrics()
        dispatcher = Dispatcher(cast(Supervisor, self), 30.0, self.metrics)
        rooms = self.registry, self.admission, dispatcher
        self.translating = TranslationTask(*rooms, DecodingOptions(beam_size=beam_size, length_penalty=1.0), SLOTS)
        self.attending = AttentionTask(*rooms, self.translating)
        self.looking = GatesTask(*rooms)
        self.continuing, self.aligning, self.dispatcher = GenerationTask(*rooms), AlignmentTask(*rooms), dispatcher

    def least_busy(self, model: str) -> Inline:
        return self

    def send(self, messages: list[Any]) -> None:
        crossed = m.to_device(framed(messages)[HEADER.size :])
        self.sent += crossed
        for message in crossed:
            self._tell(self.scheduler.handle(message))
        asyncio.get_running_loop().call_soon(self._work)

    def _work(self) -> None:
        if self.scheduler.busy:
            self._tell(self.scheduler.step())
            asyncio.get_running_loop().call_soon(self._work)

    def _tell(self, replies: Sequence[Any]) -> None:
        for reply in m.from_device(framed([self.change(answer) for answer in replies])[HEADER.size :]):
            self.dispatcher.reply(reply)

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run(work)

    def translate(self, *requests: TranslationRequest) -> Any:
        return self.do(self.translating.translate(requests))


def german_request(text: str = "ich möchte ein bier", **change: Any) -> TranslationRequest:
    return translation_request(text, "de", "en", **change)
