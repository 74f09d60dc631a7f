"""Finds glossary terms in a text by first word and then bisection, so that a thousand terms cost no more than ten."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from app.text.layout_characters import is_unspaced_script

_WORD = re.compile(r"\w+")
_BETWEEN_LETTERS = re.compile(r"(?<=\w)(?=\w)")


@dataclass(frozen=True, slots=True)
class Term:
    """A glossary term at start..end. forms: its translations, the glossary's first; capitalised at sentence starts."""

    start: int
    end: int
    forms: tuple[str, ...]


class TermMatcher:
    """source term -> target term. A lower-case term matches any case, another only its exact spelling. Of equal terms
    the first counts; empty terms and terms without a target are ignored."""

    def __init__(self, terms: Mapping[str, str]) -> None:
        # first word -> (case-sensitive terms, case-insensitive terms)
        self._by_first_word: defaultdict[str, tuple[dict[str, str], dict[str, str]]] = defaultdict(lambda: ({}, {}))
        for source, target in terms.items():
            source, target = source.strip(), target.strip()
            if source and target:
                word = _WORD.match(source)
                key = source[0] if word is None or is_unspaced_script(source[0]) else word[0]
                exact, lower = self._by_first_word[key.lower()]
                terms_of_case, written = (lower, _lowercased(source)) if source.islower() else (exact, source)
                terms_of_case.setdefault(written, target)
        self._tables: dict[str, tuple[_PrefixTable, _PrefixTable]] = {}  # built on first use of a first word

    def __bool__(self) -> bool:
        return bool(self._by_first_word)

    def find(self, text: str) -> list[Term]:
        """Non-overlapping terms on word boundaries, left to right: the longest, in exact case before any case."""
        terms: list[Term] = []
        end = 0
        if not self._by_first_word:
            return terms
        lowercased = _lowercased(text)
        begins = _first_alphanumeric(text)
        ends_word = cache(lambda at: not _is_inside_word(text, at))
        for at, first_word in _candidate_places(text):
            if at < end or first_word not in self._by_first_word or not ends_word(at):
                continue
            if first_word not in self._tables:
                exact, lower = self._by_first_word[first_word]
                self._tables[first_word] = _PrefixTable(exact), _PrefixTable(lower)
            tables = zip(self._tables[first_word], (text, lowercased), strict=True)
            matches = [match for table, written in tables for match in table.matches(written, at)]
            matches.sort(key=lambda match: -match[0])
            match = next((match for match in matches if ends_word(at + match[0])), None)
            if match is not None:
                end, target = at + match[0], match[1]
                capital = _capitalised(target)
                takes_capital = at <= begins and text[at].isupper() and capital != target
                terms.append(Term(at, end, (target, capital) if takes_capital else (target,)))
        return terms


class _PrefixTable:
    """Finds which of many strings are prefixes of a text position. The longest one is the last string in sorted order
    that is not greater than the text, or a prefix of that string; so each string links to its longest proper prefix."""

    def __init__(self, targets: Mapping[str, str]) -> None:
        self._targets, self._strings = targets, sorted(targets)
        self._longest = max(map(len, targets), default=0)
        self._prefix_of: list[int] = []  # index of the longest proper prefix; -1: none
        nested: list[int] = []
        for number, string in enumerate(self._strings):
            while nested and not string.startswith(self._strings[nested[-1]]):
                nested.pop()
            self._prefix_of.append(nested[-1] if nested else -1)
            nested.append(number)

    def matches(self, text: str, at: int) -> Iterator[tuple[int, str]]:
        """Length and target of each string at position `at`, longest first."""
        following = text[at : at + self._longest]
        number = bisect_right(self._strings, following) - 1
        while number >= 0:
            string = self._strings[number]
            if following.startswith(string):
                yield len(string), self._targets[string]
            number = self._prefix_of[number]


def _candidate_places(text: str) -> Iterator[tuple[int, str]]:
    """Positions where a term may begin, with the first word there: a non-word or unspaced-script character."""
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
    """Lower case that keeps positions: \u0130 becomes two characters, and \u03a3 has two forms, by context."""
    return text.replace("\u03a3", "\u03c3").replace("\u0130", "\0").lower().replace("\u03c2", "\u03c3")


def holds_term(text: str, forms: tuple[str, ...]) -> bool:
    """Whether one of the forms occurs as a separate word."""
    return bool(term_spans(text, forms))


def term_spans(text: str, forms: Sequence[str]) -> list[tuple[int, int]]:
    """Spans of the forms, in order. At the start of the text a form may be capitalised."""
    spans = set()
    begins = _first_alphanumeric(text)
    for form in forms:
        at = find_term(text, form)
        while at >= 0:
            spans.add((at, at + len(form)))
            at = find_term(text, form, at + len(form))
        if text.startswith(_capitalised(form), begins) and _is_whole_word(text, begins, begins + len(form)):
            spans.add((begins, begins + len(form)))
    return sorted(spans)


def form_at(form: str, text: str, at: int) -> str:
    """The form as written at `at`: capitalised if it replaces a capitalised word at the start of the text."""
    begins = not any(character.isalnum() for character in text[:at])
    return _capitalised(form) if begins and text[at : at + 1].isupper() else form


def find_term(text: str, form: str, start: int = 0) -> int:
    """Position of the form as a separate word, or -1."""
    at = text.find(form, start)
    while at >= 0 and not _is_whole_word(text, at, at + len(form)):
        at = text.find(form, at + 1)
    return at


def _first_alphanumeric(text: str) -> int:
    return next((at for at, character in enumerate(text) if character.isalnum()), len(text))


def _is_whole_word(text: str, start: int, end: int) -> bool:
    return not (_is_inside_word(text, start) or _is_inside_word(text, end))


def _is_inside_word(text: str, at: int) -> bool:
    return _BETWEEN_LETTERS.match(text, at) is not None and not any(map(is_unspaced_script, text[at - 1 : at + 1]))


def _capitalised(form: str) -> str:
    """Capitalised, unless its first word has a capital already (iPhone, eBay)."""
    first = form.split(maxsplit=1)[0]
    capital = form[0].upper()
    return capital + form[1:] if first.islower() and len(capital) == 1 else form
