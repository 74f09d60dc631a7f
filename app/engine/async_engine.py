"""The engine over device processes: what starts, loads and stops them, and the way of each request to its task."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager

from app.engine import errors, input_processor
from app.engine.admission import Admission, Entrance
from app.engine.dispatch.dispatcher import Dispatcher
from app.engine.dispatch.placement import cpu_workers, device_names
from app.engine.dispatch.supervisor import Supervisor
from app.engine.engine_settings import EngineSettings
from app.engine.interface import (
    AlignedWord,
    AttentionQuery,
    AttentionResult,
    GatesQuery,
    GatesResult,
    GenerationRequest,
    GenerationResult,
    ModelChange,
    ModelInfo,
    PoolStatus,
    ScoreQuery,
    ScoreResult,
    TranslationRequest,
    TranslationResult,
    WalkthroughQuery,
    WalkthroughResult,
)
from app.engine.metrics.collector import Metrics
from app.engine.output.text_stream import TextStream
from app.engine.protocol import messages as m
from app.engine.registry.model_lifecycle import ModelLifecycle, load_again_message
from app.engine.registry.model_registry import ModelRegistry, ModelVersion
from app.engine.registry.training_curves import CurveReader, TrainingCurves
from app.engine.tasks.alignment_task import AlignmentTask
from app.engine.tasks.attention_task import AttentionTask
from app.engine.tasks.gates_task import GatesTask
from app.engine.tasks.generation_task import GenerationTask
from app.engine.tasks.score_task import ScoreTask
from app.engine.tasks.translation_task import TranslationTask

log = logging.getLogger(__name__)

__all__ = ["AsyncEngine", "EngineSettings"]


class AsyncEngine:
    """Implements `app.engine.interface.Engine` over device processes."""

    def __init__(self, options: EngineSettings, metrics: Metrics | None = None) -> None:
        self.options, self.metrics = options, metrics or Metrics()
        self.library = ModelRegistry()
        names = device_names(options.devices, cpu_workers(options.cpu_workers))
        self.admission = Admission(
            options.max_inflight_requests,
            options.max_queued_source_tokens,
            slots=options.slots_per_model * len(names),
            max_queue_age_s=options.max_queue_age_s,
        )
        self.supervisor = Supervisor(
            names,
            configure=options.configure(),
            start_timeout_s=options.worker_start_timeout_s,
            hang_timeout_s=options.worker_hang_timeout_s,
            to_load=lambda: {edition.key: load_again_message(edition) for edition in self.library.checkpoints.values()},
            on_reply=lambda message: self.dispatcher.reply(message),
            on_failure=lambda key, problem: self.library.drop(m.plain_name(key), problem),
            on_death=self._device_died,
            on_heartbeat=self._device_beat,
        )
        self.dispatcher = Dispatcher(
            self.supervisor, options.request_timeout_s, self.metrics, self.admission.retry_after_s
        )
        longest_s = 2 * options.request_timeout_s + 1  # attention asks twice
        self.shelf = ModelLifecycle(options.checkpoints, self._known, self.supervisor, longest_s)
        self.entrance = Entrance(self._known, self.shelf, self.admission, options.max_queue_age_s)
        self._translating = TranslationTask(
            self.entrance, self.dispatcher, options.beam_size, options.length_penalty, options.slots_per_model
        )
        self._aligning = AlignmentTask(self.entrance, self.dispatcher)
        self._continuing = GenerationTask(self.entrance, self.dispatcher)
        self._attending = AttentionTask(self.entrance, self.dispatcher, self._translating)
        self._tracing = GatesTask(self.entrance, self.dispatcher)
        self._scoring = ScoreTask(self.entrance, self.dispatcher)
        self._told: tuple[tuple[list[ModelVersion], list[set[str]]], list[ModelInfo]] = ([], []), []
        self._journals = CurveReader()
        self._read = False
        self._starting: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Returns at once; models load in the background and `status` says how far they are."""
        self._starting = asyncio.create_task(self._start())

    async def _start(self) -> None:
        self.library = await asyncio.to_thread(ModelRegistry.read, self.options.checkpoints)
        self._read = True
        for problem in self.library.problems.values():
            log.error("%s", problem)
        if self.entrance.draining:
            return
        if self.library.checkpoints:
            self.supervisor.spawn_all()
        else:
            self.supervisor.leave_idle()

    async def drain(self) -> None:
        """Refuse new work and be ready for none; what is in flight may finish until the drain timeout."""
        self.entrance.draining = True
        if self._starting is not None:
            await self._starting
        await self.dispatcher.drain(self.options.drain_timeout_s)

    async def stop(self) -> None:
        """Drain, then end the processes."""
        await self.drain()
        await self.shelf.stop()
        await self.supervisor.stop()

    def _device_beat(self, device: str, beat: m.Heartbeat) -> None:
        self.metrics.heartbeat(device, beat)
        for statistics in beat.models:
            self.admission.wasted(m.plain_name(statistics.model), statistics.done.cancelled_work)

    def _device_died(self, device: str) -> None:
        count = self.metrics.device_stopped if self.entrance.draining else self.metrics.device_died
        count(device)
        self.dispatcher.device_died(device)

    # What is loaded ---------------------------------------------------------------------------------------

    def status(self) -> PoolStatus:
        devices = {name: device.state for name, device in self.supervisor.devices.items()}
        able = [device for device in self.supervisor.devices.values() if device.state == "ready" and device.loaded]
        problems = [*self.library.problems.values(), *self.supervisor.problems()]
        if self._read and not self.library.checkpoints and not self.library.problems:
            problems.append("Every model was unloaded; load one to be ready again.")
        if self.entrance.draining:
            problems.append("The service is shutting down.")
        ready = self._read and bool(self.library.checkpoints) and bool(able) and not self.entrance.draining
        return PoolStatus(ready, devices, len(self.library.checkpoints), tuple(problems))

    def models(self) -> list[ModelInfo]:
        """The models that at least one device has loaded."""
        held = (
            list(self.library.checkpoints.values()),
            [set(device.loaded) for device in self.supervisor.devices.values()],
        )
        if held != self._told[0]:  # every request asks, and it seldom changes
            infos = [self._info(edition) for edition in held[0]]
            self._told = held, [info for info in infos if info.devices]
        return list(self._told[1])

    def _info(self, checkpoint: ModelVersion) -> ModelInfo:
        config = checkpoint.config
        holders = [device for device in self.supervisor.devices.values() if checkpoint.key in device.loaded]
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

    async def _change(self, name: str, change: Callable[[str], Awaitable[ModelVersion]]) -> ModelChange:
        self.entrance.refuse_when_draining()
        began = time.monotonic()
        edition = await change(name)
        return ModelChange(self._info(edition), time.monotonic() - began)

    def _known(self) -> ModelRegistry:
        """The checkpoints, once they are read: before that, nobody can say which ones are missing."""
        if not self._read:
            raise errors.EngineUnavailable("Models are still loading; try again in a few seconds.", reason="loading")
        return self.library

    # Requests ---------------------------------------------------------------------------------------------

    def check_room(self) -> None:
        self.entrance.check_room()

    async def translate(self, jobs: Sequence[TranslationRequest]) -> list[TranslationResult]:
        return await self._translating.translate(jobs)

    def stream_translation(self, job: TranslationRequest) -> AbstractAsyncContextManager[TextStream[TranslationResult]]:
        return self._translating.stream(job)

    def source_room(self, model: str | None, source_language: str, target_language: str) -> int:
        return input_processor.source_token_room(
            self.entrance.library().for_pair(source_language, target_language, model)
        )

    async def source_tokens(
        self, model: str | None, source_language: str, target_language: str, texts: Sequence[str]
    ) -> list[int]:
        checkpoint = self.entrance.library().for_pair(source_language, target_language, model)
        return await input_processor.run_tokenizer(
            sum(map(len, texts)), lambda: input_processor.source_token_counts(checkpoint, texts)
        )

    async def align(
        self, model: str | None, source_language: str, target_language: str, pairs: Sequence[tuple[str, str]]
    ) -> list[tuple[AlignedWord, ...]]:
        return await self._aligning.align(model, source_language, target_language, pairs)

    async def generate(self, job: GenerationRequest) -> GenerationResult:
        return await self._continuing.generate(job)

    def stream_generation(self, job: GenerationRequest) -> AbstractAsyncContextManager[TextStream[GenerationResult]]:
        return self._continuing.stream(job)

    async def attention(self, job: AttentionQuery) -> AttentionResult:
        return await self._attending.attention(job)

    async def walkthrough(self, job: WalkthroughQuery) -> WalkthroughResult:
        return await self._attending.walkthrough(job)

    async def gates(self, job: GatesQuery) -> GatesResult:
        return await self._tracing.gates(job)

    async def score(self, job: ScoreQuery) -> ScoreResult:
        return await self._scoring.score(job)
