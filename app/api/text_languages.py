"""Detects the language of each text of a request, and of each sentence where a text has several languages: sentences in
the target language stay, the other sentences are translated, whichever are in the majority."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import islice
from typing import NamedTuple

from app.engine.interface import ModelInfo, Notice, TranslationOptions
from app.text.language_codes import base_language, language_name
from app.text.language_detection import Detection, Detector, Identification
from app.text.page_parser import NO_RULES, TagRules
from app.translation import SentenceLanguages, TextFormat, TextRequest

_NAMED_LANGUAGES = 5
_MARKUP = re.compile(r"(<[^<>]*>)")
_PROGRAMS = frozenset({"script", "style", "code"})
_MARKUP_CHARACTERS = 200_000  # of a page, in which its languages are sought
_TAG = re.compile(r"</?[A-Za-z][^<>]{0,200}>")
_BETWEEN_SENTENCES = re.compile(r"(?<=[.!?…])[\"'”“’»)\]]*\s+|(?<=[。！？])(?!$)|\n")
# From this probability on, against the languages that are translated to it, a text is in the target language. Of German
# texts of one word 0.1 % are taken for English, of two or more words none; 93 % of English words stay as they are.
_LEAST_PROBABILITY = 0.7
# The language of a text of several sentences is sought in so many characters, or in so many sentences where none of the
# first ones is translated.
_MOST_CHARACTERS, _MOST_SENTENCES = 4000, 10_000


class AssignedPair(NamedTuple):
    """The languages of a text. unchanged: why the text is returned as it is: it is in the target language, or in none
    that a model reads, which is then its source. detection: None if the request names the source. languages: as in
    `TextRequest`; None for a text of one sentence too. pivoted: the language of other sentences that two models in turn
    translate; the text then takes their way, on which the second model translates the sentences of `source`."""

    source: str
    target: str
    unchanged: Notice | None = None
    detection: Detection | None = None
    languages: SentenceLanguages | None = None
    pivoted: str | None = None

    @property
    def pair(self) -> tuple[str, str]:
        return self.source, self.target

    def text_request(
        self,
        text: str,
        options: TranslationOptions,
        text_format: TextFormat,
        glossary: Mapping[str, str],
        *,
        split: bool,
        tags: TagRules = NO_RULES,
    ) -> TextRequest:
        if self.pivoted and not (glossary or options.wants or options.model):  # which are for texts of one model
            options = replace(options, source_language=self.pivoted)
        return TextRequest(text, options, text_format, glossary, split, self.unchanged, self.languages, tags)


class TextLanguages:
    """The languages of the texts of one request. by_source: source language -> target code of the pair that is closest
    to `target`, the code in the request."""

    def __init__(
        self, detector: Detector, by_source: Mapping[str, str], target: str, models: Sequence[ModelInfo]
    ) -> None:
        self._detector, self._by_source, self._target, self._models = detector, by_source, target, models
        # The detector knows no regions or scripts: it would choose between en-GB and a source en-US by chance.
        bases = {base_language(code) for code in by_source}
        self._targets = [code for code in dict.fromkeys(by_source.values()) if base_language(code) not in bases]
        self._candidates = [*by_source, *self._targets]
        # The sentences of a text are read for its own language, and again for its translation.
        self._shown = lru_cache(_MOST_SENTENCES)(lambda sentence: detector.shown(sentence, self._candidates))

    def assign(self, text: str, text_format: TextFormat) -> AssignedPair:
        """The pair of a text. That of a text of several sentences is of the language of most of its letters that are
        translated: the sentences that stay have no say."""
        lines = _TAG.sub(" ", text) if text_format == "text" else _without_markup(text)
        sentences = _sentences(lines)
        several = text_format != "text" or len(sentences) > 1
        if several and (translated := self._translated_languages(sentences)):
            source, main = next(iter(translated.items()))
            pivoted = (
                next((code for code in translated if not self._has_model(code)), None)
                if self._has_model(source)
                else None
            )
            languages = partial(self._of_sentences, source)
            return AssignedPair(source, self._by_source[source], None, main, languages, pivoted)
        found = self._detector.identify(lines, self._candidates)
        detection = found.detection
        if not found.is_candidate:
            return AssignedPair(detection.language, self._target, self._unsupported(detection.language), detection)
        if detection.language in self._targets and found.probability >= _LEAST_PROBABILITY:
            return AssignedPair(detection.language, detection.language, already_in(detection.language), detection)
        if detection.language in self._targets:
            detection = self._detector.detect(lines, list(self._by_source))
        source = detection.language
        alike = partial(self._of_sentences, source) if several else None
        return AssignedPair(source, self._by_source[source], None, detection, alike)

    def _of_sentences(
        self, main: str, sentences: Sequence[str], options: TranslationOptions
    ) -> list[TranslationOptions | Notice | None]:
        """As `SentenceLanguages`. A sentence that shows no language is taken to be in `main`, that of the text, if a
        sentence next to it is or if there is none, and goes with its neighbour otherwise."""
        pivoted = self._writes_pivot(options) and base_language(main) != base_language(options.source_language)
        of_main = None if pivoted else options
        shown = [self._shown(sentence) for sentence in sentences]
        verdicts = [self._verdict(found, options) if found else None for found in shown]
        known = [number for number, found in enumerate(shown) if found]
        before: int | None = None
        later = iter([*known, None])
        after = next(later)
        for number, found in enumerate(shown):
            if found:
                before, after = number, next(later)
                continue
            beside = [verdicts[place] for place in (before, after) if place is not None]
            verdicts[number] = of_main if not beside or of_main in beside else beside[0]
        return verdicts

    def _translated_languages(self, sentences: Iterable[str]) -> dict[str, Detection]:
        """Returns a detection for each language to translate from: of its longest sentence. The language with the most
        letters comes first."""
        characters, letters, longest = 0, Counter[str](), dict[str, tuple[int, Detection]]()
        for sentence in islice(sentences, _MOST_SENTENCES):
            if letters and characters > _MOST_CHARACTERS:
                break
            characters += len(sentence)
            found = self._shown(sentence)
            if found is None or not found.is_candidate or found.detection.language not in self._by_source:
                continue
            language = found.detection.language
            letters[language] += len(sentence)
            if len(sentence) > longest.get(language, (0,))[0]:
                longest[language] = len(sentence), found.detection
        return {language: longest[language][1] for language, _ in letters.most_common()}

    def _has_model(self, language: str, name: str | None = None) -> bool:
        """Whether one model translates it, that of the name if there is one."""
        pair = language, self._by_source[language]
        return any(pair in model.language_pairs and name in (None, model.name) for model in self._models)

    def _verdict(self, found: Identification, options: TranslationOptions) -> TranslationOptions | Notice | None:
        """Of a sentence that shows its language, as in `SentenceLanguages`."""
        language = found.detection.language
        if not found.is_candidate:
            return self._unsupported(language)
        if base_language(language) == base_language(options.source_language):
            return options
        if language in self._targets:
            return already_in(language)
        if self._writes_pivot(options):
            return None  # the second model translates the sentence or leaves it
        if self._has_model(language, options.model):
            return replace(options, source_language=language, target_language=self._by_source[language])
        return _in_another(language, options.source_language)

    def _writes_pivot(self, options: TranslationOptions) -> bool:
        """Whether these are the options of the first of two models."""
        return options.target_language not in self._by_source.values()

    def _unsupported(self, language: str) -> Notice:
        name, into = language_name(language), language_name(base_language(self._target))
        read = sorted({language_name(base_language(code)) for code in self._by_source})
        named = [*read[:_NAMED_LANGUAGES], *(["another one"] if len(read) > _NAMED_LANGUAGES else [])]
        known = " or ".join(part for part in (", ".join(named[:-1]), named[-1]) if part)
        message = (
            f"This text seems to be in {name}, which no model here translates into {into}; it is returned as it is."
        )
        return Notice("unsupported_language", f"{message} Name its language if it is in {known}.")


def already_in(target: str) -> Notice:
    name = language_name(base_language(target))
    return Notice("already_in_target_language", f"This text is in {name} already; it is returned as it is.")


def _in_another(language: str, source: str) -> Notice:
    name, others = language_name(base_language(language)), language_name(base_language(source))
    message = f"This sentence seems to be in {name} within a text in {others}; it is returned as it is."
    return Notice("unsupported_language", message)


def _sentences(text: str) -> list[str]:
    """Roughly: an abbreviation ends a sentence too."""
    return [part.strip() for part in _BETWEEN_SENTENCES.split(text) if part.strip()]


def _without_markup(text: str) -> str:
    """Removes tags and programs, since their English words would mislead the detection. Each text between two tags
    becomes a line."""
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
    return html.unescape("\n".join(words))
