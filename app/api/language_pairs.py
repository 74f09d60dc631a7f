"""The loaded language pairs, and the pair, glossary and format of each text of a request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Protocol

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from app.api.access_control import charge
from app.api.request_body import while_connected
from app.api.request_fields import quotable
from app.api.services import Services
from app.api.text_languages import AssignedPair, TextLanguages, already_in
from app.engine.interface import Engine, TranslationOptions, TranslationResult
from app.errors import EngineError, EngineUnavailable, UnknownPair
from app.interpreter import in_thread_if_long
from app.text.language_codes import base_language, closest_codes, code_meant_by
from app.text.page_parser import NO_RULES, TagRules
from app.translation import TextFormat, TextRequest
from app.translation.pivot import LanguageRoutes, Pair

_NAMED_PAIRS = 20
UNSPECIFIED_LANGUAGE = frozenset({"", "auto", "-"})  # as clients ask for detection
_NAMED_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9]{0,30})(?:\s[^<>]{0,200}?)?(/?)>")
_REFERENCE = re.compile(r"&(?:#\d{1,7}|#x[0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")


class LoadedPairs:
    """(source, target) codes of the models loaded by now, as the checkpoints spell them; requests may use any case.
    routes: with them, `find` and `into` give pairs too that need two models."""

    def __init__(self, engine: Engine, routes: LanguageRoutes | None = None) -> None:
        self.pairs = [pair for model in engine.models() for pair in model.language_pairs]
        self._engine, self._routes = engine, routes

    def find(self, source: str, target: str) -> Pair:
        """The loaded pair that is closest to these codes, else the closest one that two models translate, or
        `UnknownPair`."""
        if pair := self._closest(source, target):
            return pair
        meant = self._closest(code_meant_by(source) or source, code_meant_by(target) or target)
        field = "target" if closest_codes(source, [pair[0] for pair in self.pairs]) else "source"
        raise self._missing(f"for {quotable(source)} → {quotable(target)}", field, " → ".join(meant or ()))

    def _closest(self, source: str, target: str) -> Pair | None:
        sources = closest_codes(source, [pair[0] for pair in self.pairs])
        targets = closest_codes(target, [pair[1] for pair in self.pairs])
        for pair in product(sources, targets):
            if pair in self.pairs:
                return pair
        for pair in product(sources, targets) if self._routes else ():
            if self._routes and self._routes.legs(*pair):
                return pair
        return None

    def into(self, target: str) -> list[Pair]:
        """For every source language the loaded pair that is closest to this target, or `UnknownPair`."""
        by_source: dict[str, Pair] = {}
        for target_code in closest_codes(target, [pair[1] for pair in self.pairs]):
            for pair in self.pairs:
                if pair[1] == target_code:
                    by_source.setdefault(pair[0], pair)
        if self._routes:
            for target_code in closest_codes(target, [pair[1] for pair in self.pairs]):
                for source in self._routes.sources(target_code):
                    by_source.setdefault(source, (source, target_code))
        if not by_source:
            meant = closest_codes(code_meant_by(target) or "", [pair[1] for pair in self.pairs])
            raise self._missing(f"into {quotable(target)}", "target", "".join(meant[:1]))
        return list(by_source.values())

    @property
    def codes(self) -> list[str]:
        """Every language of a loaded pair."""
        return list(dict.fromkeys(code for pair in self.pairs for code in pair))

    def languages(self) -> list[str]:
        """The same; `UnknownPair` where none is loaded."""
        if not self.pairs:
            raise self._missing("to tell languages by", "q")
        return self.codes

    def _missing(self, wanted: str, field: str, meant: str = "") -> EngineError:
        """meant: the code, or "de → en", to ask about where the request has a language's name; "" for no question."""
        if any(state in ("starting", "restarting") for state in self._engine.status().devices.values()):
            return EngineUnavailable("Models are loading; try again in a few seconds.", reason="loading")
        names = [f"{source} → {target}" for source, target in dict.fromkeys(self.pairs)]
        more = f" and {len(names) - _NAMED_PAIRS} more (GET /languages)" if len(names) > _NAMED_PAIRS else ""
        loaded = f"Loaded pairs: {', '.join(names[:_NAMED_PAIRS])}{more}."
        if not names:
            loaded = "No translator is loaded; GET /health/ready says why."
        question = f"; did you mean {meant}?" if meant else "."
        return UnknownPair(f"There is no model {wanted} here{question} {loaded}", field=field)


async def find_pairs(
    texts: Sequence[str], source: str | None, target: str, services: Services, text_format: TextFormat = "text"
) -> list[AssignedPair]:
    """The languages of each text: those of the request, or, for a source of None, "" or "auto", as detected among all
    languages. Raises `UnknownPair`."""
    loaded = LoadedPairs(services.engine, services.routes)
    if source is not None and source.strip().lower() not in UNSPECIFIED_LANGUAGE:
        return [_named_pair(loaded, source.strip(), target)] * len(texts)
    found = TextLanguages(services.detector, dict(loaded.into(target)), target, services.engine.models())
    # The first call loads the detector, and a large batch takes a while.
    return await run_in_threadpool(lambda: [found.assign(text, text_format) for text in texts])


def _named_pair(loaded: LoadedPairs, source: str, target: str) -> AssignedPair:
    """The loaded pair, or a language and itself. Raises `UnknownPair`."""
    if (source, target) in loaded.pairs:  # as most clients spell them
        return AssignedPair(source, target)
    same = source.lower() == target.lower() or (base_language(source) != "zh" and bool(closest_codes(source, [target])))
    known = same and closest_codes(target, loaded.languages())
    return AssignedPair(source, target, already_in(target)) if known else AssignedPair(*loaded.find(source, target))


