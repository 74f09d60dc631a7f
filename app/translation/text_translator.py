"""Translates texts and HTML pages of any length and layout through the engine, whole or streamed."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from app.engine.interface import Engine, Notice, TranslationOptions, TranslationResult
from app.engine.output.output_processor import total_usage
from app.engine.output.text_stream import ShowText, TextStream
from app.errors import TextTooLong
from app.text.glossary_matching import TermMatcher
from app.text.html_page import HtmlPage, parse_page
from app.text.tag_placement import AlignedSpan
from app.translation import TextRequest
from app.translation.assemble import MAX_NOTICES, assembled, worst_finish_reason
from app.translation.cached_engine import CachedEngine, TranslationCache, retried_while_overloaded
from app.translation.prepare import (
    PreparedSentence,
    SegmentedText,
    copying_matcher,
    keeps_spaces,
    segmented,
    split_at_wide_spaces,
    split_in_half,
    split_to_fit,
    split_where_damaged,
)
from app.translation.repair.sentence_repair import or_source_text, translated_with_repair
from app.translation.repair.text_edits import LayoutFilter, without_added_stop, without_invented_layout
from app.translation.slices import each_in_thread

TranslateTexts = Callable[[Sequence[TextRequest]], Awaitable[list[TranslationResult]]]

_MAX_HALVINGS = 2  # of a sentence with a truncated translation
_SHORT_CHARACTERS = 60  # a truncated translation of a shorter sentence is a loop: halving does not help
_BATCH_CHARACTERS, _BATCH_TEXTS = 50_000, 1000
_CONCURRENT_SENTENCES = 16  # fills the default slots with beams of 4
_TASKS_AHEAD = 4 * _CONCURRENT_SENTENCES  # so that a slow sentence leaves slots to the later ones
_STREAM_WAIT_S = 50.0  # for later sentences of a stream, when text before them is already shown


@dataclass(frozen=True, slots=True)
class PreparedText:
    """A text ready to translate. sentences: one per piece of the segmented text. left: notices about sentences in a
    foreign language, which are not translated."""

    request: TextRequest
    segmented: SegmentedText
    sentences: list[PreparedSentence]
    left: tuple[Notice, ...] = ()

    def assembled(self, translations: Sequence[TranslationResult]) -> TranslationResult:
        options, text = self.request.options, self.segmented
        result = translations[0] if text.whole else assembled(text, translations, options.target_language)
        return replace(
            result,
            alternatives=result.alternatives[: options.alternatives],
            scores=result.scores if "scores" in options.wants else None,
            tokens=result.tokens if "tokens" in options.wants else None,
            alignment=result.alignment if "alignment" in options.wants else None,
            notices=(*self.left, *result.notices)[:MAX_NOTICES] if self.left else result.notices,
        )


class Translator:
    """Translates texts and pages. Raises `EngineError`s."""

    def __init__(self, engine: Engine, cache: TranslationCache | None = None) -> None:
        self._engine = engine
        self._cached = CachedEngine(engine, TranslationCache() if cache is None else cache)

    async def translate(self, requests: Sequence[TextRequest], *, patient: bool = False) -> list[TranslationResult]:
        """Results in order, admitted or refused together, a large request by its first batch. A result covers the text
        with its layout: worst finish_reason ("repetition", "length", "stop"), mean scores, spans of the whole text.
        model: "" if nothing was translated. patient: waits for room in a full queue."""
        if any(request.unchanged for request in requests):
            changed = [request for request in requests if not request.unchanged]
            translations = iter(await self.translate(changed, patient=patient) if changed else [])
            return [_as_it_is(request) if request.unchanged else next(translations) for request in requests]
        if any(request.format == "html" for request in requests):
            results: list[TranslationResult] = []
            for batch in _batches(requests):  # pages of 2 MB have a million tags, each of which is several objects
                translate = partial(self._translate_texts, patient=patient or bool(results))
                results += await translated_pages(batch, translate)
            return results
        return await self._translate_texts(requests, patient=patient)

    async def _translate_texts(self, requests: Sequence[TextRequest], *, patient: bool) -> list[TranslationResult]:
        results: list[TranslationResult] = []
        matchers = _Matchers()
        for batch in _batches(requests):
            results += await self._translate_batch(batch, matchers, patient=patient or bool(results))
        return results

    async def _translate_batch(
        self, requests: Sequence[TextRequest], matchers: _Matchers, *, patient: bool
    ) -> list[TranslationResult]:
        try:
            return await self._translate_fitted(requests, matchers, certain=False, patient=patient)
        except TextTooLong:  # a sentence has more tokens than bytes: count the tokens of all sentences
            return await self._translate_fitted(requests, matchers, certain=True, patient=patient)

    async def _translate_fitted(
        self, requests: Sequence[TextRequest], matchers: _Matchers, *, certain: bool, patient: bool
    ) -> list[TranslationResult]:
        texts = await self._prepared(requests, matchers, certain=certain)
        sentences = [sentence for text in texts for sentence in text.sentences]
        translations = iter(await self._translate_sentences(sentences, patient=patient))
        parts = [(text, [next(translations) for _ in text.sentences]) for text in texts]
        return await each_in_thread(parts, _lengths(requests), lambda part: part[0].assembled(part[1]))

    async def _prepared(
        self, requests: Sequence[TextRequest], matchers: _Matchers, *, certain: bool
    ) -> list[PreparedText]:
        """Splits texts into sentences that fit. certain: count the tokens of all sentences."""
        lengths = _lengths(requests)
        texts = await each_in_thread(
            requests, lengths, lambda each: segmented(each.text, each.options.source_language, split=each.split)
        )
        left: list[tuple[Notice, ...]] = [()] * len(texts)
        if any(request.foreign for request in requests):
            pairs = list(zip(requests, texts, strict=True))
            parted = await each_in_thread(pairs, lengths, lambda pair: _without_foreign(*pair))
            texts, left = [text for text, _ in parted], [notices for _, notices in parted]
        for number, (request, text) in enumerate(zip(requests, texts, strict=True)):
            if text.spans:
                options = request.options
                model = options.model, options.source_language, options.target_language
                room, count_tokens = await self._engine.source_room(*model), partial(self._engine.source_tokens, *model)
                if certain or len(request.text.encode()) >= room - 2:  # else every piece fits
                    texts[number] = await split_to_fit(text, room, count_tokens, certain=certain)
        known_words = [self._known_words(request.options) for request in requests]
        triples = list(zip(requests, texts, known_words, strict=True))
        prepared = await each_in_thread(triples, lengths, lambda triple: _prepared_text(*triple, matchers))
        return [replace(text, left=notices) if notices else text for text, notices in zip(prepared, left, strict=True)]

    def _known_words(self, options: TranslationOptions) -> Collection[str] | None:
        """The words that the model of these options was trained on, if it is a demo model."""
        pair = options.source_language, options.target_language
        for model in self._engine.models():
            if pair in model.language_pairs and options.model in (None, model.name):
                return None if model.demo is None else model.demo.known_words
        return None

    async def _translate_sentences(
        self, sentences: Sequence[PreparedSentence], halvings: int = _MAX_HALVINGS, *, patient: bool = False
    ) -> list[TranslationResult]:
        """Translates; retries in halves at the model's token limit, and in parts where wide spaces were lost."""
        if not sentences:
            return []
        translations = await translated_with_repair(self._cached, sentences, patient=patient)
        pairs = list(zip(sentences, translations, strict=True))
        lengths = [0 if sentence.plain else len(sentence.source) for sentence in sentences]
        parted = await each_in_thread(pairs, lengths, lambda pair: _parts_to_repeat(*pair, halvings))
        again = [(number, *parts) for number, parts in enumerate(parted) if parts is not None]
        if again:
            repeated = [sentence for *_, own in again for sentence in own]
            results = iter(await self._translate_sentences(repeated, max(0, halvings - 1), patient=True))
            for number, parts, own in again:
                target_language = sentences[number].request.options.target_language
                written = [without_added_stop(part.source, next(results)) for part in own]
                translations[number] = assembled(parts, written, target_language)
        return translations

    def stream(
        self, request: TextRequest, *, patient: bool = False
    ) -> AbstractAsyncContextManager[TextStream[TranslationResult]]:
        """`translate`, streamed: sentences are translated concurrently and shown in order; pages and sentences that may
        need repair are shown when complete. A shown sentence that reaches the token limit is not retried in halves."""

        async def work(show: ShowText) -> TranslationResult:
            if request.unchanged:
                show(request.text, 0)
                return _as_it_is(request)
            if request.format == "html":
                (page,) = await self.translate([request], patient=patient)
                show(page.text, 0)
                return page
            (text,) = await self._prepared([request], _Matchers(), certain=True)
            return text.assembled(await self._stream_sentences(text, show, patient=patient))

        return TextStream.opened(work)

    async def _stream_sentences(self, text: PreparedText, show: ShowText, *, patient: bool) -> list[TranslationResult]:
        """Translates and shows all sentences. An early failure of the first one is raised before any text is shown."""
        layout = text.segmented.layout(text.request.options.target_language)
        room = asyncio.Semaphore(_CONCURRENT_SENTENCES)
        shown: list[asyncio.Queue[str | None]] = [asyncio.Queue() for _ in text.sentences]  # None: end of sentence

        async def one(number: int) -> TranslationResult:
            sentence, put = text.sentences[number], shown[number].put_nowait
            async with room:
                try:
                    as_written = sentence.plain and not sentence.marks
                    if as_written and self._cached.cached(sentence.request) is None:
                        return await self._stream_sentence(sentence, put, patient=patient or number > 0)
                    (translation,) = await self._translate_sentences([sentence], patient=patient or number > 0)
                    put(translation.text)
                    return translation
                finally:
                    put(None)

        # Tasks for a few sentences ahead of the one that is shown: those of a long text would start in one iteration.
        tasks: deque[asyncio.Task[TranslationResult]] = deque()
        numbers = iter(range(len(text.sentences)))
        results: list[TranslationResult] = []
        try:
            for before, queue in zip(layout, shown, strict=False):
                tasks += [asyncio.create_task(one(number)) for number in islice(numbers, _TASKS_AHEAD - len(tasks))]
                while (part := await queue.get()) is not None:
                    if part:
                        show(before + part, 0)
                        before = ""
                results.append(await tasks[0])
                tasks.popleft()
                if before:
                    show(before, 0)
            if layout[-1]:
                show(layout[-1], 0)
            return results
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)  # the first exception is already raised

    async def _stream_sentence(
        self, sentence: PreparedSentence, put: Callable[[str], None], *, patient: bool
    ) -> TranslationResult:
        """Streams one sentence. patient: waits while the engine is overloaded, as sentences after the first do."""
        prefix = sentence.request.options.prefix

        async def attempt() -> TranslationResult:
            shown, layout_filter = False, LayoutFilter(prefix)
            async with self._engine.stream_translation(sentence.request) as stream:
                async for delta in stream.deltas():
                    if part := layout_filter.add(delta.text):
                        put(part)
                        shown = True
                result = without_invented_layout(stream.result, prefix)
            if not shown:
                result = or_source_text(sentence, result)
                put(result.text)
            return result

        return await retried_while_overloaded(attempt, time.monotonic() + _STREAM_WAIT_S if patient else 0.0)


