"""Translations: from texts to the messages that ask for them, and from hypotheses to answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager

from app.engine import asking, intake
from app.engine import messages as m
from app.engine.admission import Demand
from app.engine.entrance import Entrance
from app.engine.jobs import FinishReason, Translation, TranslationJob
from app.engine.library import Edition
from app.engine.streaming import Show, TextStream
from app.engine.switchboard import Part, Switchboard, gather
from app.engine.writing import Writing

Ids = tuple[int, ...]


class Translating:
    def __init__(self, entrance: Entrance, switchboard: Switchboard, beam_size: int, length_penalty: float) -> None:
        self._entrance, self._switchboard = entrance, switchboard
        self._beam_size, self._length_penalty = beam_size, length_penalty

    async def translate(self, jobs: Sequence[TranslationJob]) -> list[Translation]:
        """In the order of `jobs`; admitted or refused together."""
        return await self._translated(jobs, None)

    def stream(self, job: TranslationJob) -> AbstractAsyncContextManager[TextStream[Translation]]:
        async def work(show: Show) -> Translation:
            return (await self._translated([job], lambda text: show(text, 0)))[0]

        return TextStream.opened(work)

    async def _translated(
        self, jobs: Sequence[TranslationJob], show: Callable[[str], None] | None
    ) -> list[Translation]:
        library = self._entrance.library()
        found = [library.for_pair(job.source_language, job.target_language, job.model) for job in jobs]
        with self._entrance.keeping(found):
            sources = await intake.aside(
                sum(len(job.text) for job in jobs),
                lambda: [
                    intake.source_ids(checkpoint, job.text, "q") for checkpoint, job in zip(found, jobs, strict=True)
                ],
            )
            parts = [self._demand(*each) for each in zip(jobs, found, sources, strict=True)]
            plans = zip(jobs, found, sources, parts, strict=True)
            with self._entrance.admitted(*Demand.totals(parts)) as share:

                async def one(
                    number: int, job: TranslationJob, checkpoint: Edition, source: Ids, part: Demand
                ) -> Translation:
                    translation = await self._translate(job, checkpoint, source, show, first=number == 0)
                    share.answered(part)
                    return translation

                return await gather(one(number, *plan) for number, plan in enumerate(plans))

    def _demand(self, job: TranslationJob, checkpoint: Edition, source: Ids) -> Demand:
        rows = self.beam(job.alternatives) if source else 0
        return Demand(
            checkpoint.name, 1, len(source), len(source), rows
        )  # a translation is about as long as its source

    async def _translate(
        self,
        job: TranslationJob,
        checkpoint: Edition,
        source: Ids,
        show: Callable[[str], None] | None,
        *,
        first: bool,
    ) -> Translation:
        if not source:  # nothing that the model reads, such as zero-width characters: nothing to translate
            if show is not None:
                show(job.text)
            return Translation(job.text, (), "stop", checkpoint.name)
        writing = Writing(checkpoint, show=show and (lambda text, tokens: show(text)))
        result = await self.search(checkpoint, source, job.alternatives, writing, first=first)
        best = result.hypotheses[0]
        others: tuple[str, ...] = ()
        if job.alternatives:
            texts = dict.fromkeys([writing.text, *(checkpoint.decode(h.tokens) for h in result.hypotheses[1:])])
            others = tuple(text for text in list(texts)[1:] if text)[: job.alternatives]
        reason: FinishReason = "stop" if best.finished else "length"
        return Translation(writing.text, others, reason, checkpoint.name, writing.usage(len(source), result.timing))

    def beam(self, alternatives: int) -> int:
        """More hypotheses than asked for, since two may read the same."""
        return max(self._beam_size, alternatives + 1)

    def searching(self, beam: int, length_penalty: float | None) -> tuple[int, float]:
        """Of one request, where it says nothing (0, None) the server's."""
        return beam or self._beam_size, self._length_penalty if length_penalty is None else length_penalty

    async def search(
        self,
        checkpoint: Edition,
        source: Ids,
        alternatives: int,
        writing: Writing | None = None,
        *,
        first: bool = True,
        prefix: Ids = (),
        beam: int = 0,
        length_penalty: float | None = None,
        max_new_tokens: int | None = None,
        part: Part = "whole",
    ) -> m.Finished:
        """The model's translations behind `prefix`, best first. beam, length_penalty: instead of the server's. part:
        "search" where a look at the best of them follows."""
        message = asking.translation(
            checkpoint,
            source,
            prefix,
            beam=beam or self.beam(alternatives),
            length_penalty=self._length_penalty if length_penalty is None else length_penalty,
            max_new_tokens=max_new_tokens,
            wants_tokens=writing is not None and writing.wants_tokens,
            start_by=self._entrance.start_by(first),
        )
        result: m.Finished = await self._switchboard.ask(message, 2 * len(source), writing, part)
        return result
