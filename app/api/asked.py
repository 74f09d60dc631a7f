"""Texts of a page or a client that says no language: each in its own, some of them in the target's already."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from app.api.disconnect import while_connected
from app.api.pairs import LoadedPairs
from app.api.services import Services
from app.text.detection import Detector
from app.text.languages import base_language
from app.translation.job import TextFormat, TextJob, TranslatedText

NO_LANGUAGE = frozenset({"", "auto", "-"})  # what clients send for "find out"
# From here on a text that looks like the target language is left alone: below it, most are names and single words,
# and what is translated needlessly does less harm than what is not translated.
SURE = 90.0
_TAG = re.compile(r"</?[A-Za-z][^<>]{0,200}>")
_NAMED = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9]{0,30})(?:\s[^<>]{0,200}?)?(/?)>")


_REFERENCE = re.compile(r"&(?:#\d{1,7}|#x[0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")


class Asked(NamedTuple):
    """What one text is to become. stays: it is in the target language as it is."""

    source: str
    target: str
    stays: bool = False


def format_of(text: str) -> TextFormat:
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


async def asked(texts: Sequence[str], source: str | None, target: str, services: Services) -> list[Asked]:
    """Which pair each text is for: by its source, or by what is detected among the loaded sources of that target."""
    loaded = LoadedPairs.of(services.engine)
    if source is not None and source.strip().lower() not in NO_LANGUAGE:
        return [Asked(*loaded.find(source, target))] * len(texts)
    by_source = dict(loaded.into(target))
    # In a thread: the first call loads the detector, and a large batch takes a while.
    return await run_in_threadpool(lambda: [_detected(text, by_source, services.detector) for text in texts])


async def translate_asked(
    texts: Sequence[str],
    asks: Sequence[Asked],
    request: Request,
    services: Services,
    *,
    text_format: TextFormat | None = None,
    glossary: Mapping[str, str] | None = None,
    split: bool = True,
) -> list[TranslatedText]:
    """One for each text, all admitted or refused together. text_format None: as each looks."""
    jobs = {
        index: TextJob(
            text,
            ask.source,
            ask.target,
            format=text_format or format_of(text),
            glossary=glossary or {},
            split=split,
        )
        for index, (text, ask) in enumerate(zip(texts, asks, strict=True))
        if not ask.stays
    }
    answers = await while_connected(request, services.translator.translate(list(jobs.values())))
    found = dict(zip(jobs, answers, strict=True))
    translated = [found.get(index, TranslatedText(text)) for index, text in enumerate(texts)]
    return translated if text_format else [_as_written(*pair) for pair in zip(texts, translated, strict=True)]


def _as_written(text: str, found: TranslatedText) -> TranslatedText:
    """A text with tags went as HTML, which writes & as &amp;. Where the client does not, neither does the answer."""
    if _REFERENCE.search(text) or "&" not in found.text or format_of(text) == "text":
        return found
    plain = found.text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    return replace(found, text=plain)


def _detected(text: str, by_source: Mapping[str, str], detector: Detector) -> Asked:
    words = _TAG.sub(" ", text)
    targets = [code for code in dict.fromkeys(by_source.values()) if not _same_language(code, by_source)]
    found = detector.detect(words, [*by_source, *targets])
    if found.language in targets and found.confidence >= SURE:
        return Asked(found.language, found.language, stays=True)
    if found.language in targets:
        found = detector.detect(words, list(by_source))
    return Asked(found.language, by_source[found.language])


def _same_language(code: str, sources: Mapping[str, str]) -> bool:
    """The detector knows no regions or scripts: en-GB next to a source en-US would be told apart by chance."""
    return base_language(code) in {base_language(source) for source in sources}