def _parts_to_repeat(
    sentence: PreparedSentence, translation: TranslationResult, halvings: int
) -> tuple[SegmentedText, list[PreparedSentence]] | None:
    """The parts of a sentence to translate by themselves, None for a sentence whose translation is good enough."""
    parts = _damaged_parts(sentence, translation, halvings)
    return None if parts is None else (parts, _prepared_sentences(parts, sentence.request.options, sentence.matcher))


def _damaged_parts(sentence: PreparedSentence, translation: TranslationResult, halvings: int) -> SegmentedText | None:
    source, options = sentence.source, sentence.request.options
    parts = None
    if not keeps_spaces(source, translation.text):
        parts = split_at_wide_spaces(source, options.source_language)
    if (parts is None or not parts.spans) and not sentence.terms:
        parts = split_where_damaged(sentence, translation.text, translation.finish_reason)
    if parts is not None and parts.spans:
        return parts
    cut_off = translation.finish_reason == "length" and options.decoding.max_new_tokens is None
    if not cut_off or halvings == 0 or len(source) <= _SHORT_CHARACTERS:
        return None
    parts = split_in_half(source, options.source_language)
    return parts if len(parts.spans) > 1 else None


def _without_foreign(request: TextRequest, text: SegmentedText) -> tuple[SegmentedText, tuple[Notice, ...]]:
    """The pieces without sentences in a foreign language, and the notices about these sentences."""
    if request.foreign is None or not text.spans:
        return text, ()
    spans, notices = list[tuple[int, int]](), list[Notice]()
    for start, end in text.spans:
        notice = request.foreign(text.text[start:end])
        if notice is None:
            spans.append((start, end))
        else:
            notices.append(replace(notice, start=start, end=end))
    return replace(text, spans=tuple(spans)), tuple(notices)


