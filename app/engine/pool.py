"""The front end of the engine: tokenizes, checks lengths, admits or refuses, picks a device, resolves waiters."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from app.engine import asking, attending, errors, intake, views
from app.engine import messages as m
from app.engine.admission import Admission, Demand
from app.engine.devices import Devices, device_names
from app.engine.jobs import (
    AttentionJob,
    AttentionReport,
    Continuation,
    FinishReason,
    Generation,
    GenerationJob,
    ModelInfo,
    PoolStatus,
    Translation,
    TranslationJob,
    Usage,
)
from app.engine.library import Library
from app.engine.streaming import Show, TextStream
from app.engine.switchboard import Switchboard
from app.engine.writing import Writing, together
from models.checkpoint import Checkpoint

log = logging.getLogger(__name__)

LARGEST_DRAWN_SEED = 2**53  # JavaScript clients must be able to send a drawn seed back unchanged


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOptions:
    """Times in seconds; see `app.settings` for what each means."""

    checkpoints: Path
    devices: str = "auto"
    cpu_threads: int = 0
    slots_per_model: int = 64
    max_inflight_requests: int = 256
    max_queued_source_tokens: int = 65_536
    max_queue_age_s: float = 30.0
    request_timeout_s: float = 60.0
    beam_size: int = 4
    length_penalty: float = 1.0
    max_new_tokens: int = 1024
    drain_timeout_s: float = 20.0
    worker_start_timeout_s: float = 60.0


class Pool:
    """Implements `app.engine.jobs.Engine` over device processes."""

    def __init__(self, options: PoolOptions) -> None:
        self.options = options
        self.library = Library()
        names = device_names(options.devices)
        self.admission = Admission(
            options.max_inflight_requests,
            options.max_queued_source_tokens,
            slots=options.slots_per_model * len(names),
            max_queue_age_s=options.max_queue_age_s,
        )
        self.devices = Devices(
            names,
            threads=options.cpu_threads,
            slots=options.slots_per_model,
            start_timeout_s=options.worker_start_timeout_s,
            to_load=lambda: {c.name: load_message(c) for c in self.library.checkpoints.values()},
            on_reply=lambda message: self.switchboard.reply(message),
            on_failure=lambda name, problem: self.library.drop(name, problem),
            on_death=lambda device: self.switchboard.device_died(device),
        )
        self.switchboard = Switchboard(self.devices, options.request_timeout_s, self.admission.retry_after_s)
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

    async def stop(self) -> None:
        """Refuse new work, let what is in flight finish until the drain timeout, then end the processes."""
        self._draining = True
        if self._starting is not None:
            await self._starting
        await self.switchboard.drain(self.options.drain_timeout_s)
        await self.devices.stop()

    # What is loaded ---------------------------------------------------------------------------------------

    def status(self) -> PoolStatus:
        devices = {name: device.state for name, device in self.devices.all.items()}
        problems = list(self.library.problems.values())
        problems += [f"{name} is {state}." for name, state in devices.items() if state in ("restarting", "stopped")]
        if self._draining:
            problems.append("The service is shutting down.")
        usable = bool(self.library.checkpoints) and all(state == "ready" for state in devices.values())
        ready = self._read and usable and not self._draining
        return PoolStatus(ready, devices, len(self.library.checkpoints), tuple(problems))

    def models(self) -> list[ModelInfo]:
        """The models that at least one device has loaded."""
        infos = [self._info(c) for c in self.library.checkpoints.values()]
        return [info for info in infos if info.devices]

    def _info(self, checkpoint: Checkpoint) -> ModelInfo:
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
            devices=tuple(d.name for d in self.devices.all.values() if checkpoint.name in d.loaded),
            scores=config.scores,
        )

    def _known(self) -> Library:
        """The checkpoints, once they are read: before that, nobody can say which ones are missing."""
        if not self._read:
            raise errors.EngineUnavailable("Models are still loading; try again in a few seconds.")
        return self.library

    # Requests ---------------------------------------------------------------------------------------------

    async def translate(self, jobs: Sequence[TranslationJob]) -> list[Translation]:
        return await self._translated(jobs, None)

    def stream_translation(self, job: TranslationJob) -> AbstractAsyncContextManager[TextStream[Translation]]:
        async def work(show: Show) -> Translation:
            return (await self._translated([job], lambda text: show(text, 0)))[0]

        return TextStream.opened(work)

    async def _translated(
        self, jobs: Sequence[TranslationJob], show: Callable[[str], None] | None
    ) -> list[Translation]:
        found = [self._known().for_pair(job.source_language, job.target_language, job.model) for job in jobs]
        pairs = list(zip(found, jobs, strict=True))
        sources = await intake.aside(
            sum(len(job.text) for job in jobs),
            lambda: [intake.source_ids(checkpoint, job.text, "q") for checkpoint, job in pairs],
        )
        demand = Demand(
            requests=len(jobs),
            read_tokens=sum(map(len, sources)),
            new_tokens=sum(map(len, sources)),  # a translation is about as long as its source
            rows=sum(self._beam(job.alternatives) for job, source in zip(jobs, sources, strict=True) if source),
        )
        plans = zip(jobs, found, sources, strict=True)
        async with self._admitted(demand):
            return await gather(self._translate(job, checkpoint, source, show) for job, checkpoint, source in plans)

    async def _translate(
        self,
        job: TranslationJob,
        checkpoint: Checkpoint,
        source: tuple[int, ...],
        show: Callable[[str], None] | None,
    ) -> Translation:
        if not source:  # nothing that the model reads, such as zero-width characters: nothing to translate
            if show is not None:
                show(job.text)
            return Translation(job.text, (), "stop", checkpoint.name)
        writing = Writing(checkpoint, show=show)
        result = await self._search(checkpoint, source, job.alternatives, writing)
        best = result.hypotheses[0]
        writing.finish(best.tokens)
        texts = list(dict.fromkeys([writing.text, *(checkpoint.decode(h.tokens) for h in result.hypotheses[1:])]))
        others = tuple(text for text in texts[1:] if text)[: job.alternatives]
        reason: FinishReason = "stop" if best.finished else "length"
        return Translation(writing.text, others, reason, checkpoint.name, writing.usage(len(source), result.timing))

    def _beam(self, alternatives: int) -> int:
        """More hypotheses than asked for, since two may read the same."""
        return max(self.options.beam_size, alternatives + 1)

    async def _search(
        self, checkpoint: Checkpoint, source: tuple[int, ...], alternatives: int, writing: Writing | None = None
    ) -> m.Finished:
        """The model's translations, best first."""
        message = asking.translation(
            checkpoint,
            source,
            beam=self._beam(alternatives),
            length_penalty=self.options.length_penalty,
            wants_tokens=writing is not None and writing.wants_tokens,
            start_by=self._start_by(),
        )
        result: m.Finished = await self.switchboard.ask(message, 2 * len(source), writing)
        return result

    def _start_by(self) -> float:
        return time.monotonic() + self.options.max_queue_age_s

    async def generate(self, job: GenerationJob) -> Generation:
        return await self._generated(job, None)

    def stream_generation(self, job: GenerationJob) -> AbstractAsyncContextManager[TextStream[Generation]]:
        return TextStream.opened(lambda show: self._generated(job, show))

    async def _generated(self, job: GenerationJob, show: Show | None) -> Generation:
        checkpoint = self._known().named(job.model, "lyrics")
        prompt = await intake.aside(len(job.prompt), lambda: intake.prompt_ids(checkpoint, job))
        seed = secrets.randbelow(LARGEST_DRAWN_SEED) if job.seed is None else job.seed
        demand = Demand(job.n, len(prompt) * job.n, job.max_new_tokens * job.n, job.n)
        async with self._admitted(demand):
            writings = [Writing(checkpoint, job.stop, show and partial(_shown, show, i)) for i in range(job.n)]
            plans = enumerate(writings)
            done = await gather(self._continue(checkpoint, job, prompt, seed + i, writing) for i, writing in plans)
        return Generation(tuple(each for each, _ in done), checkpoint.name, together([usage for _, usage in done]))

    async def _continue(
        self, checkpoint: Checkpoint, job: GenerationJob, prompt: tuple[int, ...], seed: int, writing: Writing
    ) -> tuple[Continuation, Usage]:
        message = asking.continuation(
            checkpoint, job, prompt, seed=seed, wants_tokens=writing.wants_tokens, start_by=self._start_by()
        )
        result: m.Finished | None = await self.switchboard.ask(message, len(prompt) + job.max_new_tokens, writing)
        reason: FinishReason = "stop"
        if result is not None:
            writing.finish(result.hypotheses[0].tokens)
            reason = "stop" if writing.stopped or result.hypotheses[0].finished else "length"
        usage = writing.usage(len(prompt), result.timing if result else None)
        return Continuation(writing.text, reason, seed), usage

    async def attention(self, job: AttentionJob) -> AttentionReport:
        checkpoint = self._inspected(job.model)
        size = len(job.source) + len(job.target or "")
        source = await intake.aside(size, lambda: intake.source_ids(checkpoint, job.source, "source"))
        if not source:
            raise errors.InvalidRequest("The source has no tokens that the model reads.", field="source")
        given = None
        if (text := job.target) is not None:
            given = await intake.aside(size, lambda: intake.target_ids(checkpoint, text))
        start = checkpoint.config.target_prefix
        attending.check_values(checkpoint.config, job, len(source), len(start) + len(given or ()))
        rows = 0 if given is not None else self._beam(0)
        async with self._admitted(Demand(1, len(source), len(source if given is None else given), rows)):
            target, finished = (given, True) if given is not None else await self._own_target(checkpoint, source)
            # a finished target's last input token predicts the end; an unfinished one's last token is not read
            inputs = [*start, *(target if finished else target[:-1])]
            attending.check_values(checkpoint.config, job, len(source), len(inputs))
            message = asking.attention(checkpoint, job, source, inputs)
            result: m.Attention = await self.switchboard.ask(message, len(source) + len(inputs))
        return views.attention_report(checkpoint, job, target, finished, result)

    async def _own_target(self, checkpoint: Checkpoint, source: tuple[int, ...]) -> tuple[list[int], bool]:
        """The model's own translation, without the start token, and whether the end token belongs behind it."""
        best = (await self._search(checkpoint, source, 0)).hypotheses[0]
        return list(best.tokens), best.finished

    def _inspected(self, name: str | None) -> Checkpoint:
        """A model of any kind if it is named, so that the device can say what it has to show."""
        library = self._known()
        if name is not None and name in library.checkpoints:
            checkpoint = library.checkpoints[name]
            if "source" not in checkpoint.tokenizers:
                raise errors.InvalidRequest(
                    f"{name} is a lyricist and has no attention to show; name a translator.", field="model"
                )
        return library.named(name, "translator")

    @asynccontextmanager
    async def _admitted(self, demand: Demand) -> AsyncIterator[None]:
        if self._draining:
            raise errors.EngineUnavailable("The service is shutting down; try again in a moment.")
        with self.admission.admitted(demand):
            yield


def _shown(show: Show, index: int, text: str) -> None:
    show(text, index)


def load_message(checkpoint: Checkpoint) -> m.Load:
    return m.Load(checkpoint.name, str(checkpoint.folder.absolute()), dict(checkpoint.config.files))


async def gather(work: Any) -> list[Any]:
    """Results in order; when one fails the others are cancelled, and its own error is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in work]
    except* errors.EngineError as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]
