"""Finds the terms of a glossary in a text: by their first word, and terms that share it by bisection, so that a
thousand terms cost no more than ten."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from app.text.layout_characters import is_unspaced_script

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Term:
    """Where it stands in the source, and what it becomes there: the first form is the glossary's own, the second, at
    the beginning of a sentence, with a capital."""

    start: int
    end: int
    forms: tuple[str, ...]


class TermMatcher:
    """source term -> target term. A term in lower case is found in any case, another only as it is written. Empty
    terms, and those without a target, are passed over."""

    def __init__(self, terms: Mapping[str, str]) -> None:
        self._by_beginning: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        for source, target in terms.items():
            source, target = source.strip(), target.strip()
            if source and target:
                self._by_beginning[_lookup_key(source)].append((source, target))
        self._alike: dict[str, _TermsOfFirstWord] = {}  # made as texts need them

    def __bool__(self) -> bool:
        return bool(self._by_beginning)

    def find(self, text: str) -> list[Term]:
        """From left to right, the longest at each place, none within another."""
        found: list[Term] = []
        end = 0
        if not self._by_beginning:
            return found
        folded, first = _lowercased(text), _first_alphanumeric(text)
        stops = cache(lambda at: not _is_inside_word(text, at))
        for at, beginning in _candidate_places(text):
            if at < end or beginning not in self._by_beginning or not stops(at):
                continue
            if there := self._beginning_with(beginning).longest(text, folded, at, stops):
                length, target = there
                end = at + length
                found.append(Term(at, end, _target_forms(target, text, at, begins=at <= first)))
        return found

    def _beginning_with(self, beginning: str) -> _TermsOfFirstWord:
        if beginning not in self._alike:
            self._alike[beginning] = _TermsOfFirstWord(self._by_beginning[beginning])
        return self._alike[beginning]


class _TermsOfFirstWord:
    """Terms that share their first word. Of two that are the same the first one counts."""

    def __init__(self, entries: Sequence[tuple[str, str]]) -> None:
        self._lower = {source: target for source, target in reversed(entries) if source.islower()}
        self._exact = {source: target for source, target in reversed(entries) if not source.islower()}
        self._lower_prefixes = _PrefixTable({_lowercased(source) for source in self._lower})
        self._exact_prefixes = _PrefixTable(self._exact)

    def longest(self, text: str, folded: str, at: int, stops: Callable[[int], bool]) -> tuple[int, str] | None:
        """Length and target of the longest that the text has there and that ends where a word may, and of two that are
        as long the one that is found as it is written. `folded` is the same text."""
        lengths = [(-length, False) for length in self._exact_prefixes.lengths(text, at) if stops(at + length)]
        lengths += [(-length, True) for length in self._lower_prefixes.lengths(folded, at) if stops(at + length)]
        for minus_length, lower in sorted(lengths):
            there = text[at : at - minus_length]
            target = self._lower.get(there.lower()) if lower else self._exact[there]
            if target is not None:
                return -minus_length, target
        return None


class _PrefixTable:
    """Strings, in order, each with the longest other one that it begins with: of all that a text goes on with, the
    longest is the last string that is not beyond the text, or one that this begins with."""

    def __init__(self, strings: Collection[str]) -> None:
        self._strings = sorted(strings)
        self._longest = max(map(len, strings), default=0)
        self._shorter: list[int] = []
        within: list[int] = []
        for number, string in enumerate(self._strings):
            while within and not string.startswith(self._strings[within[-1]]):
                within.pop()
            self._shorter.append(within[-1] if within else -1)
            within.append(number)

    def lengths(self, text: str, at: int) -> Iterator[int]:
        """Of those that the text has there, the longest first."""
        there = text[at : at + self._longest]
        number = bisect_right(self._strings, there) - 1
        while number >= 0:
            if there.startswith(self._strings[number]):
                yield len(self._strings[number])
            number = self._shorter[number]


def holds_term(text: str, forms: tuple[str, ...]) -> bool:
    """Whether one of its forms is there as a word of its own."""
    return bool(term_spans(text, forms))


def term_spans(text: str, forms: Sequence[str]) -> list[tuple[int, int]]:
    """Spans of its forms, in order. What begins the text may have a capital there, whatever the forms."""
    found = {span for form in forms for span in _form_spans(text, form)}
    begins = next((at for at, character in enumerate(text) if character.isalnum()), 0)
    for form in forms:
        if text.startswith(_capitalised(form), begins) and _is_whole_word(text, begins, begins + len(form)):
            found.add((begins, begins + len(form)))
    return sorted(found)


def form_at(form: str, text: str, at: int) -> str:
    """The form as it is written there: with a capital where it takes the place of one that begins the text."""
    begins = not any(character.isalnum() for character in text[:at])
    return _capitalised(form) if begins and text[at : at + 1].isupper() else form


def _form_spans(text: str, form: str) -> Iterator[tuple[int, int]]:
    at = find_term(text, form)
    while at >= 0:
        yield at, at + len(form)
        at = find_term(text, form, at + len(form))


def find_term(text: str, form: str, start: int = 0) -> int:
    """Where it stands as a word of its own, or -1."""
    at = text.find(form, start)
    while at >= 0 and not _is_whole_word(text, at, at + len(form)):
        at = text.find(form, at + 1)
    return at


def _lookup_key(term: str) -> str:
    """What it is looked up by: its first word, or its first character where words are not set apart."""
    word = _WORD.match(term)
    return term[0].lower() if word is None or is_unspaced_script(term[0]) else word[0].lower()


def _candidate_places(text: str) -> Iterator[tuple[int, str]]:
    """Where a term may begin, and what it is looked up by there."""
    end = 0
    for word in _WORD.finditer(text):
        for at in range(end, word.start()):
            yield at, text[at].lower()
        end = word.end()
        if any(map(is_unspaced_script, word[0])):
            for at in range(*word.span()):
                yield at, text[at].lower()
        else:
            yield word.start(), word[0].lower()
    for at in range(end, len(text)):
        yield at, text[at].lower()


def _lowercased(text: str) -> str:
    """In small letters, each in its place: \u03a3 becomes one or the other by what is around it, \u0130 becomes two."""
    return text.replace("\u03a3", "\u03c3").replace("\u0130", " ").lower().replace("\u03c2", "\u03c3")


def _first_alphanumeric(text: str) -> int:
    """Where the first letter or digit is, or the end."""
    return next((at for at, character in enumerate(text) if character.isalnum()), len(text))


def _is_whole_word(text: str, start: int, end: int) -> bool:
    return not (_is_inside_word(text, start) or _is_inside_word(text, end))


def _is_inside_word(text: str, at: int) -> bool:
    """Whether one word goes on across this place."""
    if not 0 < at < len(text):
        return False
    before, after = text[at - 1], text[at]
    if is_unspaced_script(before) or is_unspaced_script(after):
        return False
    return _WORD.fullmatch(before) is not None and _WORD.fullmatch(after) is not None


def _capitalised(form: str) -> str:
    """iPhone and eBay stay as they are."""
    first = form.split(maxsplit=1)[0]
    capital = form[0].upper()
    return capital + form[1:] if first.islower() and len(capital) == 1 else form


def _target_forms(target: str, text: str, at: int, *, begins: bool) -> tuple[str, ...]:
    capital = _capitalised(target)
    return (target, capital) if begins and text[at].isupper() and capital != target else (target,)
