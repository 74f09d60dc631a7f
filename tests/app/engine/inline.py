"""Requests answered by a scheduler in this process: real texts, tokens and networks, and no process to wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from app.engine import messages as m
from app.engine.admission import Admission
from app.engine.aligning import Aligning
from app.engine.attending import Attending
from app.engine.continuing import Continuing
from app.engine.devices import Devices
from app.engine.entrance import Entrance
from app.engine.jobs import TranslationJob
from app.engine.library import Library
from app.engine.metrics import Metrics
from app.engine.runner import Runner
from app.engine.scheduler import Scheduler
from app.engine.shelf import Shelf
from app.engine.switchboard import Switchboard
from app.engine.translating import Translating

SLOTS = 8


class Inline:
    """A device that is its own process. sent: all that was asked of it, as it crosses; change: what is made of its
    answers on their way."""

    def __init__(self, root: Path, beam_size: int = 4, change: Callable[[Any], Any] = lambda reply: reply) -> None:
        self.library, self.scheduler = Library.read(root), Scheduler(Runner("cpu", 1, slots=SLOTS))
        for edition in self.library.checkpoints.values():
            (loaded,) = self.scheduler.handle(m.Load(edition.key, str(edition.folder)))
            assert isinstance(loaded, m.Loaded)
            self.scheduler.lanes[edition.key].model.gradual = False
        self.name, self.outstanding_tokens, self.process, self.change = "cpu", 0, self, change
        self.sent, self.admission = list[Any](), Admission(64, 4096, slots=SLOTS)
        board = Switchboard(cast(Devices, self), 30.0, Metrics())
        entrance = Entrance(lambda: self.library, cast(Shelf, self), self.admission, 30.0)
        self.translating = Translating(entrance, board, beam_size, 1.0, SLOTS)
        self.attending = Attending(entrance, board, self.translating)
        self.continuing, self.aligning, self.board = Continuing(entrance, board), Aligning(entrance, board), board

    @contextmanager
    def in_use(self, editions: object) -> Iterator[None]:
        yield

    def least_busy(self, model: str) -> Inline:
        return self

    def send(self, messages: list[Any]) -> None:
        crossed = m.to_device(m.frame(messages)[m.HEADER.size :])
        self.sent += crossed
        for message in crossed:
            self._tell(self.scheduler.handle(message))
        asyncio.get_running_loop().call_soon(self._work)

    def _work(self) -> None:
        if self.scheduler.busy:
            self._tell(self.scheduler.step())
            asyncio.get_running_loop().call_soon(self._work)

    def _tell(self, replies: Sequence[Any]) -> None:
        for reply in m.from_device(m.frame([self.change(each) for each in replies])[m.HEADER.size :]):
            self.board.reply(reply)

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run(work)

    def translate(self, *jobs: TranslationJob) -> Any:
        return self.do(self.translating.translate(jobs))


def job(text: str = "ich möchte ein bier", **change: Any) -> TranslationJob:
    return TranslationJob(text, "de", "en", **change)
