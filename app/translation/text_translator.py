"""Translates texts and HTML pages of any length and layout through the engine, whole or streamed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import partial

from app.engine.errors import Overloaded, TextTooLong
from app.engine.interface import AlignedWord, Engine, FinishReason, TranslationOptions, TranslationResult, Usage
from app.engine.output.text_stream import ShowText, TextStream
from app.text.glossary_matching import TermMatcher
from app.text.html_page import HtmlPage, parse_page
from app.text.tag_placement import AlignedSpan
from app.translation.assemble import assembled
from app.translation.cached_engine import Asker, Cache, in_thread_if_long
from app.translation.prepare import (
    PreparedSentence,
    SegmentedText,
    Sentence,
    keeps_spaces,
    segmented,
    split_at_wide_spaces,
    split_in_half,
    split_to_fit,
    surely_fits,
    target_spaces,
)
from app.translation.repair.sentence_repair import or_source_text, translated_with_repair
from app.translation.repair.text_edits import LayoutFilter, without_invented_layout
from app.translation.text_request import TextRequest, TranslatedText

TranslateTexts = Callable[[Sequence[TextRequest]], Awaitable[list[TranslatedText]]]
_PAGE_FINISH_REASONS: tuple[FinishReason, ...] = ("stop", "length", "repetition")


async def translated_page(job: TextRequest, ask: TranslateTexts) -> TranslatedText:
    """Of one job; see `translated_pages`."""
    return (await translated_pages([job], ask))[0]


async def translated_pages(jobs: Sequence[TextRequest], ask: TranslateTexts) -> list[TranslatedText]:
    """Answers in the order of the jobs, of both formats: those of plain text go on as they are. All texts of all pages
    are asked at once. A page has no alternatives, no tokens and no alignment: they are those of its texts, not of HTML.
    Its `scores` are the mean of its texts', its prefix begins the first of them."""
    if all(job.format != "html" for job in jobs):
        return await ask(jobs) if jobs else []
    size = sum(len(job.text) for job in jobs if job.format == "html")
    pages = await in_thread_if_long(
        size, lambda: [parse_page(job.text) if job.format == "html" else None for job in jobs]
    )
    asked = [_page_requests(job, page) for job, page in zip(jobs, pages, strict=True)]
    together = [each for one in asked for each in one]
    found = iter(await ask(together) if together else [])
    texts = [[next(found) for _ in own] for own in asked]
    written = zip(jobs, pages, texts, strict=True)
    return await in_thread_if_long(
        size, lambda: [own[0] if page is None else _page_translation(job, page, own) for job, page, own in written]
    )


def _page_requests(job: TextRequest, page: HtmlPage | None) -> list[TextRequest]:
    if page is None:
        return [job]
    wants = frozenset({"alignment", *(job.options.wants & {"scores"})})
    first = replace(job.options, alternatives=0, wants=wants)
    others = replace(first, prefix="") if first.prefix else first
    return [replace(job, text=text, format="text", options=others if i else first) for i, text in enumerate(page.texts)]


def _page_translation(job: TextRequest, page: HtmlPage, texts: Sequence[TranslatedText]) -> TranslatedText:
    pieces = page.pieces([(each.text, [_aligned_word(word) for word in each.alignment or ()]) for each in texts])
    return TranslatedText(
        "".join(pieces),
        (),
        max((each.finish_reason for each in texts), key=_PAGE_FINISH_REASONS.index, default="stop"),
        next((each.model for each in texts if each.model), ""),
        _page_usage([each.usage for each in texts]),
        _mean_score([each.scores[0] for each in texts if each.scores]) if "scores" in job.options.wants else None,
    )


def _aligned_word(each: AlignedWord) -> AlignedSpan:
    return AlignedSpan(each.target_start, each.target_end, each.source_start, each.source_end)


def _page_usage(each: Sequence[Usage]) -> Usage:
    """Tokens of all texts together; the first to begin, the last to end."""
    queued = [one.queued_s for one in each if one.queued_s is not None]
    first = [one.first_token_s for one in each if one.first_token_s is not None]
    return Usage(
        sum(one.read_tokens for one in each),
        sum(one.new_tokens for one in each),
        min(queued, default=None),
        min(first, default=None),
        max((one.total_s for one in each), default=0.0),
    )


def _mean_score(scores: Sequence[float]) -> tuple[float, ...] | None:
    return (sum(scores) / len(scores),) if scores else None


_CONCURRENT_SENTENCES = 16  # as many as the default slots hold with beams of 4


class _SentenceStream:
    """What one sentence has so far, for one reader."""

    def __init__(self) -> None:
        self._texts: asyncio.Queue[str | None] = asyncio.Queue()
        self.put = self._texts.put_nowait

    async def next(self) -> str | None:
        """None: that was all."""
        return await self._texts.get()


