"""The front end of the engine: starts and stops what the others stand on, and says what is loaded."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager

from app.engine import errors, intake
from app.engine import messages as m
from app.engine.admission import Admission
from app.engine.aligning import Aligning
from app.engine.attending import Attending
from app.engine.continuing import Continuing
from app.engine.curves import Journals, TrainingCurves
from app.engine.devices import Devices
from app.engine.entrance import Entrance
from app.engine.insights import GatesJob, GatesReport, ScoreJob, ScoreReport
from app.engine.jobs import (
    AlignedWord,
    Generation,
    GenerationJob,
    ModelChange,
    ModelInfo,
    PoolStatus,
    Translation,
    TranslationJob,
)
from app.engine.library import Edition, Library
from app.engine.look_jobs import AttentionJob, AttentionReport, WalkthroughJob, WalkthroughReport
from app.engine.metrics import Metrics
from app.engine.options import PoolOptions
from app.engine.placement import cpu_workers, device_names
from app.engine.scoring import Scoring
from app.engine.shelf import Shelf, load_again_message
from app.engine.streaming import TextStream
from app.engine.switchboard import Switchboard
from app.engine.tracing import Tracing
from app.engine.translating import Translating

log = logging.getLogger(__name__)

__all__ = ["Pool", "PoolOptions"]


class Pool:
    """Implements `app.engine.jobs.Engine` over device processes."""

    def __init__(self, options: PoolOptions, metrics: Metrics | None = None) -> None:
        self.options, self.metrics = options, metrics or Metrics()
        self.library = Library()
        names = device_names(options.devices, cpu_workers(options.cpu_workers))
        self.admission = Admission(
            options.max_inflight_requests,
            options.max_queued_source_tokens,
            slots=options.slots_per_model * len(names),
            max_queue_age_s=options.max_queue_age_s,
        )
        self.devices = Devices(
            names,
            configure=options.configure(),
            start_timeout_s=options.worker_start_timeout_s,
            hang_timeout_s=options.worker_hang_timeout_s,
            to_load=lambda: {edition.key: load_again_message(edition) for edition in self.library.checkpoints.values()},
            on_reply=lambda message: self.switchboard.reply(message),
            on_failure=lambda key, problem: self.library.drop(m.plain_name(key), problem),
            on_death=self._device_died,
            on_beat=self._device_beat,
        )
        self.switchboard = Switchboard(
            self.devices, options.request_timeout_s, self.metrics, self.admission.retry_after_s
        )
        longest_s = 2 * options.request_timeout_s + 1  # attention asks twice
        self.shelf = Shelf(options.checkpoints, self._known, self.devices, longest_s)
        self.entrance = Entrance(self._known, self.shelf, self.admission, options.max_queue_age_s)
        self._translating = Translating(
            self.entrance, self.switchboard, options.beam_size, options.length_penalty, options.slots_per_model
        )
        self._aligning = Aligning(self.entrance, self.switchboard)
        self._continuing = Continuing(self.entrance, self.switchboard)
        self._attending = Attending(self.entrance, self.switchboard, self._translating)
        self._tracing = Tracing(self.entrance, self.switchboard)
        self._scoring = Scoring(self.entrance, self.switchboard)
        self._told: tuple[tuple[list[Edition], list[set[str]]], list[ModelInfo]] = ([], []), []
        self._journals = Journals()
        self._read = False
        self._starting: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Returns at once; models load in the background and `status` says how far they are."""
        self._starting = asyncio.create_task(self._start())

    async def _start(self) -> None:
        self.library = await asyncio.to_thread(Library.read, self.options.checkpoints)
        self._read = True
        for problem in self.library.problems.values():
            log.error("%s", problem)
        if self.entrance.draining:
            return
        if self.library.checkpoints:
            self.devices.spawn_all()
        else:
            self.devices.leave_idle()

    async def drain(self) -> None:
        """Refuse new work and be ready for none; what is in flight may finish until the drain timeout."""
        self.entrance.draining = True
        if self._starting is not None:
            await self._starting
        await self.switchboard.drain(self.options.drain_timeout_s)

    async def stop(self) -> None:
        """Drain, then end the processes."""
        await self.drain()
        await self.shelf.stop()
        await self.devices.stop()

    def _device_beat(self, device: str, beat: m.Beat) -> None:
        self.metrics.beat(device, beat)
        for lane in beat.lanes:
            self.admission.wasted(m.plain_name(lane.model), lane.done.cancelled_work)

    def _device_died(self, device: str) -> None:
        count = self.metrics.device_gone if self.entrance.draining else self.metrics.device_died
        count(device)
        self.switchboard.device_died(device)

    # What is loaded ---------------------------------------------------------------------------------------

    def status(self) -> PoolStatus:
        devices = {name: device.state for name, device in self.devices.all.items()}
        able = [device for device in self.devices.all.values() if device.state == "ready" and device.loaded]
        problems = [*self.library.problems.values(), *self.devices.problems()]
        if self._read and not self.library.checkpoints and not self.library.problems:
            problems.append("Every model was unloaded; load one to be ready again.")
        if self.entrance.draining:
            problems.append("The service is shutting down.")
        ready = self._read and bool(self.library.checkpoints) and bool(able) and not self.entrance.draining
        return PoolStatus(ready, devices, len(self.library.checkpoints), tuple(problems))

    def models(self) -> list[ModelInfo]:
        """The models that at least one device has loaded."""
        held = list(self.library.checkpoints.values()), [set(device.loaded) for device in self.devices.all.values()]
        if held != self._told[0]:  # every request asks, and it seldom changes
            infos = [self._info(edition) for edition in held[0]]
            self._told = held, [info for info in infos if info.devices]
        return list(self._told[1])

    def _info(self, checkpoint: Edition) -> ModelInfo:
        config = checkpoint.config
        holders = [device for device in self.devices.all.values() if checkpoint.key in device.loaded]
        precisions = dict.fromkeys(device.precisions[checkpoint.key] for device in holders)
        return ModelInfo(
            name=checkpoint.name,
            kind=config.kind,
            architecture=str(config.architecture["name"]),
            parameters=config.parameters,
            source_language=config.source_language,
            target_language=config.target_language,
            vocabulary=checkpoint.tokenizers["target"].size,
            max_source_tokens=config.max_source_tokens or None,
            max_new_tokens=config.max_new_tokens,
            devices=tuple(device.name for device in holders),
            scores=config.scores,
            version=checkpoint.version,
            precision=", ".join(precisions) or None,
            licence=checkpoint.licence,
            loaded_at=checkpoint.loaded_at,
        )

    async def curves(self, name: str) -> TrainingCurves:
        return await self._journals.curves(self.shelf.loaded(name).folder)

    async def load_model(self, name: str) -> ModelChange:
        return await self._change(name, self.shelf.load)

    async def reload_model(self, name: str) -> ModelChange:
        return await self._change(name, self.shelf.reload)

    async def unload_model(self, name: str) -> ModelChange:
        return await self._change(name, self.shelf.unload)

    async def _change(self, name: str, change: Callable[[str], Awaitable[Edition]]) -> ModelChange:
        self.entrance.refuse_when_draining()
        began = time.monotonic()
        edition = await change(name)
        return ModelChange(self._info(edition), time.monotonic() - began)

    def _known(self) -> Library:
        """The checkpoints, once they are read: before that, nobody can say which ones are missing."""
        if not self._read:
            raise errors.EngineUnavailable("Models are still loading; try again in a few seconds.", reason="loading")
        return self.library

    # Requests ---------------------------------------------------------------------------------------------

    def check_room(self) -> None:
        self.entrance.check_room()

    async def translate(self, jobs: Sequence[TranslationJob]) -> list[Translation]:
        return await self._translating.translate(jobs)

    def stream_translation(self, job: TranslationJob) -> AbstractAsyncContextManager[TextStream[Translation]]:
        return self._translating.stream(job)

    def source_room(self, model: str | None, source_language: str, target_language: str) -> int:
        return intake.room(self.entrance.library().for_pair(source_language, target_language, model))

    async def source_tokens(
        self, model: str | None, source_language: str, target_language: str, texts: Sequence[str]
    ) -> list[int]:
        checkpoint = self.entrance.library().for_pair(source_language, target_language, model)
        return await intake.aside(sum(map(len, texts)), lambda: intake.counts(checkpoint, texts))

    async def align(
        self, model: str | None, source_language: str, target_language: str, pairs: Sequence[tuple[str, str]]
    ) -> list[tuple[AlignedWord, ...]]:
        return await self._aligning.align(model, source_language, target_language, pairs)

    async def generate(self, job: GenerationJob) -> Generation:
        return await self._continuing.generate(job)

    def stream_generation(self, job: GenerationJob) -> AbstractAsyncContextManager[TextStream[Generation]]:
        return self._continuing.stream(job)

    async def attention(self, job: AttentionJob) -> AttentionReport:
        return await self._attending.attention(job)

    async def walkthrough(self, job: WalkthroughJob) -> WalkthroughReport:
        return await self._attending.walkthrough(job)

    async def gates(self, job: GatesJob) -> GatesReport:
        return await self._tracing.gates(job)

    async def score(self, job: ScoreJob) -> ScoreReport:
        return await self._scoring.score(job)