def _as_it_is(request: TextRequest) -> TranslationResult:
    return TranslationResult(request.text, notices=(request.unchanged,) if request.unchanged else ())


def _batches(requests: Sequence[TextRequest]) -> Iterator[Sequence[TextRequest]]:
    """Texts that are prepared and translated together. Most requests are one batch; of a large one the event loop
    handles a batch at a time."""
    start = size = 0
    for number, request in enumerate(requests, 1):
        size += len(request.text)
        if size >= _BATCH_CHARACTERS or number - start == _BATCH_TEXTS:
            yield requests[start:number]
            start, size = number, 0
    if start < len(requests):
        yield requests[start:]


def _lengths(requests: Sequence[TextRequest]) -> list[int]:
    return [len(request.text) for request in requests]


class _Matchers:
    """The matchers of glossaries, which requests may share, and of the words that a demo model does not know."""

    def __init__(self) -> None:
        self._of_glossary: dict[int, TermMatcher] = {}

    def find(self, request: TextRequest, text: str, known_words: Collection[str] | None) -> TermMatcher | None:
        """known_words: the words that a demo model was trained on. Other words become terms that it copies, unless the
        request has a glossary."""
        glossary = request.glossary
        if glossary and id(glossary) not in self._of_glossary:
            self._of_glossary[id(glossary)] = TermMatcher(glossary)
        matcher = self._of_glossary.get(id(glossary))
        return copying_matcher(text, known_words) if matcher is None and known_words is not None else matcher


