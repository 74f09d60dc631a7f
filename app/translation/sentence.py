"""Translates one sentence so that nothing of it is lost. The model reads stand-ins for the sentence's islands; a
translation is taken if it has each of them once and all numbers. Else other stand-ins are tried, with the lost numbers
as islands, too; then stand-ins that the model is made to write; then the islands are put beside the words that are
aligned with their neighbours. Whatever was done, the end of the work is a check that knows nothing of it: a
translation that lacks something is replaced by the translations of the parts around what it lacks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from app.engine.interface import Notice, TranslationOptions, TranslationResult, Usage
from app.text.capitals import with_capitals
from app.text.character_references import lost_separators
from app.text.glossary_matching import holds_term, term_spans
from app.text.numbers import lost_numbers, surplus_numbers
from app.text.text_blocks import merged
from app.translation.assemble import assembled
from app.translation.concerns.glossary import usage_sum, with_terms
from app.translation.concerns.marks import with_marks, with_markup, with_references
from app.translation.concerns.unknown_words import with_foreign_words_marked
from app.translation.edits import Edit, with_closing_colon, with_edits, without_added_stop
from app.translation.reading import Reading, Sentence
from app.translation.segments import (
    SegmentedText,
    Span,
    between,
    keeps_spaces,
    one_plain_sentence,
    split_in_half,
    wide_spaces,
    words_in,
)
from app.translation.steps import Align, StandIns, Steps, Translate, ask, together
from models.stand_ins import copied_once

_MAX_HALVINGS = 2  # of a sentence with a truncated translation
_SHORT_CHARACTERS = 60  # a truncated translation of a shorter sentence is a loop: halving does not help
_SURPLUS_DIGITS = 4  # in the translation alone: it has lost its way between digits
_DOUBLED_SIGN = re.compile(r"([€$£¥₹%‰+−±§°]|(?<!-)-(?=-\d))\s?\1")
# Neither letters, digits and spaces nor what a translation may write in another way: punctuation, signs of units.
_SIGNS = re.compile(
    r"(?<![\w)])[=+±−-]\d|\[\[|\]\]|\(\(|\)\)|««|»»|[^\w\s.,;:!?…'\"“”„‚‘’«»‹›()\[\]¿¡%‰"
    r"&/+€$£¥§°´`\-\u00ad\u200b-\u2015\u2060\u20a0-\u20c0\u3000-\u303f\uff00-\uffef]"
)
_WORD_AND_MARK, _WORD_AND_SPACE = re.compile(r"\w([,:;]) \Z"), re.compile(r"\w \Z")  # "Danke: {name}"
_CHUNK = re.compile(r"\S+")
_IN_PARTS = "The model loses a part of this sentence; the text around it was translated by itself."
_PRIVATE = 0xF0000  # first of the characters that stand for islands while a translation is repaired


def translated_sentence(sentence: Sentence, halvings: int = _MAX_HALVINGS) -> Steps[TranslationResult]:
    """The translation, aligned with the sentence as it stands in the text."""
    if sentence.plain:
        result: TranslationResult = yield from ask(Translate(sentence.request))
        if result.text.strip() and result.finish_reason != "length":
            return result
        reading, lost = Reading(sentence.source, sentence.request), list[Span]()
    else:
        reading, result, lost = yield from _translated(sentence)
    result = with_closing_colon(sentence.source, _restored(reading, or_source_text(reading.clean, result)))
    parts, notices = _parts_around_lost(sentence, reading, result, lost), list[Notice]()
    if parts is not None:
        notices.append(Notice("translated_in_parts", _IN_PARTS, 0, len(sentence.source)))
    elif (parts := _halves(sentence, result, halvings)) is None:
        source, language = sentence.source, sentence.options.source_language
        return result if source.isascii() else with_foreign_words_marked(source, language, result)
    own = [
        replace(sentence, source=piece, options=_without_prefix(sentence, n)) for n, piece in enumerate(parts.pieces)
    ]
    translations = yield from together([translated_sentence(part, max(0, halvings - 1)) for part in own])
    written = [without_added_stop(part.source, each) for part, each in zip(own, translations, strict=True)]
    whole = assembled(parts, written, sentence.options.target_language)
    return replace(
        whole,
        notices=(*notices, *(each for each in whole.notices if each.code != "translated_in_parts" or not notices)),
    )


def _without_prefix(sentence: Sentence, number: int) -> TranslationOptions:
    return replace(sentence.options, prefix="") if number and sentence.options.prefix else sentence.options


# From the sentence to a translation of what the model reads -----------------------------------------------------


def _translated(sentence: Sentence) -> Steps[tuple[Reading, TranslationResult, list[Span]]]:
    """A reading of the sentence, a translation that holds its stand-ins, numbers and terms as far as the model can be
    brought to it, and the numbers that it lacks nevertheless."""
    reading, result, kept = Reading.of(sentence, "numbers"), None, list[Span]()
    if not reading.has_words:
        unread = Reading(sentence.source, sentence.request)
        return unread, TranslationResult(sentence.source), []
    spent = Usage()
    if not reading.stand_ins:
        result = yield from ask(Translate(reading.request))
        kept = _lost_numbers(reading, result)
        if not kept:
            translation = yield from with_terms(reading, result)
            if translation is not result:
                kept = _lost_numbers(reading, translation)  # made to write a term, a model may have lost a number
            if not kept:
                return reading, translation, []
        spent = result.usage
    kinds = yield from ask(StandIns(sentence.options))
    for again in (False, True):
        new = kinds if kept else kinds[1:] if again else kinds[:1]
        readings = [Reading.of(sentence, kind, kept) for kind in new]
        results = (yield [Translate(each.request) for each in readings]) if readings else []
        spent = usage_sum(spent, results)
        for reading, result in zip(readings, results, strict=True):
            lost = _lost_numbers(reading, result)
            if not lost and _holds_stand_ins(reading, result):
                translation = yield from with_terms(reading, replace(result, usage=spent))
                lost = _lost_numbers(reading, translation)
                if not lost and _holds_stand_ins(reading, translation):
                    return reading, translation, []
            kept = kept or lost
    reading = Reading.of(sentence, kinds[0] if kinds else "numbers", kept)
    required = [*((hole.shown,) for hole in reading.stand_ins), *(term.forms for term in reading.terms)]
    result = yield from ask(Translate(reading.with_required(required), refusable=True))
    if result is not None:
        spent = usage_sum(spent, [result])
        if _holds_stand_ins(reading, result) and not _lost_numbers(reading, result):
            return reading, replace(result, usage=spent), []
    reading = Reading.of(sentence, None, kept)
    result = yield from ask(Translate(reading.request))
    result = replace(result, usage=usage_sum(spent, [result]))
    if result.alignment is None:
        words = yield from ask(Align(reading.request, result.text))
        result = replace(result, alignment=words)
    translation = yield from with_terms(reading, result)
    return reading, translation, _lost_numbers(reading, translation)


def _holds_stand_ins(reading: Reading, result: TranslationResult) -> bool:
    whole = result.finish_reason == "stop" or not reading.stand_ins
    return whole and all(copied_once(hole.shown, result.text) is not None for hole in reading.stand_ins)


def _lost_numbers(reading: Reading, result: TranslationResult) -> list[Span]:
    """The spans in the source of numbers that a translation lacks; of all numbers if it has lost its way between
    them."""
    if not reading.numbers:
        return []
    present = reading.numbers_of(result.text)
    lost = [
        each.number
        for each in lost_numbers(reading.numbers, result.text, present, reading.request.options.target_language)
    ]
    surplus = surplus_numbers(reading.numbers, present)
    keys = {number.key for number in reading.numbers}
    repeated = any(number.key in keys for number in surplus)
    repeated |= _DOUBLED_SIGN.search(result.text) is not None and not _DOUBLED_SIGN.search(reading.clean)
    if (
        repeated
        or sum(len(number.key) for number in surplus) >= _SURPLUS_DIGITS
        or result.finish_reason == "repetition"
    ):
        lost = list(reading.numbers)
    return list(reading.spans_in_source((number.start, number.end) for number in lost))


# From that translation back to the sentence ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Places:
    """A character of its own for each stand-in: what is done to a translation then cannot take one for a word."""

    reading: Reading
    characters: tuple[str, ...]

    @classmethod
    def of(cls, reading: Reading) -> _Places:
        candidates = map(chr, range(_PRIVATE, _PRIVATE + 0x10000))
        unused = (character for character in candidates if character not in reading.source)
        return cls(reading, tuple(character for _, character in zip(reading.stand_ins, unused, strict=False)))

    def taken(self, translation: TranslationResult) -> TranslationResult | None:
        """The stand-ins as such characters; None if one is not there once."""
        edits: list[Edit] = []
        text, clean, ends = translation.text, self.reading.clean, set[int]()
        for hole, character in zip(self.reading.stand_ins, self.characters, strict=True):
            at = copied_once(hole.shown, text)
            if at is None:
                return None
            edits.append(Edit(at, at + len(hole.shown), character))
            ends.add(at + len(hole.shown))
        left = {mark: clean.count(mark) - text.count(mark) for mark in ",:;"}
        for hole, own in zip(self.reading.stand_ins, tuple(edits), strict=True):
            mark = _WORD_AND_MARK.search(clean[: hole.at])
            before = own.start - 1
            if mark and left[mark[1]] > 0 and before not in ends and _WORD_AND_SPACE.search(text[: own.start]):
                edits.append(Edit(before, before, mark[1]))
                left[mark[1]] -= 1
        return with_edits(translation, sorted(edits, key=lambda edit: edit.start))

    def filled(self, translation: TranslationResult) -> TranslationResult:
        """The islands in the places of the characters."""
        islands = [hole.text for hole in self.reading.stand_ins]
        found = [(translation.text.index(each), text) for each, text in zip(self.characters, islands, strict=True)]
        edits = [Edit(at, at + 1, text) for at, text in sorted(found)]
        alternatives = []
        for text in translation.alternatives:
            for character, island in zip(self.characters, islands, strict=True):
                text = text.replace(character, island)
            alternatives.append(text)
        return with_edits(replace(translation, alternatives=tuple(alternatives)), edits)


def or_source_text(source: str, translation: TranslationResult) -> TranslationResult:
    """The source text if the translation is blank."""
    if translation.text.strip():
        return translation
    scores = translation.scores and translation.scores[:1]
    return replace(translation, text=source, alternatives=(), scores=scores, tokens=None, alignment=None)


def _restored(reading: Reading, translation: TranslationResult) -> TranslationResult:
    """With what the model did not read."""
    places = _Places.of(reading)
    taken = places.taken(translation)
    assert taken is not None, "a translation without all of its stand-ins is never chosen"
    alternatives = list(_whole_alternatives(reading, places, translation))
    translation = replace(taken, alternatives=())
    if reading.holes:
        translation = with_references(reading, translation)
    if not reading.plain:
        translation = _marked(reading, translation)
        alternatives = [(_marked(reading, TranslationResult(text)).text, score) for text, score in alternatives]
    scores = dict[str, float | None]()
    for text, score in alternatives:  # terms may have made two alternatives equal
        if text != translation.text:
            scores.setdefault(text, score)
    translation = replace(
        translation,
        alternatives=tuple(scores),
        scores=translation.scores and (translation.scores[0], *(each for each in scores.values() if each is not None)),
    )
    if reading.capitals:
        translation = _in_capitals(reading, translation)
    translation = places.filled(translation)
    if not reading.holes:
        return translation
    alignment = None if translation.alignment is None else reading.in_source(translation.alignment)
    return replace(translation, alignment=alignment, notices=tuple(_notices_in_source(reading, translation.notices)))


def _whole_alternatives(
    reading: Reading, places: _Places, translation: TranslationResult
) -> Iterator[tuple[str, float | None]]:
    """The alternatives that lose nothing, with characters for their stand-ins, and their scores."""
    for number, text in enumerate(translation.alternatives, 1):
        result = TranslationResult(text)
        taken = places.taken(result)
        holds_terms = all(holds_term(text, term.forms) for term in reading.terms)
        if taken is not None and holds_terms and not _lost_numbers(reading, result):
            yield taken.text, translation.scores[number] if translation.scores else None


def _marked(reading: Reading, translation: TranslationResult) -> TranslationResult:
    return with_marks(reading, with_markup(reading, translation) if reading.markup else translation)


def _in_capitals(reading: Reading, translation: TranslationResult) -> TranslationResult:
    """The translation in capital letters, except for glossary terms."""
    language = reading.request.options.target_language

    def written(text: str) -> str:
        spans = [span for term in reading.terms for span in term_spans(text, term.forms)]
        return with_capitals(text, language, spans)

    text = written(translation.text)
    tokens, at = [], 0
    for token in translation.tokens or ():
        tokens.append(replace(token, text=text[at : at + len(token.text)]))
        at += len(token.text)
    return replace(
        translation,
        text=text,
        alternatives=tuple(map(written, translation.alternatives)),
        tokens=None if translation.tokens is None else tuple(tokens),
    )


def _notices_in_source(reading: Reading, notices: Sequence[Notice]) -> Iterator[Notice]:
    """Without those about stand-ins."""
    hidden = {at for hole in reading.stand_ins for at in range(hole.at, hole.at + len(hole.shown))}
    for notice in notices:
        if notice.start is None or notice.end is None:
            yield notice
        elif notice.code != "unknown_words" or notice.start not in hidden:
            ((start, end),) = reading.spans_in_source([(notice.start, notice.end)])
            yield replace(notice, start=start, end=end)


# Sentences that are translated again in parts -------------------------------------------------------------------


def _parts_around_lost(
    sentence: Sentence, reading: Reading, translation: TranslationResult, numbers: Sequence[Span]
) -> SegmentedText | None:
    """The parts of a sentence around its islands and around what its translation has more or less often than the
    sentence: islands, signs, `numbers`, wide spaces, dashes. None for a translation that has everything."""
    source, text = sentence.source, translation.text
    if one_plain_sentence(source):
        return None
    cuts = list(numbers)
    for start, end in reading.islands:
        island = source[start:end].strip()
        if island and text.count(island) != source.count(island):
            cuts.append((start, end))
    if _DOUBLED_SIGN.search(text) and not _DOUBLED_SIGN.search(source):
        cuts += reading.islands
    if sorted(_SIGNS.findall(text)) != sorted(_SIGNS.findall(source)):
        cuts += [chunk.span() for chunk in _CHUNK.finditer(source) if _SIGNS.search(chunk[0])]
    if not keeps_spaces(source, text):
        cuts += wide_spaces(source)
    if not cuts and not reading.terms:
        cuts += [(start, end) for start, end, _ in lost_separators(source, text)]
    if not cuts:
        return None
    signs = [span for own in reading.markup for span in (own.opening, own.closing)]
    around = between(merged([*cuts, *reading.islands, *signs]), 0, len(source))
    spans = tuple(span for part in around for span in words_in(source, *part))
    return None if spans == ((0, len(source)),) else SegmentedText(source, sentence.options.source_language, spans)


def _halves(sentence: Sentence, translation: TranslationResult, halvings: int) -> SegmentedText | None:
    """The halves of a sentence whose translation was cut off."""
    cut_off = translation.finish_reason == "length" and sentence.options.decoding.max_new_tokens is None
    if not cut_off or halvings == 0 or len(sentence.source) <= _SHORT_CHARACTERS:
        return None
    parts = split_in_half(sentence.source, sentence.options.source_language)
    return parts if len(parts.spans) > 1 else None
