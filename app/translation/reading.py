"""What a model reads of a sentence. The parts that it cannot read, or that must come back to the character, are holes:
a hole is read as a stand-in, as the character that a reference stands for, or not at all. Each hole knows its place in
the sentence and in what the model reads, so that its text can be put back into the translation."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from app.engine.interface import AlignedWord, TranslationDetail, TranslationOptions, TranslationRequest
from app.text.capitals import in_capitals, without_capitals
from app.text.character_references import references
from app.text.glossary_matching import Term, TermMatcher, term_spans
from app.text.inline_markup import Markup, markup_of
from app.text.islands import CAMEL_CASE, LATIN_TEXT, Island, islands, reads_only_words
from app.text.layout_characters import (
    CLOSING_PUNCTUATION,
    JOINERS,
    MARK,
    SOFT_HYPHEN,
    UNUSUAL,
    ZERO_WIDTH,
    has_letters,
    is_spelling_joiner,
)
from app.text.numbers import Number, numbers_in
from app.translation.segments import Span, one_plain_sentence
from models.stand_ins import stand_ins

_DIGIT = re.compile(r"\d")
_EMPHASIS = frozenset("*_~=|'^")
_BEFORE_EMPHASIS = re.compile(r"(?:\A|[\s\w.…'\"“”„‚‘’«»()\[\]*_~\-–—\u2e80-\uffee]|\|\||==|[\w)\"'”][,;:!?])\Z")
_AFTER_EMPHASIS = re.compile(r"[\s\w.,;:!?…'\"“”„‚‘’«»()\[\]*_~\-–—\u2e80-\uffee]|\|\||==|\Z")
_EMPHASISED = re.compile(
    r"(?:\|\||==|[\w\"'“„‚‘«¿¡(\[*_~`$<{\\\u2e80-\U0001faff])(?:.*(?:\|\||==|[\w\"'“”’»)\]*_~`%>}.,;:!?…€°\u2e80-\U0001faff]))?",
    re.DOTALL,
)
_CONSTANT = re.compile(r"[a-z0-9_]+|[A-Z0-9_]+")
_ESCAPED_SIGN = re.compile(r"(?<!\w)\\[*_~`#|](?=[\w\\])|\\[*_~`#|](?=[\s\\.,;:!?)]|\Z)")  # in Markdown
_CHUNK = re.compile(r"\S+")
_PAUSE = re.compile("[,;: ]*")
_BRACKETS = ("()", "[]", "<>", '""', "“”", "„“", "«»", "（）")
_ALIGNMENT: frozenset[TranslationDetail] = frozenset({"alignment"})
_ALIGNMENT_AND_TOKENS: frozenset[TranslationDetail] = frozenset({"alignment", "tokens"})


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence as in the text. matcher: of the terms that its translation must contain."""

    source: str
    options: TranslationOptions
    matcher: TermMatcher | None = None

    @property
    def request(self) -> TranslationRequest:
        """Of a plain sentence."""
        return TranslationRequest(self.source, self.options)

    @property
    def plain(self) -> bool:
        """Whether the model reads it as it is, and its translation cannot lose anything."""
        if self.matcher is not None or not one_plain_sentence(self.source) or self.source.isupper():
            return False
        latin = LATIN_TEXT.fullmatch(self.source) and not CAMEL_CASE.search(self.source)
        return bool(latin) or not islands(self.source, self.options.source_language)


