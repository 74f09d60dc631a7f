"""The loaded language pairs, and the pair, glossary and format of each text of a request."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import NamedTuple

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from app.api.access_control import charge
from app.api.event_stream import while_connected
from app.api.field_types import quotable
from app.api.services import Services
from app.engine.interface import Engine, Notice, TranslationOptions, TranslationResult
from app.errors import EngineError, EngineUnavailable, UnknownPair
from app.text.language_codes import base_language, closest_codes, code_meant_by, language_name
from app.text.language_detection import Detection
from app.translation import TextFormat, TextRequest
from app.translation.language_routes import LanguageRoutes, Pair
from app.translation.slices import each_in_thread

_NAMED_PAIRS = 20
_NAMED_LANGUAGES = 5
_MARKUP = re.compile(r"(<[^<>]*>)")
_PROGRAMS = frozenset({"script", "style", "code"})
_MARKUP_CHARACTERS = 20_000  # enough for as much text as the detector reads
UNSPECIFIED_LANGUAGE = frozenset({"", "auto", "-"})  # as clients ask for detection
# From this probability on, against the languages that are translated to it, a text is in the target language. Of German
# texts of one word 0.1 % are taken for English, of two or more words none; 93 % of English words stay as they are.
_LEAST_PROBABILITY = 0.7
# In a text of several sentences one is left as it is, where it is in another language than the text, from so many words
# and such a probability on.
_LEAST_FOREIGN_WORDS = 3
_LEAST_FOREIGN_PROBABILITY = 0.95
_SENTENCE_END = re.compile(r"[.!?…]\s|\n")
_WORD = re.compile(r"[^\W\d_]{2,}")
_TAG = re.compile(r"</?[A-Za-z][^<>]{0,200}>")
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
        if (source, target) in self.pairs:  # as most clients spell them
            return source, target
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

    def languages(self) -> list[str]:
        """Every language of a loaded pair; `UnknownPair` where none is loaded."""
        if not self.pairs:
            raise self._missing("to tell languages by", "q")
        return list(dict.fromkeys(code for pair in self.pairs for code in pair))

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


class AssignedPair(NamedTuple):
    """The languages of a text. unchanged: why the text is returned as it is: it is in the target language, or in none
    that a model reads, which is then its source. detection: None if the request names the source. foreign: as in
    `TextRequest`."""

    source: str
    target: str
    unchanged: Notice | None = None
    detection: Detection | None = None
    foreign: Callable[[str], Notice | None] | None = None

    @property
    def pair(self) -> Pair:
        return self.source, self.target

    def text_request(
        self,
        text: str,
        options: TranslationOptions,
        text_format: TextFormat,
        glossary: Mapping[str, str],
        *,
        split: bool,
    ) -> TextRequest:
        return TextRequest(text, options, text_format, glossary, split, self.unchanged, self.foreign)


async def find_pairs(
    texts: Sequence[str], source: str | None, target: str, services: Services, text_format: TextFormat = "text"
) -> list[AssignedPair]:
    """The languages of each text: those of the request, or, for a source of None, "" or "auto", as detected among all
    languages. Raises `UnknownPair`."""
    loaded = LoadedPairs(services.engine, services.routes)
    if source is not None and source.strip().lower() not in UNSPECIFIED_LANGUAGE:
        return [_named_pair(loaded, source.strip(), target)] * len(texts)
    by_source = dict(loaded.into(target))
    # The detector knows no regions or scripts: it would choose between en-GB and a source en-US by chance.
    bases = {base_language(code) for code in by_source}
    targets = [code for code in dict.fromkeys(by_source.values()) if base_language(code) not in bases]
    detector = services.detector

    def assign(text: str) -> AssignedPair:
        words = _without_markup(text) if text_format == "html" else _TAG.sub(" ", text)
        found = detector.identify(words, [*by_source, *targets])
        detection = found.detection
        if not found.is_candidate:
            notice = _unsupported(detection.language, list(by_source), target)
            return AssignedPair(detection.language, target, notice, detection)
        if detection.language in targets and found.probability >= _LEAST_PROBABILITY:
            return AssignedPair(detection.language, detection.language, _already_in(detection.language), detection)
        if detection.language in targets:
            detection = detector.detect(words, list(by_source))
        source = detection.language
        several = text_format == "html" or _SENTENCE_END.search(text)
        return AssignedPair(source, by_source[source], None, detection, partial(foreign, source) if several else None)

    def foreign(source: str, sentence: str) -> Notice | None:
        if len(_WORD.findall(sentence)) < _LEAST_FOREIGN_WORDS:
            return None
        found = detector.identify(sentence, [*by_source, *targets])
        language = found.detection.language
        if not found.is_candidate:
            return _unsupported(language, list(by_source), target)
        if base_language(language) == base_language(source) or found.probability < _LEAST_FOREIGN_PROBABILITY:
            return None
        return _already_in(language) if language in targets else _in_another(language, source)

    # The first call loads the detector, and a large batch takes a while.
    return await run_in_threadpool(lambda: [assign(text) for text in texts])


def _named_pair(loaded: LoadedPairs, source: str, target: str) -> AssignedPair:
    """The loaded pair, or a language and itself. Raises `UnknownPair`."""
    same = source.lower() == target.lower() or (base_language(source) != "zh" and bool(closest_codes(source, [target])))
    known = same and (source, target) not in loaded.pairs and closest_codes(target, loaded.languages())
    return AssignedPair(source, target, _already_in(target)) if known else AssignedPair(*loaded.find(source, target))


def _already_in(target: str) -> Notice:
    name = language_name(base_language(target))
    return Notice("already_in_target_language", f"This text is in {name} already; it is returned as it is.")


def _in_another(language: str, source: str) -> Notice:
    name, others = language_name(base_language(language)), language_name(base_language(source))
    message = f"This sentence seems to be in {name} within a text in {others}; it is returned as it is."
    return Notice("unsupported_language", message)


def _unsupported(language: str, sources: Sequence[str], target: str) -> Notice:
    name, into = language_name(language), language_name(base_language(target))
    read = sorted({language_name(base_language(code)) for code in sources})
    named = [*read[:_NAMED_LANGUAGES], *(["another one"] if len(read) > _NAMED_LANGUAGES else [])]
    known = " or ".join(part for part in (", ".join(named[:-1]), named[-1]) if part)
    message = f"This text seems to be in {name}, which no model here translates into {into}; it is returned as it is."
    return Notice("unsupported_language", f"{message} Name its language if it is in {known}.")


async def find_translator(
    source: str | None, target: str | None, target_language: str | None, services: Services
) -> tuple[str | None, str | None]:
    """The translator for an inspection of `source`, and of its translation `target`, that names no model: the name of
    the first model for the detected languages, as POST /translate would choose it, and the target language. (None,
    `target_language`) without a source, or with fewer than two translators. Raises UnknownPair."""
    translators = [model for model in services.engine.models() if model.language_pairs]
    if source is None or len(translators) < 2:
        return None, target_language
    loaded = LoadedPairs(services.engine)
    try:
        pairs = loaded.pairs if target_language is None else loaded.into(target_language)
    except UnknownPair as error:
        error.field = "target_language"
        raise
    likeliest = await run_in_threadpool(
        services.detector.detect, source, list(dict.fromkeys(pair[0] for pair in pairs))
    )
    targets = list(dict.fromkeys(pair[1] for pair in pairs if pair[0] == likeliest.language))
    into = targets[0]
    if target is not None and len(targets) > 1:
        into = (await run_in_threadpool(services.detector.detect, target, targets)).language
    pair = likeliest.language, into
    return next(model.name for model in translators if pair in model.language_pairs), into


def models_needed(pair: Pair | AssignedPair, services: Services) -> int:
    """How many models translate a text of this pair: 1 or 2."""
    return max(1, len(services.routes.legs(pair[0], pair[1])))


async def charge_second_models(
    texts: Iterable[str], pairs: Iterable[Pair | AssignedPair], request: Request, services: Services
) -> None:
    """Charges the characters of texts that two models translate a second time. Raises the errors of `charge`."""
    characters = sum(len(text) * (models_needed(pair, services) - 1) for text, pair in zip(texts, pairs, strict=True))
    if characters:
        await charge(request, 0, characters)


def _without_markup(text: str) -> str:
    """The text without tags and programs: their English words would mislead the detection of its language."""
    words, within = [], None
    for part in _MARKUP.split(text[:_MARKUP_CHARACTERS]):
        if not part.startswith("<"):
            words += [] if within else [part]
            continue
        name = part.strip("<>/ ").partition(" ")[0].lower()
        if part.startswith("</"):
            within = None if name == within else within
        elif within is None and name in _PROGRAMS:
            within = name
    return html.unescape(" ".join(words))


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


async def translate_texts(
    texts: Sequence[str],
    pairs: Sequence[AssignedPair],
    request: Request,
    services: Services,
    *,
    text_format: TextFormat | None = None,
    glossary: Mapping[str, str] | None = None,
    split: bool = True,
) -> list[TranslationResult]:
    """The translation of each text, all admitted or refused together. text_format None: guessed for each text."""
    await charge_second_models(texts, pairs, request, services)
    terms, lengths = glossary or {}, [len(text) for text in texts]
    formats = [text_format] * len(texts) if text_format else await each_in_thread(texts, lengths, guess_format)
    jobs = [
        pair.text_request(text, TranslationOptions(*pair.pair), own_format, terms, split=split)
        for text, pair, own_format in zip(texts, pairs, formats, strict=True)
    ]
    translations = await while_connected(
        request, services.translator.translate(jobs), services.limits.request_timeout_s
    )
    if text_format is None:
        triples = list(zip(texts, formats, translations, strict=True))
        translations = await each_in_thread(triples, lengths, lambda triple: _unescape(*triple))
    return translations


def _unescape(text: str, text_format: TextFormat, translation: TranslationResult) -> TranslationResult:
    """A text with tags was translated as HTML, which writes & as &amp;; a client that writes & gets & back."""
    if text_format == "text" or "&" not in translation.text or _REFERENCE.search(text):
        return translation
    plain = translation.text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    return replace(translation, text=plain)