async def find_translator(
    source: str | None, target: str | None, target_language: str | None, model: str | None, services: Services
) -> tuple[str | None, str | None]:
    """The translator for an inspection of `source`, and of its translation `target`: `model` or, where that is None,
    the first model for the detected languages, as POST /translate would choose it; and the target language, None where
    one model has several. Both as given without a source, and where there is no choice. Raises UnknownPair."""
    models = services.engine.models()
    translators = [each for each in models if each.language_pairs and model in (None, each.name)]
    pairs = [pair for each in translators for pair in each.language_pairs]
    if source is None or len(pairs) < 2 or (model is not None and target_language is not None):
        return model, target_language
    if target_language is not None:
        try:
            pairs = LoadedPairs(services.engine).into(target_language)
        except UnknownPair as error:
            error.field = "target_language"
            raise
    likeliest = await run_in_threadpool(
        services.detector.detect, source, list(dict.fromkeys(pair[0] for pair in pairs))
    )
    targets = list(dict.fromkeys(pair[1] for pair in pairs if pair[0] == likeliest.language))
    into = targets[0]
    if target is None and len(targets) > 1 and len(translators) == 1:
        return model, None  # the engine says among which to choose
    if target is not None and len(targets) > 1:
        into = (await run_in_threadpool(services.detector.detect, target, targets)).language
    pair = likeliest.language, into
    return next(each.name for each in translators if pair in each.language_pairs), into


def models_needed(pair: Pair | AssignedPair, services: Services) -> int:
    """How many models translate a text of this pair: 1 or 2."""
    return max(1, len(services.routes.legs(pair[0], pair[1])))


async def charge_second_models(jobs: Iterable[TextRequest], request: Request, services: Services) -> None:
    """Charges the characters of texts that two models translate a second time. Raises the errors of `charge`."""
    characters = 0
    for job in jobs:
        pair = job.options.source_language, job.options.target_language
        characters += len(job.text) * (models_needed(pair, services) - 1)
    if characters:
        await charge(request, 0, characters)


async def find_glossaries(
    glossary: Mapping[str, str] | str | None, pairs: Iterable[Pair], owner: str, services: Services
) -> dict[Pair, Mapping[str, str]]:
    """The terms for each pair. Raises `UnknownGlossary`, and `InvalidRequest` where a glossary lacks a pair."""
    if not isinstance(glossary, str):
        return dict.fromkeys(pairs, glossary or {})
    find = services.glossaries.find
    return {pair: await run_in_threadpool(find, owner, glossary, *pair) for pair in dict.fromkeys(pairs)}


def guess_format(text: str) -> TextFormat:
    """For clients that name no format. Immersive Translate and Kiss Translator put <b1>…</b1> or <i2/> around bold
    words and links, and look for them in the translation: as HTML, tags keep their place. A single tag (a < b > c)
    makes no HTML."""
    opened: set[str] = set()
    for tag in _NAMED_TAG.finditer(text) if "<" in text else ():
        closes, name, alone = tag.groups()
        if alone or (closes and name in opened):
            return "html"
        if not closes:
            opened.add(name)
    return "text"


class TranslationBody(Protocol):
    """What all families have in the body of a translation. Its fields have their family's names as aliases."""

    @property
    def texts(self) -> Sequence[str]: ...

    @property
    def source(self) -> str | None: ...

    @property
    def target(self) -> str: ...


async def translate_body(
    body: TranslationBody,
    request: Request,
    services: Services,
    *,
    field: str,
    text_format: TextFormat | None = None,
) -> list[tuple[AssignedPair, TranslationResult]]:
    """The pair and the translation of each text. field: the family's name of the texts. text_format: as in
    `translate_texts`; languages are detected as those of plain texts."""
    services.limits.check_texts(body.texts, field)
    pairs = await find_pairs(body.texts, body.source, body.target, services)
    return list(zip(pairs, await translate_texts(body.texts, pairs, request, services, text_format), strict=True))


async def translate_texts(
    texts: Sequence[str],
    pairs: Sequence[AssignedPair],
    request: Request,
    services: Services,
    text_format: TextFormat | None = None,
    glossary: Mapping[str, str] | None = None,
    *,
    split: bool = True,
    tags: TagRules = NO_RULES,
) -> list[TranslationResult]:
    """The translation of each text, all admitted or refused together. text_format None: guessed for each text."""
    characters, formats = sum(map(len, texts)), [text_format or "text"] * len(texts)
    if text_format is None:
        formats = await in_thread_if_long(characters, lambda: [guess_format(text) for text in texts])
    jobs = [
        pair.text_request(text, TranslationOptions(*pair.pair), own_format, glossary or {}, split=split, tags=tags)
        for text, pair, own_format in zip(texts, pairs, formats, strict=True)
    ]
    translations = await translate_jobs(jobs, request, services)
    if text_format is None:
        triples = list(zip(texts, formats, translations, strict=True))
        translations = await in_thread_if_long(characters, lambda: [_unescape(*triple) for triple in triples])
    return translations


async def translate_jobs(jobs: Sequence[TextRequest], request: Request, services: Services) -> list[TranslationResult]:
    """The translation of each job for a client that is connected, charged a second time where two models translate."""
    await charge_second_models(jobs, request, services)
    work = services.translator.translate(jobs)
    return await while_connected(request, work, services.limits.request_timeout_s)


def _unescape(text: str, text_format: TextFormat, translation: TranslationResult) -> TranslationResult:
    """A text with tags was translated as HTML, which writes & as &amp;; a client that writes & gets & back."""
    if text_format == "text" or "&" not in translation.text or _REFERENCE.search(text):
        return translation
    plain = translation.text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    return replace(translation, text=plain)