async def streamed_in_order(
    tasks: Sequence[PreparedSentence],
    between: Sequence[str],
    engine: Engine,
    asker: Asker,
    mended: Callable[[PreparedSentence, bool], Awaitable[TranslationResult]],
    show: ShowText,
) -> list[TranslationResult]:
    """between: what stands before each sentence, and after the last. mended: of a task, and whether others have begun.
    What goes wrong with the first before it has a
    text is raised before anything was shown."""
    room = asyncio.Semaphore(_CONCURRENT_SENTENCES)
    lines = [_SentenceStream() for _ in tasks]

    async def one(number: int) -> TranslationResult:
        async with room:
            try:
                as_written = tasks[number].plain and not tasks[number].sentence.marks
                if as_written and asker.known(tasks[number].job) is None:
                    return await _stream_sentence(tasks[number], lines[number], engine, first=number == 0)
                translation = await mended(tasks[number], number > 0)
                lines[number].put(translation.text)
                return translation
            finally:
                lines[number].put(None)

    running = [asyncio.create_task(one(number)) for number in range(len(tasks))]
    try:
        for number, line in enumerate(lines):
            before = between[number]
            while (text := await line.next()) is not None:
                if text:
                    show(before + text, 0)
                    before = ""
            await running[number]
            if before:
                show(before, 0)
        if between[-1]:
            show(between[-1], 0)
        return [task.result() for task in running]
    finally:
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
            for task in running:
                task.cancelled() or task.exception()  # raised once is enough


async def _stream_sentence(
    task: PreparedSentence, line: _SentenceStream, engine: Engine, *, first: bool
) -> TranslationResult:
    """As it is written. Those behind the first wait for room."""
    wait, shown, tidying = 0.05, False, LayoutFilter(task.job.options.prefix)
    while True:
        try:
            async with engine.stream_translation(task.job) as stream:
                async for delta in stream.deltas():
                    if text := tidying.more(delta.text):
                        line.put(text)
                        shown = True
                result = without_invented_layout(stream.result, task.job.options.prefix)
            if not shown:
                result = or_source_text(task, result)
                line.put(result.text)
            return result
        except Overloaded:
            if first or shown or wait > 30:
                raise
        await asyncio.sleep(wait)
        wait *= 2


ModelKey = tuple[str | None, str, str]
_EMPTY_GLOSSARY = TermMatcher({})
_MAX_HALVINGS = 2  # of a sentence whose translation did not end
_SHORT_CHARACTERS = 60  # a sentence of so few has room enough: its translation goes round in circles


@dataclass(frozen=True, slots=True)
class PreparedText:
    """tasks: one for each piece of the layout."""

    job: TextRequest
    layout: SegmentedText
    tasks: list[PreparedSentence]