@dataclass(frozen=True, slots=True)
class Hole:
    """A part of the sentence that the model does not read as it is. at: its place in what the model reads. shown: what
    the model reads instead. text: what the translation must contain; "" for a reference, a sign of emphasis and a soft
    hyphen. length: of the hole in the sentence. stand_in: whether `shown` is one."""

    at: int
    shown: str
    text: str
    length: int
    stand_in: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """clean: what the model reads, the text of `request`. numbers, terms: in `clean`. capitals: whether the sentence is
    in capital letters, which `clean` is not. markup: of the source."""

    source: str
    request: TranslationRequest
    holes: tuple[Hole, ...] = ()
    numbers: tuple[Number, ...] = ()
    terms: tuple[Term, ...] = ()
    capitals: bool = False
    markup: tuple[Markup, ...] = ()

    @classmethod
    def of(cls, sentence: Sentence, kind: str | None, kept: Collection[Span] = ()) -> Reading:
        """kind: of the stand-ins for islands, None to take the islands out of what the model reads. kept: numbers that
        are islands, too, because a translation has lost them."""
        source, options = sentence.source, sentence.options
        markup = tuple(own for own in markup_of(source) if not _within_island(source, options.source_language, own))
        clean, holes = _with_holes(source, options.source_language, markup, kind, kept)
        capitals = not options.prefix and in_capitals(clean)
        covered = [(hole.at, hole.at + len(hole.shown)) for hole in holes if hole.stand_in]
        inside = {at for span in covered for at in range(*span)}
        terms = (
            tuple(term for term in sentence.matcher.find(clean) if term.start not in inside) if sentence.matcher else ()
        )
        if terms and _DIGIT.search(clean):  # the unit of a number is kept with it
            units = {
                at
                for number in numbers_in(_covered(clean, covered), covered)
                for at in range(number.core[1], number.end)
            }
            terms = tuple(t for t in terms if t.start not in units or t.forms[0] != clean[t.start : t.end])
        digits = _covered(clean, covered)
        covered += [(term.start, term.end) for term in terms]
        placed = bool(markup) or any(hole.text and not hole.stand_in for hole in holes)
        wants = _ALIGNMENT_AND_TOKENS if terms else _ALIGNMENT if placed else frozenset()
        if not wants <= options.wants:
            options = replace(options, wants=options.wants | wants)
        numbers = tuple(numbers_in(digits, covered)) if _DIGIT.search(digits) else ()
        read = without_capitals(clean, options.source_language) if capitals else clean
        return cls(source, TranslationRequest(read, options), holes, numbers, terms, capitals, markup)

    @property
    def clean(self) -> str:
        return self.request.text

    @property
    def stand_ins(self) -> list[Hole]:
        return [hole for hole in self.holes if hole.stand_in]

    @property
    def marks(self) -> list[Hole]:
        """Holes that the model does not read, and that the translation must contain."""
        return [hole for hole in self.holes if hole.text and not hole.stand_in]

    @property
    def plain(self) -> bool:
        """Whether the translation cannot have lost anything."""
        return not (self.numbers or self.terms or self.capitals or self.markup or any(h.text for h in self.holes))

    @property
    def has_words(self) -> bool:
        """Whether the model reads anything but stand-ins and signs."""
        covered = [(hole.at, hole.at + len(hole.shown)) for hole in self.stand_ins]
        return not covered or has_letters(_covered(self.clean, covered))

    @property
    def islands(self) -> list[Span]:
        """The spans in `source` of the parts that a translation must contain as they are."""
        spans, at, shown = list[Span](), 0, 0
        for hole in self.holes:
            at += hole.at - shown
            if hole.text:
                spans.append((at, at + hole.length))
            at, shown = at + hole.length, hole.at + len(hole.shown)
        return spans

    def numbers_of(self, translation: str) -> list[Number]:
        """The numbers of its translation, besides stand-ins and those within terms."""
        places = ((translation.find(hole.shown), hole) for hole in self.stand_ins)
        covered = [(at, at + len(hole.shown)) for at, hole in places if at >= 0]
        terms = (span for term in self.terms for span in term_spans(translation, term.forms))
        return numbers_in(_covered(translation, covered), terms)

    def with_required(self, required: Iterable[tuple[str, ...]]) -> TranslationRequest:
        options = replace(self.request.options, alternatives=0)
        return TranslationRequest(self.clean, options, tuple(dict.fromkeys(required)))

    def in_clean(self, at: int) -> int:
        """Maps a position in `source` that is not within a hole to `clean`."""
        shift = 0
        for hole in self.holes:
            if hole.at + shift >= at:
                break
            shift += hole.length - len(hole.shown)
        return at - shift

    def in_source(self, words: Iterable[AlignedWord]) -> tuple[AlignedWord, ...]:
        """The alignment with offsets in `source` instead of `clean`."""
        words = list(words)
        spans = self.spans_in_source((word.source_start, word.source_end) for word in words)
        return tuple(
            replace(word, source_start=start, source_end=end) for word, (start, end) in zip(words, spans, strict=True)
        )

    def spans_in_source(self, spans: Iterable[Span]) -> Iterator[Span]:
        """The spans of `source` for spans of `clean`."""
        ends = [hole.at + len(hole.shown) for hole in self.holes]
        starts = [hole.at for hole in self.holes]
        growth = list(accumulate((hole.length - len(hole.shown) for hole in self.holes), initial=0))
        for first, last in spans:
            start = first + growth[bisect_right(ends, first)]
            yield start, max(start, last + growth[bisect_left(starts, last)])


def _covered(text: str, stand_ins: Iterable[Span]) -> str:
    """The text without its stand-ins, which would be one number with the digits beside them; of the same length."""
    for start, end in stand_ins:
        text = text[:start] + "\0" * (end - start) + text[end:]
    return text


