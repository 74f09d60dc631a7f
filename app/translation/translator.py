"""Texts of any length and layout, translated through the engine."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from app.engine.jobs import Engine, Translation, TranslationJob
from app.engine.streaming import Show, TextStream
from app.translation.job import TextJob, TranslatedText
from app.translation.pages import translated_pages


class Translator:
    """`translate` answers in the order of its jobs; admitted or refused together. Both raise `EngineError`s."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def translate(self, jobs: Sequence[TextJob]) -> list[TranslatedText]:
        return await translated_pages(jobs, self._translate_plain)

    async def _translate_plain(self, jobs: Sequence[TextJob]) -> list[TranslatedText]:
        asked = {index: _whole(job) for index, job in enumerate(jobs) if job.text.strip()}
        answers = await self._engine.translate(list(asked.values())) if asked else []
        found = dict(zip(asked, answers, strict=True))
        return [_answer(found[index]) if index in found else TranslatedText(job.text) for index, job in enumerate(jobs)]

    def stream(self, job: TextJob) -> AbstractAsyncContextManager[TextStream[TranslatedText]]:
        """The same answer, its text as it is found; HTML is shown when all of it is."""

        async def work(show: Show) -> TranslatedText:
            if job.format == "html":
                (page,) = await self.translate([job])
                show(page.text, 0)
                return page
            if not job.text.strip():
                show(job.text, 0)
                return TranslatedText(job.text)
            async with self._engine.stream_translation(_whole(job)) as stream:
                async for delta in stream.deltas():
                    show(delta.text, 0)
                return _answer(stream.result)

        return TextStream.opened(work)


def _whole(job: TextJob) -> TranslationJob:
    return TranslationJob(
        job.text,
        job.source_language,
        job.target_language,
        job.model,
        job.alternatives,
        job.beam_size,
        job.length_penalty,
        job.max_new_tokens,
        job.prefix,
        (),
        job.no_repeat_ngram_size,
        job.wants,
    )


def _answer(found: Translation) -> TranslatedText:
    return TranslatedText(
        found.text,
        found.alternatives,
        found.finish_reason,
        found.model,
        found.usage,
        found.scores,
        found.tokens,
        found.alignment,
    )