class Translator:
    """`translate` answers in the order of its jobs; admitted or refused together. Both raise `EngineError`s."""

    def __init__(self, engine: Engine, cache: Cache | None = None) -> None:
        self._engine = engine
        self._asker = Asker(engine, Cache() if cache is None else cache)

    async def translate(self, jobs: Sequence[TextRequest]) -> list[TranslatedText]:
        return await translated_pages(jobs, self._translate_plain)

    async def _translate_plain(self, jobs: Sequence[TextRequest]) -> list[TranslatedText]:
        try:
            return await self._translate(jobs, certain=False)
        except TextTooLong:  # a sentence has more tokens than bytes: now all are counted
            return await self._translate(jobs, certain=True)

    async def _translate(self, jobs: Sequence[TextRequest], *, certain: bool) -> list[TranslatedText]:
        plans = await self._plans(jobs, certain=certain)
        found = iter(await self._translated([task for plan in plans for task in plan.tasks]))
        parts = [[next(found) for _ in plan.tasks] for plan in plans]
        size = sum(len(plan.job.text) for plan in plans)
        return await in_thread_if_long(
            size, lambda: [_text_translation(*each) for each in zip(plans, parts, strict=True)]
        )

    def stream(self, job: TextRequest) -> AbstractAsyncContextManager[TextStream[TranslatedText]]:
        """The same answer, its text as it is found: sentences are translated side by side and shown in their order,
        those that may have to be mended when they are whole, and so are pages. But a sentence that runs into the
        model's own limit while it is shown stays as it is: it cannot be taken back and translated in halves."""

        async def work(show: ShowText) -> TranslatedText:
            if job.format == "html":
                (page,) = await self.translate([job])
                show(page.text, 0)
                return page
            (plan,) = await self._plans([job], certain=True)
            between = list(target_spaces(plan.layout, job.options.target_language))
            parts = await streamed_in_order(plan.tasks, between, self._engine, self._asker, self._mended, show)
            return _text_translation(plan, parts)

        return TextStream.opened(work)

    async def _mended(self, task: PreparedSentence, patient: bool) -> TranslationResult:
        return (await self._translated([task], patient=patient))[0]

    async def _translated(
        self, tasks: Sequence[PreparedSentence], halvings: int = _MAX_HALVINGS, *, patient: bool = False
    ) -> list[TranslationResult]:
        """Those that ran into the model's own limit are translated again in halves, those that found no places for
        all spaces of the source in the parts between these."""
        found = await translated_with_repair(self._asker, tasks, patient=patient) if tasks else []
        again: list[tuple[int, SegmentedText, list[PreparedSentence]]] = []
        for number, (task, translation) in enumerate(zip(tasks, found, strict=True)):
            source = task.sentence.source
            cut = translation.finish_reason == "length" and task.job.options.decoding.max_new_tokens is None
            parted = (
                None
                if keeps_spaces(source, translation.text)
                else split_at_wide_spaces(source, task.job.options.source_language)
            )
            if parted is not None and parted.spans:
                again.append((number, parted, _prepared_sentences(parted, task.job.options, task.glossary)))
            elif cut and halvings > 0 and len(source) > _SHORT_CHARACTERS:
                layout = split_in_half(source, task.job.options.source_language)
                if len(layout.spans) > 1:
                    again.append((number, layout, _prepared_sentences(layout, task.job.options, task.glossary)))
        if again:
            tasks_again = [task for *_, own in again for task in own]
            parts = iter(await self._translated(tasks_again, halvings - 1, patient=True))
            for number, layout, own in again:
                found[number] = assembled(layout, [next(parts) for _ in own], tasks[number].job.options.target_language)
        return found

    async def _plans(self, jobs: Sequence[TextRequest], *, certain: bool) -> list[PreparedText]:
        size = sum(len(job.text) for job in jobs)
        layouts = await in_thread_if_long(
            size, lambda: [segmented(job.text, job.options.source_language, split=job.split) for job in jobs]
        )
        pairs = await self._fitted(list(zip(jobs, layouts, strict=True)), certain=certain)
        return await in_thread_if_long(size, lambda: _prepared_texts(pairs))

    async def _fitted(
        self, pairs: Sequence[tuple[TextRequest, SegmentedText]], *, certain: bool
    ) -> list[tuple[TextRequest, SegmentedText]]:
        rooms: dict[ModelKey, int] = {}
        found = []
        for job, layout in pairs:
            if layout.spans:
                model = job.options.model, job.options.source_language, job.options.target_language
                room = rooms[model] if model in rooms else rooms.setdefault(model, self._engine.source_room(*model))
                if certain or not surely_fits(layout, room):
                    count = partial(self._engine.source_tokens, *model)
                    layout = await split_to_fit(layout, room, count, certain=certain)
            found.append((job, layout))
        return found


def _prepared_texts(pairs: Sequence[tuple[TextRequest, SegmentedText]]) -> list[PreparedText]:
    glossaries: dict[int, TermMatcher] = {}  # by identity: the jobs of a request share one
    plans = []
    for job, layout in pairs:
        if job.glossary and id(job.glossary) not in glossaries:
            glossaries[id(job.glossary)] = TermMatcher(job.glossary)
        glossary = glossaries[id(job.glossary)] if job.glossary else _EMPTY_GLOSSARY
        plans.append(PreparedText(job, layout, _prepared_sentences(layout, job.options, glossary)))
    return plans


def _prepared_sentences(
    layout: SegmentedText, options: TranslationOptions, glossary: TermMatcher
) -> list[PreparedSentence]:
    """The prefix is for the first sentence alone."""
    if layout.spans == ((0, len(layout.text)),):
        return [PreparedSentence.of(Sentence.of(layout.text), options, glossary)]
    others = replace(options, prefix="") if options.prefix else options
    return [
        PreparedSentence.of(Sentence.of(piece), others if number else options, glossary)
        for number, piece in enumerate(layout.pieces)
    ]


def _text_translation(plan: PreparedText, parts: Sequence[TranslationResult]) -> TranslatedText:
    found = assembled(plan.layout, parts, plan.job.options.target_language)
    wants = plan.job.options.wants
    return TranslatedText(
        found.text,
        found.alternatives[: plan.job.options.alternatives],
        found.finish_reason,
        found.model,
        found.usage,
        found.scores if "scores" in wants else None,
        found.tokens if "tokens" in wants else None,
        found.alignment if "alignment" in wants else None,
    )