def read_without_holes(source: str, language: str) -> str:
    """What a model reads of a sentence without its islands and marks; about as long as with stand-ins."""
    return _with_holes(source, language, (), "numbers", ())[0]


def _within_island(source: str, language: str, markup: Markup) -> bool:
    """Whether signs of emphasis are part of an island: __COUNT__, ~~user.name~~, /*.x or /*.y."""
    words, sign = source[slice(*markup.words)], source[slice(*markup.opening)]
    inside = {at for island in islands(words, language) for at in range(island.start, island.end)}
    read = any(character.isalpha() and at not in inside for at, character in enumerate(words))
    if not sign or not set(sign) <= _EMPHASIS:
        return sign.startswith("<") and not read  # a link of Slack whose text is an address
    if source[: markup.opening[0]].endswith(("[[", "{{", "{")) and source[markup.closing[1] :].startswith(("]]", "}")):
        return True
    before = source[max(0, markup.opening[0] - 2) : markup.opening[0]]
    beside_words = _BEFORE_EMPHASIS.search(before) and _AFTER_EMPHASIS.match(source, markup.closing[1])
    if not beside_words or not _EMPHASISED.fullmatch(words):
        return True
    return " " not in words and (not read or "|" in words or (sign == "__" and _CONSTANT.fullmatch(words) is not None))


@dataclass(frozen=True, slots=True)
class _Claim:
    """A span of the source for a hole. island: read as a stand-in. shown: the character of a reference, "" for a sign;
    None for a mark."""

    start: int
    end: int
    island: bool = False
    shown: str | None = None


def _with_holes(
    source: str, language: str, markup: Sequence[Markup], kind: str | None, kept: Collection[Span]
) -> tuple[str, tuple[Hole, ...]]:
    claims = _claims(source, language, markup, kind, kept)
    if not claims:
        return source, ()
    names = stand_ins(kind, source) if kind is not None else iter(())
    first, last = _read_part(source, claims, kind)
    clean, holes = "", list[Hole]()
    at = 0
    for claim in [*claims, None]:
        start = len(source) if claim is None else claim.start
        while holes and at < start and source[at] == " " and clean[-1:] in ("", " "):  # no second space in a row
            text = holes[-1].text and holes[-1].text + " "
            holes[-1] = replace(holes[-1], text=text, length=holes[-1].length + 1)
            at += 1
        clean += source[at:start]
        if claim is None:
            break
        text = source[claim.start : claim.end]
        if claim.island and kind is not None:
            shown = next(names)
        elif claim.shown is not None:
            shown, text = claim.shown, ""
        else:
            text = "" if text == SOFT_HYPHEN else text
            edge = claim.end <= first or claim.start >= last or _before_punctuation(source, claim)
            beside_space = not (text[:1] + text[-1:]).count(" ") and " " in _around(source, claim)
            gapless = edge or beside_space or clean[-1:] in ("", " ") or ZERO_WIDTH.fullmatch(text) is not None
            shown = "" if not text or gapless else " "
        holes.append(Hole(len(clean), shown, text, claim.end - claim.start, claim.island and kind is not None))
        clean += shown
        at = claim.end
    while clean.endswith(" ") and holes and holes[-1].at == len(clean):
        clean = clean[:-1]
        text = holes[-1].text and " " + holes[-1].text
        holes[-1] = replace(holes[-1], at=len(clean), text=text, length=holes[-1].length + 1)
    return clean, tuple(holes)


def _around(source: str, claim: _Claim) -> str:
    return source[max(0, claim.start - 1) : claim.start] + source[claim.end : claim.end + 1]


def _before_punctuation(source: str, claim: _Claim) -> bool:
    return source[claim.end : claim.end + 1] in CLOSING_PUNCTUATION and not source[claim.end - 1].isspace()


def _read_part(source: str, claims: Sequence[_Claim], kind: str | None) -> Span:
    """Where what the model reads of a sentence begins and ends: what is not read before and after it leaves no gap."""
    unread = [claim for claim in claims if not claim.shown and not (claim.island and kind is not None)]
    first, last = 0, len(source)
    for claim in unread:
        if source[first : claim.start].strip():
            break
        first = claim.end
    for claim in reversed(unread):
        if source[claim.end : last].strip():
            break
        last = claim.start
    return first, last


