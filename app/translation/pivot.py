"""Pairs of languages that one model translates, and pairs that two translate in turn through a third language. The
answer of two models has a notice about it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from app.engine.interface import Engine, Notice, TranslationResult, Usage
from app.engine.output.notices import still_true
from app.engine.output.text_stream import ShowText, TextStream
from app.errors import InvalidRequest
from app.text.language_codes import base_language, closest_codes, language_name
from app.translation import TextRequest
from app.translation.assemble import worst_finish_reason
from app.translation.driver import Translator

Pair = tuple[str, str]
FIRST_PIVOT = "en"  # before other languages: most pairs of public models, and most training text, have it on one side
_BOTH_LEGS = 2


class LanguageRoutes:
    """The routes of the models that are loaded by now. pivoting: whether pairs without a model go through a third
    language."""

    def __init__(self, engine: Engine, *, pivoting: bool = True) -> None:
        self._engine, self._pivoting = engine, pivoting
        self._models: list[tuple[Pair, ...]] = []
        self._table = _RouteTable([])

    def legs(self, source: str, target: str) -> tuple[Pair, ...]:
        """The pair of each model in turn: one, two, or none where the pair is not translated. Codes as the checkpoints
        spell them; so of the other methods."""
        table = self._current()
        if (source, target) in table.pairs:
            return ((source, target),)
        return table.pivot_legs(source, target) if self._pivoting else ()

    def targets(self, source: str) -> list[str]:
        """The languages that a source language is translated to, those of one model first."""
        table = self._current()
        direct = table.targets_of.get(source, [])
        if not self._pivoting:
            return list(direct)
        through = [code for code in table.sources_of if code not in direct and table.pivot_legs(source, code)]
        return [*direct, *through]

    def sources(self, target: str) -> list[str]:
        """The languages that are translated to `target`, those of one model first."""
        table = self._current()
        direct = table.sources_of.get(target, [])
        if not self._pivoting:
            return list(direct)
        through = [code for code in table.targets_of if code not in direct and table.pivot_legs(code, target)]
        return [*direct, *through]

    def _current(self) -> _RouteTable:
        models = [model.language_pairs for model in self._engine.models()]
        if models != self._models:  # on every request, and the loaded models seldom change
            self._models, self._table = models, _RouteTable(pair for pairs in models for pair in pairs)
        return self._table


class _RouteTable:
    """The pairs of one set of models. pairs: in the order of the models. targets_of, sources_of: by language."""

    def __init__(self, pairs: Iterable[Pair]) -> None:
        self.pairs = dict.fromkeys(pairs)
        self.targets_of: dict[str, list[str]] = {}
        self.sources_of: dict[str, list[str]] = {}
        for source, target in self.pairs:
            self.targets_of.setdefault(source, []).append(target)
            self.sources_of.setdefault(target, []).append(source)
        self._found: dict[Pair, tuple[Pair, ...]] = {}

    def pivot_legs(self, source: str, target: str) -> tuple[Pair, ...]:
        """Two pairs that meet in a third language, English if it is one that they can meet in; () without any."""
        if (source, target) not in self._found:
            self._found[source, target] = self._search(source, target)
        return self._found[source, target]

    def _search(self, source: str, target: str) -> tuple[Pair, ...]:
        ends = {base_language(source), base_language(target)}
        if len(ends) == 1:  # a language is no translation of itself, nor one script of it of the other
            return ()
        into_target = self.sources_of.get(target, ())
        pivots = [code for code in self.targets_of.get(source, ()) if base_language(code) not in ends]
        for written in sorted(pivots, key=lambda code: base_language(code) != FIRST_PIVOT):
            if read := _same_language(written, into_target):
                return (source, written), (read, target)
        return ()


def _same_language(code: str, known: Sequence[str]) -> str | None:
    """The code of `known` whose models read what is written in `code`: en of en-GB."""
    return code if code in known else next(iter(closest_codes(code, known)), None)


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
    known = {notice.message for notice in first.notices}  # a sentence that stays comes to both models
    later = [
        replace(notice, start=None, end=None)
        for notice in second.notices
        if notice.code != "unknown_words" and notice.message not in known
    ]
    notices = [*still_true(first.notices, second.text), *dict.fromkeys(later)]
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
