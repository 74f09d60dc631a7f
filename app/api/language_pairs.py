"""The loaded language pairs, and the pair, glossary and format of each text of a request."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from app.api.event_stream import while_connected
from app.api.field_types import quotable
from app.api.services import Services
from app.engine.errors import EngineError, EngineUnavailable, UnknownPair
from app.engine.interface import Engine, TranslationOptions
from app.text.language_codes import base_language, closest_codes
from app.text.language_detection import Detection, Detector
from app.translation import TextFormat, TextRequest, TranslatedText

_NAMED_PAIRS = 20
_MARKUP = re.compile(r"(<[^<>]*>)")
_UNREAD = frozenset({"script", "style", "code"})
_MARKUP_CHARACTERS = 20_000  # in which the detector finds as much text as it reads
Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class LoadedPairs:
    """(source, target) codes as the checkpoints spell them; requests may spell them in any case."""

    pairs: Sequence[tuple[str, str]]
    engine: Engine

    @classmethod
    def of(cls, engine: Engine) -> Self:
        """Taken anew for each request: models load while the server already answers."""
        pairs = [(model.source_language, model.target_language) for model in engine.models()]
        return cls([(source, target) for source, target in pairs if source and target], engine)

    def find(self, source: str, target: str) -> Pair:
        """The loaded pair of these codes, or the closest to them (`closest`), or `UnknownPair`."""
        if (source, target) in self.pairs:  # as nearly everyone spells them
            return source, target
        pairs = set(self.pairs)
        for from_code in closest_codes(source, [pair[0] for pair in self.pairs]):
            for to_code in closest_codes(target, [pair[1] for pair in self.pairs]):
                if (from_code, to_code) in pairs:
                    return from_code, to_code
        raise self._missing(f"for {quotable(source)} → {quotable(target)}", self._field(source))

    def into(self, target: str) -> list[Pair]:
        """Of every source language the loaded pair that is closest to this target, or `UnknownPair`."""
        found: dict[str, Pair] = {}
        for to_code in closest_codes(target, [pair[1] for pair in self.pairs]):
            for pair in self.pairs:
                if pair[1] == to_code:
                    found.setdefault(pair[0], pair)
        if not found:
            raise self._missing(f"into {quotable(target)}", "target")
        return list(found.values())

    def languages(self) -> list[str]:
        """Every code of a loaded pair, once each; without any pair, what is raised for one that is missing."""
        if not self.pairs:
            raise self._missing("to tell languages by", "q")
        return list(dict.fromkeys(code for pair in self.pairs for code in pair))

    def _field(self, source: str) -> str:
        return "target" if closest_codes(source, [pair[0] for pair in self.pairs]) else "source"

    def _missing(self, wanted: str, field: str) -> EngineError:
        if any(state in ("starting", "restarting") for state in self.engine.status().devices.values()):
            return EngineUnavailable("Models are loading; try again in a few seconds.")
        names = [f"{source} → {target}" for source, target in dict.fromkeys(self.pairs)]
        more = f" and {len(names) - _NAMED_PAIRS} more (GET /languages)" if len(names) > _NAMED_PAIRS else ""
        loaded = f"Loaded pairs: {', '.join(names[:_NAMED_PAIRS])}{more}."
        if not names:
            loaded = "No translator is loaded; GET /health/ready says why."
        return UnknownPair(f"There is no model {wanted} here. {loaded}", field=field)


async def find_pairs(
    texts: Sequence[str], source: str | None, target: str, services: Services, text_format: TextFormat = "text"
) -> tuple[list[Pair], list[Detection] | None]:
    """The (source, target) of each text and, where the source was to be detected ("auto", or nothing said), how sure
    that is."""
    loaded = LoadedPairs.of(services.engine)
    if source is not None and source.lower() != "auto":
        return [loaded.find(source, target)] * len(texts), None
    by_source = dict(loaded.into(target))
    detect, candidates = services.detector.detect, list(by_source)
    # In a thread: the first call loads the detector, and a large batch takes a while.
    detections = await run_in_threadpool(
        lambda: [detect(_text_without_markup(text, text_format), candidates) for text in texts]
    )
    return [(each.language, by_source[each.language]) for each in detections], detections


def _text_without_markup(text: str, text_format: TextFormat) -> str:
    """Names of tags and attributes are English, whatever the text is; so are programs."""
    if text_format != "html":
        return text
    words, within = [], None
    for part in _MARKUP.split(text[:_MARKUP_CHARACTERS]):
        if not part.startswith("<"):
            words += [] if within else [part]
            continue
        name = part.strip("<>/ ").partition(" ")[0].lower()
        if part.startswith("</"):
            within = None if name == within else within
        elif within is None and name in _UNREAD:
            within = name
    return html.unescape(" ".join(words))


async def find_glossaries(
    glossary: Mapping[str, str] | str | None, pairs: Iterable[Pair], owner: str, services: Services
) -> dict[Pair, Mapping[str, str]]:
    """The terms for each of `pairs`. owner: whose a stored glossary has to be. Raises `UnknownGlossary`, and
    `InvalidRequest` where a stored one has none for a pair."""
    asked = dict.fromkeys(pairs)
    if not isinstance(glossary, str):
        return dict.fromkeys(asked, glossary or {})
    find = services.glossaries.find
    return {pair: await run_in_threadpool(find, owner, glossary, *pair) for pair in asked}


UNSPECIFIED_LANGUAGE = frozenset({"", "auto", "-"})  # what clients send for "find out"
# From here on a text that looks like the target language is left alone: below it, most are names and single words,
# and what is translated needlessly does less harm than what is not translated.
MIN_CONFIDENCE = 90.0
_TAG = re.compile(r"</?[A-Za-z][^<>]{0,200}>")
_NAMED = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9]{0,30})(?:\s[^<>]{0,200}?)?(/?)>")


_REFERENCE = re.compile(r"&(?:#\d{1,7}|#x[0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")


class AssignedPair(NamedTuple):
    """What one text is to become. stays: it is in the target language as it is."""

    source: str
    target: str
    stays: bool = False


def guess_format(text: str) -> TextFormat:
    """For clients that do not say. Immersive Translate and Kiss Translator put <b1>…</b1> or <i2/> around what is bold
    or a link in the page, and look for them in the answer. As HTML, tags are no words and stand around the words that
    they stood around; as text they would only be kept. One tag alone (a < b > c) makes no HTML."""
    opened: set[str] = set()
    for found in _NAMED.finditer(text) if "<" in text else ():
        closes, name, alone = found.groups()
        if alone or (closes and name in opened):
            return "html"
        if not closes:
            opened.add(name)
    return "text"


async def assign_pairs(texts: Sequence[str], source: str | None, target: str, services: Services) -> list[AssignedPair]:
    """Which pair each text is for: by its source, or by what is detected among the loaded sources of that target."""
    loaded = LoadedPairs.of(services.engine)
    if source is not None and source.strip().lower() not in UNSPECIFIED_LANGUAGE:
        return [AssignedPair(*loaded.find(source, target))] * len(texts)
    by_source = dict(loaded.into(target))
    # In a thread: the first call loads the detector, and a large batch takes a while.
    return await run_in_threadpool(lambda: [_detect_pair(text, by_source, services.detector) for text in texts])


async def translate_texts(
    texts: Sequence[str],
    asks: Sequence[AssignedPair],
    request: Request,
    services: Services,
    *,
    text_format: TextFormat | None = None,
    glossary: Mapping[str, str] | None = None,
    split: bool = True,
) -> list[TranslatedText]:
    """One for each text, all admitted or refused together. text_format None: as each looks."""
    jobs = {
        index: TextRequest(
            text,
            TranslationOptions(ask.source, ask.target),
            format=text_format or guess_format(text),
            glossary=glossary or {},
            split=split,
        )
        for index, (text, ask) in enumerate(zip(texts, asks, strict=True))
        if not ask.stays
    }
    answers = await while_connected(request, services.translator.translate(list(jobs.values())))
    found = dict(zip(jobs, answers, strict=True))
    translated = [found.get(index, TranslatedText(text)) for index, text in enumerate(texts)]
    return translated if text_format else [_restore_ampersands(*pair) for pair in zip(texts, translated, strict=True)]


def _restore_ampersands(text: str, found: TranslatedText) -> TranslatedText:
    """A text with tags went as HTML, which writes & as &amp;. Where the client does not, neither does the answer."""
    if _REFERENCE.search(text) or "&" not in found.text or guess_format(text) == "text":
        return found
    plain = found.text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    return replace(found, text=plain)


def _detect_pair(text: str, by_source: Mapping[str, str], detector: Detector) -> AssignedPair:
    words = _TAG.sub(" ", text)
    targets = [code for code in dict.fromkeys(by_source.values()) if not _same_language(code, by_source)]
    found = detector.detect(words, [*by_source, *targets])
    if found.language in targets and found.confidence >= MIN_CONFIDENCE:
        return AssignedPair(found.language, found.language, stays=True)
    if found.language in targets:
        found = detector.detect(words, list(by_source))
    return AssignedPair(found.language, by_source[found.language])


def _same_language(code: str, sources: Mapping[str, str]) -> bool:
    """The detector knows no regions or scripts: en-GB next to a source en-US would be told apart by chance."""
    return base_language(code) in {base_language(source) for source in sources}