def _claims(
    source: str, language: str, markup: Sequence[Markup], kind: str | None, kept: Collection[Span]
) -> list[_Claim]:
    """In order and without overlaps."""
    if not kept and not markup and not UNUSUAL.search(source) and reads_only_words(source):
        return []
    signs = sorted({span for own in markup for span in (own.opening, own.closing)})
    hidden = {at for start, end in signs for at in range(start, end)}
    referred = [each for each in references(source) if each[0] not in hidden]
    # A reference to an emoji or a wide space is a mark.
    read = [(start, end, character) for start, end, character in referred if not UNUSUAL.fullmatch(character)]
    taken = [*((start, end, "") for start, end in signs), *referred, *((start, end, "") for start, end in kept)]
    escaped = [
        sign
        for chunk in (_CHUNK.finditer(source) if "\\" in source else ())
        if not islands(_ESCAPED_SIGN.sub("", chunk[0]), language)
        for sign in _ESCAPED_SIGN.finditer(source, *chunk.span())
    ]
    taken += [(*match.span(), "") for match in escaped]
    found = islands(source, language, sorted(taken))
    words = [_Claim(own.start, own.end, island=True) for own in found if own.word or _is_word_between(source, own)]
    words += [_Claim(start, end, island=True) for start, end in kept]
    inside = {at for claim in words for at in range(claim.start, claim.end)}  # such as a link with &amp;
    fixed = [_Claim(start, end, shown=character) for start, end, character in read if start not in inside]
    fixed += [_Claim(start, end, shown="") for start, end in signs]
    signs_alone = (own for own in found if not own.word and not _is_word_between(source, own))
    marks = [_with_spaces(source, own.start, own.end) for own in signs_alone]
    for match in MARK.finditer(source) if UNUSUAL.search(source) else ():
        start, end = match.end() - len(match[0].lstrip()), match.start() + len(match[0].rstrip())
        sign, alone = Island(start, end), not any(own.start <= start < end <= own.end for own in found)
        if start < end and alone and _is_word_between(source, sign):
            words.append(_Claim(sign.start, sign.end, island=True))
            if sign.start - match.start() > 1:
                marks.append((match.start(), sign.start))
        elif _is_mark(source, match):
            marks.append(match.span())
    marks += [match.span() for match in re.finditer(SOFT_HYPHEN, source)]
    marks += [match.span() for match in escaped]
    marks += [(start, end) for start, end, character in referred if UNUSUAL.fullmatch(character)]
    if kind is None:
        marks += [_taken_out(source, claim) for claim in words]
        words = []
    covered = {at for claim in (*words, *fixed) for at in range(claim.start, claim.end)}
    marks = sorted(uncovered for span in marks for uncovered in _uncovered(*span, covered))
    claims = [*words, *fixed, *(_Claim(start, end) for start, end in _joined(source, marks))]
    return sorted(claims, key=lambda claim: claim.start)


def _uncovered(start: int, end: int, covered: Collection[int]) -> list[Span]:
    """A mark less what an island beside it takes of it."""
    while start < end and start in covered:
        start += 1
    while start < end and end - 1 in covered:
        end -= 1
    return [(start, end)] if start < end else []


def _is_mark(source: str, match: re.Match[str]) -> bool:
    joins_letters = match[0] in JOINERS and is_spelling_joiner(source, match.start())
    return match[0] != " " and not joins_letters


def _is_word_between(source: str, island: Island) -> bool:
    """Whether a sign stands where a word would: without it, two marks of punctuation would meet."""
    before = source[: island.start].rstrip(" ")[-1:]
    return source[island.end : island.end + 1] in CLOSING_PUNCTUATION and before in CLOSING_PUNCTUATION and before != ""


def _taken_out(source: str, claim: _Claim) -> Span:
    """The span that is not read where an island is not: with its brackets, and with the comma before it where another
    mark of punctuation follows."""
    start, end = claim.start, claim.end
    if _is_word_between(source, Island(start, end)):
        return len(source[:start].rstrip(" ")) - 1, end
    return _with_spaces(source, *_with_brackets(source, start, end))


def _with_brackets(source: str, start: int, end: int) -> Span:
    around = source[max(0, start - 1) : start] + source[end : end + 1] in _BRACKETS
    return start - around, end + around


def _with_spaces(source: str, start: int, end: int) -> Span:
    """A span that is taken out of a sentence leaves one space behind."""
    return start - (source[start - 1 : start] == " "), end + (source[end : end + 1] == " ")


def _joined(source: str, spans: Sequence[Span]) -> list[Span]:
    """Neighbouring marks are one. A mark at the start takes the comma after it along."""
    joined: list[Span] = []
    for start, end in spans:
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    if joined and joined[0][0] == 0 and (pause := _PAUSE.match(source, joined[0][1])):
        end = pause.end()
        while len(joined) > 1 and joined[1][0] <= end:
            end = max(end, joined.pop(1)[1])
        joined[0] = 0, end
    return joined
