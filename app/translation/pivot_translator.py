"""Translates a pair of languages that no model has through a third language, with two models in turn. The answer has a
notice about it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from app.engine.interface import Notice, TranslationResult, Usage
from app.engine.output.text_stream import ShowText, TextStream
from app.errors import InvalidRequest
from app.text.language_codes import language_name
from app.translation import TextRequest
from app.translation.assemble import worst_finish_reason
from app.translation.language_routes import LanguageRoutes, Pair
from app.translation.text_translator import Translator

_BOTH_LEGS = 2


class PivotTranslator:
    """A `Translator` of all pairs that `routes` has. Raises `EngineError`s."""

    def __init__(self, translator: Translator, routes: LanguageRoutes) -> None:
        self._translator, self._routes = translator, routes

    async def translate(self, requests: Sequence[TextRequest]) -> list[TranslationResult]:
        """As `Translator.translate`. The second models of texts that need two wait for room in the queue instead of
        refusing what the first ones have translated."""
        legs = [self._legs(request) for request in requests]
        if not any(legs):
            return await self._translator.translate(requests)
        results = await self._translator.translate(
            [_first(request, own) if own else request for request, own in zip(requests, legs, strict=True)]
        )
        pivoted = [number for number, own in enumerate(legs) if own]
        second = await self._translator.translate(
            [_second(requests[number], legs[number], results[number]) for number in pivoted], patient=True
        )
        for number, result in zip(pivoted, second, strict=True):
            results[number] = _joined(legs[number], results[number], result)
        return results

    def stream(self, request: TextRequest) -> AbstractAsyncContextManager[TextStream[TranslationResult]]:
        """As `Translator.stream`; of a text that needs two models, the second one's translation is streamed."""
        legs = self._legs(request)
        if not legs:
            return self._translator.stream(request)

        async def work(show: ShowText) -> TranslationResult:
            (first,) = await self._translator.translate([_first(request, legs)])
            async with self._translator.stream(_second(request, legs, first), patient=True) as stream:
                async for delta in stream.deltas():
                    show(delta.text, 0)
            return _joined(legs, first, stream.result)

        return TextStream.opened(work)

    def _legs(self, request: TextRequest) -> tuple[Pair, ...]:
        """The two pairs of a request that needs two models, () of any other: the engine says what it cannot
        translate."""
        options = request.options
        pair = options.source_language, options.target_language
        legs = self._routes.legs(*pair)
        if len(legs) < _BOTH_LEGS:
            return ()
        way = f"{pair[0]} → {pair[1]} goes through {language_name(legs[0][1])} here, by two models"
        if options.model is not None:
            raise InvalidRequest(f'"model" names one translator, and {way}; leave it out.', field="model")
        if request.glossary:
            raise InvalidRequest(f"A glossary is for pairs that one model translates, and {way}.", field="glossary")
        if options.wants:
            wanted = ", ".join(f'"{name}"' for name in sorted(options.wants))
            raise InvalidRequest(
                f'"return" asks for {wanted}, which relate a text to one model\'s reading of it, and {way}; leave it'
                " out.",
                field="return",
            )
        return legs


def _first(request: TextRequest, legs: Sequence[Pair]) -> TextRequest:
    """The requests to the first model, into the pivot language: one translation each, which the second model reads."""
    source, target = legs[0]
    options = replace(request.options, source_language=source, target_language=target, alternatives=0, prefix="")
    return replace(request, options=options)


def _second(request: TextRequest, legs: Sequence[Pair], first: TranslationResult) -> TextRequest:
    """The request to the second model: the first model's translation into the target language."""
    source, target = legs[1]
    options = replace(request.options, source_language=source, target_language=target)
    return replace(request, text=first.text, options=options)


def _joined(legs: Sequence[Pair], first: TranslationResult, second: TranslationResult) -> TranslationResult:
    """The second model's answer, with the cost and the notices of both. The second model's have no places: they would
    be in a text that the caller has not seen, whose words the first model wrote."""
    models = tuple(name for name in (first.model, second.model) if name)
    later = [replace(notice, start=None, end=None) for notice in second.notices if notice.code != "unknown_words"]
    notices = [*first.notices, *dict.fromkeys(later)]
    if models:
        by = f"{models[0]} twice" if models == (models[0],) * _BOTH_LEGS else " and then ".join(models)
        pivot = language_name(legs[0][1])
        message = f"Translated through {pivot}, by {by}: no model here translates it directly."
        notices.insert(0, Notice("pivot", message, models=models))
    return replace(
        second,
        finish_reason=worst_finish_reason([first.finish_reason, second.finish_reason]),
        model=second.model or first.model,
        usage=_in_turn(first.usage, second.usage),
        notices=tuple(notices),
    )


def _in_turn(first: Usage, second: Usage) -> Usage:
    """The usage of two models of which the second starts when the first has ended."""
    shown = second.first_token_s
    return Usage(
        first.read_tokens + second.read_tokens,
        first.new_tokens + second.new_tokens,
        first.queued_s if second.queued_s is None else (first.queued_s or 0.0) + second.queued_s,
        None if shown is None else first.total_s + shown,
        first.total_s + second.total_s,
    )
