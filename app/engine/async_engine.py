"""The engine over device processes: starts, loads and stops them, and wires the tasks."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from app.engine import input_processor
from app.engine.admission import Admission
from app.engine.dispatch.dispatcher import Dispatcher
from app.engine.dispatch.inspection_turns import InspectionTurns
from app.engine.dispatch.placement import CPU_SLOTS, cores, cpu_workers, place, worker_config
from app.engine.dispatch.supervisor import Supervisor
from app.engine.interface import EngineSettings, ModelChange, ModelInfo, PoolStatus, TokenQuery, TokenResult
from app.engine.metrics import Metrics
from app.engine.protocol import messages as m
from app.engine.registry.model_lifecycle import ModelLifecycle, load_message
from app.engine.registry.model_registry import ModelRegistry, ModelVersion
from app.engine.registry.training_curves import CurveReader, TrainingCurves, imported_from
from app.engine.tasks.attention_task import AttentionTask
from app.engine.tasks.gates_task import GatesTask
from app.engine.tasks.generation_task import GenerationTask
from app.engine.tasks.score_task import ScoreTask
from app.engine.tasks.translation_task import TranslationTask
from models.decoding.options import DecodingOptions
from models.model_names import split_names

log = logging.getLogger(__name__)


class AsyncEngine:
    """Implements `app.engine.interface.Engine` over device processes. Raises `NoDevice` if the settings name only
    devices that cannot be used."""

    def __init__(self, settings: EngineSettings, metrics: Metrics | None = None) -> None:
        self.settings, self.metrics = settings, metrics or Metrics()
        self.registry = ModelRegistry(settings.checkpoints, split_names(settings.models))
        workers = cpu_workers(settings.cpu_workers)
        placement = place(settings.devices, workers, timeout_s=settings.worker_start_timeout_s)
        names, self._placement_problem = placement.names, placement.problem
        slots = CPU_SLOTS if settings.slots_per_model == "auto" else settings.slots_per_model
        self.admission = Admission(
            settings.max_inflight_requests,
            settings.max_queued_source_tokens,
            slots=slots,
            devices=names,
            max_queue_age_s=settings.max_queue_age_s,
        )
        self.supervisor = Supervisor(
            names,
            configure=worker_config(settings, workers),
            start_timeout_s=settings.worker_start_timeout_s,
            hang_timeout_s=settings.worker_hang_timeout_s,
            to_load=lambda: {v.key: load_message(v, pinned=True) for v in self.registry.versions.values()},
            on_failure=lambda key, problem: self.registry.withdraw(m.plain_name(key), problem),
            on_death=self._device_died,
            on_heartbeat=self._heartbeat,
        )
        self.dispatcher = Dispatcher(
            self.supervisor,
            settings.request_timeout_s,
            self.metrics,
            self.admission.retry_after_s,
            turns=InspectionTurns(max(1, sum(name.startswith("cuda") for name in names)), settings.max_queue_age_s),
            idle_threads=0 if settings.cpu_threads else cores(),
        )
        longest_request_s = 2 * settings.request_timeout_s + 1  # a search, then an inspection
        self.lifecycle = ModelLifecycle(self.registry, self.supervisor, longest_request_s)
        self.load_model = partial(self._change, self.lifecycle.load)
        self.reload_model = partial(self._change, self.lifecycle.reload)
        self.unload_model = partial(self._change, self.lifecycle.unload)
        self.record_stand_ins = self.registry.record_stand_ins
        self._curve_reader = CurveReader()
        self._starting: asyncio.Task[None] | None = None
        self._shutting_down = False
        self._models: tuple[object, list[ModelInfo]] = None, []

        rooms = self.registry, self.admission, self.dispatcher
        defaults = DecodingOptions(beam_size=settings.beam_size, length_penalty=settings.length_penalty)
        translation = TranslationTask(*rooms, defaults, slots)
        generation, attention = GenerationTask(*rooms), AttentionTask(*rooms, translation)
        self.check_room = self.admission.check_room
        self.translate, self.stream_translation = translation.translate, translation.stream
        self.generate, self.stream_generation = generation.generate, generation.stream
        self.align = translation.alignment.align
        self.attention, self.walkthrough = attention.attention, attention.walkthrough
        self.gates, self.score = GatesTask(*rooms).gates, ScoreTask(*rooms).score

    async def start(self) -> None:
        """Returns at once; models load in the background, and `status` reports progress."""
        self._starting = asyncio.create_task(self._start())

    async def _start(self) -> None:
        await asyncio.to_thread(self.registry.read)
        for problem in self.registry.problems.values():
            log.error("%s", problem)
        for sentence in self.registry.stand_ins.values():
            log.warning("%s", sentence)
        if self.admission.draining:
            return
        if self.registry.versions:
            self.supervisor.spawn_all()
        else:
            log.error("Parlance serves no model at all until one is imported or loaded; /health/ready stays 503.")
            self.supervisor.leave_idle()

    def announce_shutdown(self) -> None:
        """`status` is not ready from now on, so that load balancers send no more; requests are answered as before."""
        self._shutting_down = True

    async def drain(self) -> None:
        """Refuses new requests and waits for the running ones until the drain timeout."""
        self.announce_shutdown()
        self.admission.draining = True
        if self._starting is not None:
            await self._starting
        await self.dispatcher.drain(self.settings.drain_timeout_s)

    async def stop(self) -> None:
        await self.drain()
        await self.lifecycle.stop()
        await self.supervisor.stop()

    def _heartbeat(self, device: str, beat: m.Heartbeat) -> None:
        self.metrics.heartbeat(device, beat)
        for statistics in beat.models:
            self.admission.reported_slots(m.plain_name(statistics.model), device, statistics.slots)
            self.admission.wasted(m.plain_name(statistics.model), statistics.done.cancelled_work)

    def _device_died(self, device: str) -> None:
        self.metrics.device_ended(device, died=not self.admission.draining)
        self.dispatcher.device_died(device)

    def status(self) -> PoolStatus:
        registry, devices = self.registry, self.supervisor.devices
        problems = [*registry.problems.values(), *registry.stand_ins.values(), *self.supervisor.problems()]
        if self._placement_problem is not None:
            problems.append(self._placement_problem)
        if registry.was_read and not registry.versions and not registry.problems:
            problems.append("Every model was unloaded; load one to be ready again.")
        if self._shutting_down:
            problems.append("The service is shutting down.")
        able = any(device.state == "ready" and device.loaded for device in devices.values())
        whole = registry.was_read and bool(registry.versions) and not registry.lacks_named
        ready = whole and able and not self._shutting_down
        states = {name: device.state for name, device in devices.items()}
        turns, outstanding = self.dispatcher.turns, self.admission.all.requests
        return PoolStatus(
            ready, states, len(registry.versions), tuple(problems), turns.running, turns.waiting, outstanding
        )

    def models(self) -> list[ModelInfo]:
        """The models that are loaded on at least one device."""
        devices = self.supervisor.devices.values()
        held = list(self.registry.versions.values()), [(set(d.loaded), dict(d.loads)) for d in devices]
        if held != self._models[0]:  # cached: this runs on every request and seldom changes
            self._models = held, [info for version in held[0] if (info := self._info(version)).devices]
        return list(self._models[1])

    def _info(self, version: ModelVersion) -> ModelInfo:
        config = version.config
        holders = [device for device in self.supervisor.devices.values() if version.key in device.loaded]
        loads = [device.loads[version.key] for device in holders]
        return ModelInfo(
            name=version.name,
            kind=config.kind,
            architecture=str(config.architecture["name"]),
            parameters=config.parameters,
            source_language=config.source_language,
            target_language=config.target_language,
            vocabulary=version.tokenizers["target"].size,
            max_source_tokens=config.max_source_tokens or None,
            max_new_tokens=config.max_new_tokens,
            devices=tuple(device.name for device in holders),
            scores=config.scores,
            version=version.version,
            precision=", ".join(dict.fromkeys(load.precision for load in loads)) or None,
            precision_reason="; ".join(dict.fromkeys(load.reason for load in loads)) or None,
            licence=version.licence,
            loaded_at=version.loaded_at,
            language_pairs=tuple(
                (single.source_language, single.target_language)
                for single in (each.config for each in version.by_pair or (version,))
                if single.source_language and single.target_language
            ),
            demo=version.demo,
            source_words=version.notices.source_words,
            order=self.registry.order_of(version),
            stand_ins=version.stand_ins,
        )

    async def curves(self, name: str) -> TrainingCurves:
        version = self.registry.offered(name)
        curves = await self._curve_reader.curves(version.folder)
        if not curves.curves and (origin := imported_from(version.config)):
            return replace(curves, reason=f"{name} was imported from {origin}, without curves of its training.")
        return curves

    async def _change(self, change: Callable[[Path], Awaitable[ModelVersion]], name: str) -> ModelChange:
        self.admission.refuse_when_draining()
        began = time.monotonic()
        return ModelChange(self._info(await self.lifecycle.change(name, change)), time.monotonic() - began)

    async def source_room(self, model: str | None, source_language: str, target_language: str) -> int:
        config = self.registry.for_pair(source_language, target_language, model).config
        return config.max_source_tokens - len(config.source_prefix) - len(config.source_suffix)

    async def tokenize(self, query: TokenQuery) -> TokenResult:
        checkpoint = self.registry.named(query.model, "lyrics")
        size = len(query.text) + len(query.ids or ())
        return await input_processor.run_tokenizer(size, lambda: input_processor.tokenized(checkpoint, query))

    async def source_tokens(
        self, model: str | None, source_language: str, target_language: str, texts: Sequence[str]
    ) -> list[int]:
        tokenizer = self.registry.for_pair(source_language, target_language, model).tokenizers["source"]
        return await input_processor.run_tokenizer(
            sum(map(len, texts)), lambda: [len(tokenizer.encode(text)) for text in texts]
        )
