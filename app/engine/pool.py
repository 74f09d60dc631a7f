"""The front end of the engine: tokenizes, checks lengths, admits or refuses, picks a device, resolves waiters."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from app.engine import errors, intake, views
from app.engine import messages as m
from app.engine.admission import Admission
from app.engine.devices import Devices
from app.engine.jobs import (
    AttentionJob,
    AttentionReport,
    Continuation,
    FinishReason,
    Generation,
    GenerationJob,
    ModelChange,
    ModelInfo,
    PoolStatus,
    Translation,
    TranslationJob,
)
from app.engine.library import Edition, Library
from app.engine.meter import siblings
from app.engine.metrics import Metrics
from app.engine.options import PoolOptions
from app.engine.placement import device_names
from app.engine.shelf import Shelf, load_message
from app.engine.stopping import StopWatch
from app.engine.switchboard import Switchboard
from models.checkpoint import new_token_limit

log = logging.getLogger(__name__)

__all__ = ["Pool", "PoolOptions"]

LARGEST_DRAWN_SEED = 2**53  # JavaScript clients must be able to send a drawn seed back unchanged


class Pool:
    """Implements `app.engine.jobs.Engine` over device processes."""

    def __init__(self, options: PoolOptions, metrics: Metrics | None = None) -> None:
        self.options, self.metrics = options, metrics or Metrics()
        self.library = Library()
        self.admission = Admission(options.max_inflight_requests, options.max_queued_source_tokens)
        self.devices = Devices(
            device_names(options.devices, options.cpu_workers),
            configure=options.configure(),
            start_timeout_s=options.worker_start_timeout_s,
            hang_timeout_s=options.worker_hang_timeout_s,
            to_load=lambda: {edition.key: load_message(edition) for edition in self.library.checkpoints.values()},
            on_reply=lambda message: self.switchboard.reply(message),
            on_failure=lambda key, problem: self.library.drop(m.plain_name(key), problem),
            on_death=self._device_died,
            on_beat=self.metrics.beat,
        )
        self.shelf = Shelf(options.checkpoints, self._known, self.devices, options.request_timeout_s + 1)
        self.switchboard = Switchboard(self.devices, options.request_timeout_s, self.metrics)
        self._read = self._draining = False
        self._starting: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Returns at once; models load in the background and `status` says how far they are."""
        self._starting = asyncio.create_task(self._start())

    async def _start(self) -> None:
        self.library = await asyncio.to_thread(Library.read, self.options.checkpoints)
        self._read = True
        for problem in self.library.problems.values():
            log.error("%s", problem)
        if self._draining:
            return
        if self.library.checkpoints:
            self.devices.spawn_all()
        else:
            self.devices.leave_idle()

    async def drain(self) -> None:
        """Refuse new work and be ready for none; what is in flight may finish until the drain timeout."""
        self._draining = True
        if self._starting is not None:
            await self._starting
        await self.switchboard.drain(self.options.drain_timeout_s)

    async def stop(self) -> None:
        """Drain, then end the processes."""
        await self.drain()
        await self.shelf.stop()
        await self.devices.stop()

    def _device_died(self, device: str) -> None:
        count = self.metrics.device_gone if self._draining else self.metrics.device_died
        count(device)
        self.switchboard.device_died(device)

    # What is loaded ---------------------------------------------------------------------------------------

    def status(self) -> PoolStatus:
        devices = {name: device.state for name, device in self.devices.all.items()}
        able = [device for device in self.devices.all.values() if device.state == "ready" and device.loaded]
        problems = [*self.library.problems.values(), *self.devices.problems()]
        if self._draining:
            problems.append("The service is shutting down.")
        ready = self._read and bool(self.library.checkpoints) and bool(able) and not self._draining
        return PoolStatus(ready, devices, len(self.library.checkpoints), tuple(problems))

    def models(self) -> list[ModelInfo]:
        """The models that at least one device has loaded."""
        infos = [self._info(c) for c in self.library.checkpoints.values()]
        return [info for info in infos if info.devices]

    def _info(self, checkpoint: Edition) -> ModelInfo:
        config = checkpoint.config
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
            devices=tuple(d.name for d in self.devices.all.values() if checkpoint.key in d.loaded),
            scores=config.scores,
            version=checkpoint.version,
        )

    async def load_model(self, name: str) -> ModelChange:
        return await self._change(name, self.shelf.load)

    async def reload_model(self, name: str) -> ModelChange:
        return await self._change(name, self.shelf.reload)

    async def unload_model(self, name: str) -> ModelChange:
        return await self._change(name, self.shelf.unload)

    async def _change(self, name: str, change: Callable[[str], Awaitable[Edition]]) -> ModelChange:
        self._refuse_when_draining()
        began = time.monotonic()
        edition = await change(name)
        return ModelChange(self._info(edition), time.monotonic() - began)

    def _known(self) -> Library:
        """The checkpoints, once they are read: before that, nobody can say which ones are missing."""
        if not self._read:
            raise errors.EngineUnavailable("Models are still loading; try again in a few seconds.", reason="loading")
        return self.library

    # Requests ---------------------------------------------------------------------------------------------

    async def translate(self, jobs: Sequence[TranslationJob]) -> list[Translation]:
        plans = [self._translation_plan(job) for job in jobs]
        tokens = sum(len(source) for _, source in plans)
        async with self._admitted([edition for edition, _ in plans], len(jobs), tokens):
            return await gather(self._translate(job, *plan) for job, plan in zip(jobs, plans, strict=True))

    def _translation_plan(self, job: TranslationJob) -> tuple[Edition, tuple[int, ...]]:
        checkpoint = self._known().for_pair(job.source_language, job.target_language, job.model)
        return checkpoint, intake.source_ids(checkpoint, job.text, "q")

    async def _translate(self, job: TranslationJob, checkpoint: Edition, source: tuple[int, ...]) -> Translation:
        if not source:  # nothing that the model reads, such as zero-width characters: nothing to translate
            return Translation(job.text, (), "stop", checkpoint.name)
        hypotheses = await self._search(checkpoint, source, job.alternatives)
        texts = list(dict.fromkeys(checkpoint.decode(h.tokens) for h in hypotheses))
        others = tuple(text for text in texts[1:] if text)[: job.alternatives]
        reason: FinishReason = "stop" if hypotheses[0].finished else "length"
        return Translation(texts[0], others, reason, checkpoint.name)

    async def _search(self, checkpoint: Edition, source: tuple[int, ...], alternatives: int) -> list[m.Hypothesis]:
        """The model's translations, best first: more than asked for, since two may read the same."""
        beam = max(self.options.beam_size, alternatives + 1)
        config = checkpoint.config
        result: m.Finished = await self.switchboard.ask(
            checkpoint.key,
            len(source),
            lambda request, deadline: m.Decode(
                id=request,
                model=checkpoint.key,
                source=list(source),
                prefix=list(config.target_prefix),
                deadline=deadline,
                max_new_tokens=new_token_limit(len(source), config.max_new_tokens),
                beam=beam,
                n_best=beam,
                length_penalty=self.options.length_penalty,
            ),
        )
        return result.hypotheses

    async def generate(self, job: GenerationJob) -> Generation:
        checkpoint = self._known().named(job.model, "lyrics")
        prompt = intake.prompt_ids(checkpoint, job)
        seed = secrets.randbelow(LARGEST_DRAWN_SEED) if job.seed is None else job.seed
        async with self._admitted([checkpoint], job.n, len(prompt) * job.n):
            continuations = await gather(self._continue(checkpoint, job, prompt, seed + i) for i in range(job.n))
        return Generation(tuple(continuations), checkpoint.name)

    async def _continue(
        self, checkpoint: Edition, job: GenerationJob, prompt: tuple[int, ...], seed: int
    ) -> Continuation:
        watch = StopWatch(checkpoint, job.stop) if job.stop else None
        asked = self.switchboard.ask(
            checkpoint.key,
            len(prompt),
            lambda request, deadline: m.Decode(
                id=request,
                model=checkpoint.key,
                source=[],
                prefix=list(prompt),
                deadline=deadline,
                max_new_tokens=job.max_new_tokens,
                temperature=job.temperature,
                top_k=job.top_k,
                top_p=job.top_p,
                seed=seed,
                wants_tokens=watch is not None,
            ),
            watch,
        )
        result: m.Finished | str = await asked
        if isinstance(result, str):
            return Continuation(result, "stop", seed)
        best = result.hypotheses[0]
        return Continuation(checkpoint.decode(best.tokens), "stop" if best.finished else "length", seed)

    async def attention(self, job: AttentionJob) -> AttentionReport:
        checkpoint = self._inspected(job.model)
        source = intake.source_ids(checkpoint, job.source, "source")
        if not source:
            raise errors.InvalidRequest("The source has no tokens that the model reads.", field="source")
        async with self._admitted([checkpoint], 1, len(source)):
            target, finished = await self._target(checkpoint, source, job.target)
            # a finished target's last input token predicts the end; an unfinished one's last token is not read
            inputs = [*checkpoint.config.target_prefix, *(target if finished else target[:-1])]
            result: m.Attention = await self.switchboard.ask(
                checkpoint.key,
                len(source),
                lambda request, deadline: m.Attend(
                    id=request,
                    model=checkpoint.key,
                    source=list(source),
                    target=inputs,
                    kinds=list(job.kinds),
                    layers=None if job.layers is None else list(job.layers),
                    heads=None if job.heads is None else list(job.heads),
                    max_values=job.max_values,
                    deadline=deadline,
                ),
            )
        return views.attention_report(checkpoint, job, target, finished, result)

    def _inspected(self, name: str | None) -> Edition:
        """A model of any kind if it is named, so that the device can say what it has to show."""
        library = self._known()
        if name is not None and name in library.checkpoints:
            checkpoint = library.checkpoints[name]
            if "source" not in checkpoint.tokenizers:
                raise errors.InvalidRequest(
                    f"{name} is a lyricist and has no attention to show; name a translator.", field="model"
                )
        return library.named(name, "translator")

    async def _target(self, checkpoint: Edition, source: tuple[int, ...], text: str | None) -> tuple[list[int], bool]:
        """Target ids without the start token, and whether the end token belongs behind them."""
        if text is None:
            best = (await self._search(checkpoint, source, 0))[0]
            return list(best.tokens), best.finished
        return intake.target_ids(checkpoint, text), True

    @asynccontextmanager
    async def _admitted(self, editions: Sequence[Edition], requests: int, tokens: int) -> AsyncIterator[None]:
        """Room for a request, which keeps the editions that it has begun with until it ends."""
        self._refuse_when_draining()
        with self.admission.admitted(requests, tokens), self.shelf.in_use(editions):
            yield

    def _refuse_when_draining(self) -> None:
        if self._draining:
            raise errors.EngineUnavailable("The service is shutting down; try again in a moment.", reason="draining")


async def gather(work: Any) -> list[Any]:
    """Results in order; when one fails the others are cancelled, and its own error is raised."""
    siblings()
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in work]
    except* errors.EngineError as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]