def _prepared_text(
    request: TextRequest, text: SegmentedText, known_words: Collection[str] | None, matchers: _Matchers
) -> PreparedText:
    matcher = matchers.find(request, text.text, known_words)
    return PreparedText(request, text, _prepared_sentences(text, request.options, matcher))


def _prepared_sentences(
    text: SegmentedText, options: TranslationOptions, matcher: TermMatcher | None
) -> list[PreparedSentence]:
    """The prefix applies to the first sentence only."""
    if text.whole:
        return [PreparedSentence.of(text.text, options, matcher)]
    others = replace(options, prefix="") if options.prefix else options
    return [
        PreparedSentence.of(piece, others if number else options, matcher) for number, piece in enumerate(text.pieces)
    ]


async def translated_pages(requests: Sequence[TextRequest], translate: TranslateTexts) -> list[TranslationResult]:
    """Results in order, of both formats; the texts of all pages go into one `translate` call. A page has no
    alternatives, tokens or alignment; its score is the mean of its texts', its prefix applies to the first text, and
    its notices are without places."""
    lengths = [len(request.text) if request.format == "html" else 0 for request in requests]
    parsed = await each_in_thread(requests, lengths, _parsed)
    pages, parts = [page for page, _ in parsed], [own for _, own in parsed]
    together = [part for own in parts for part in own]
    translations = iter(await translate(together) if together else [])
    results = [[next(translations) for _ in own] for own in parts]
    triples = list(zip(requests, pages, results, strict=True))
    return await each_in_thread(triples, lengths, lambda triple: _translated_page(*triple))


def _parsed(request: TextRequest) -> tuple[HtmlPage | None, list[TextRequest]]:
    """The page of a request, None for a plain text, and the requests of its texts."""
    if request.format != "html":
        return None, [request]
    page = parse_page(request.text)
    return page, _page_requests(request, page)


def _page_requests(request: TextRequest, page: HtmlPage) -> list[TextRequest]:
    wants = frozenset({"alignment", *(request.options.wants & {"scores"})})
    first = replace(request.options, alternatives=0, wants=wants)
    others = replace(first, prefix="") if first.prefix else first
    return [
        replace(request, text=text, format="text", options=others if number else first)
        for number, text in enumerate(page.texts)
    ]


def _translated_page(
    request: TextRequest, page: HtmlPage | None, texts: Sequence[TranslationResult]
) -> TranslationResult:
    """page: None for a plain text."""
    if page is None:
        return texts[0]

    def spans(text: TranslationResult) -> list[AlignedSpan]:
        words = text.alignment or ()
        return [AlignedSpan(word.target_start, word.target_end, word.source_start, word.source_end) for word in words]

    pieces = page.pieces([(text.text, spans(text)) for text in texts])
    scores = [text.scores[0] for text in texts if text.scores] if "scores" in request.options.wants else []
    return TranslationResult(
        "".join(pieces),
        (),
        worst_finish_reason(text.finish_reason for text in texts),
        next((text.model for text in texts if text.model), ""),
        total_usage([text.usage for text in texts]),
        (sum(scores) / len(scores),) if scores else None,
        notices=_page_notices(texts),
    )


def _page_notices(texts: Sequence[TranslationResult]) -> tuple[Notice, ...]:
    """Of the texts of a page, each once: places in its texts are none in the page."""
    if not any(text.notices for text in texts):
        return ()
    notices = (replace(notice, start=None, end=None) for text in texts for notice in text.notices)
    return tuple(dict.fromkeys(notices))[:MAX_NOTICES]
