"""Finds the terms of a glossary in a text: by their first word, and terms that share it by bisection, so that a
thousand terms cost no more than ten."""

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
    """start, end: its span in the source. forms: what it may become in the translation; first the glossary's own form,
    then, where the term begins a sentence, the same with a capital."""

    start: int
    end: int
    forms: tuple[str, ...]


class TermMatcher:
    """source term -> target term. A term in lower case matches any case, another only as it is written. Of equal terms
    the first one counts; empty terms and terms without a target are ignored."""

    def __init__(self, terms: Mapping[str, str]) -> None:
        # first word -> (terms that match as they are written, terms that match any case)
        self._by_first_word: defaultdict[str, tuple[dict[str, str], dict[str, str]]] = defaultdict(lambda: ({}, {}))
        for source, target in terms.items():
            source, target = source.strip(), target.strip()
            if source and target:
                word = _WORD.match(source)
                key = source[0] if word is None or is_unspaced_script(source[0]) else word[0]
                exact, lower = self._by_first_word[key.lower()]
                if source.islower():
                    lower.setdefault(_lowercased(source), target)
                else:
                    exact.setdefault(source, target)
        self._tables: dict[str, tuple[_PrefixTable, _PrefixTable]] = {}  # built for the first words that texts have

    def __bool__(self) -> bool:
        return bool(self._by_first_word)

    def find(self, text: str) -> list[Term]:
        """From left to right, the longest term at each place that ends where a word may, without overlaps. Of two
        equally long terms the one that is written exactly so wins."""
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
    """Finds which of many strings a text goes on with. The longest such string is the last one in sorted order that is
    not beyond the text, or a prefix of that one; so each string knows its longest proper prefix among the others."""

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
        """Length and target of each string that stands at `at`, the longest first."""
        following = text[at : at + self._longest]
        number = bisect_right(self._strings, following) - 1
        while number >= 0:
            string = self._strings[number]
            if following.startswith(string):
                yield len(string), self._targets[string]
            number = self._prefix_of[number]


def _candidate_places(text: str) -> Iterator[tuple[int, str]]:
    """Where a term may begin, and the first word that it would have there: a character where it is no word, and in
    scripts that set no spaces between words."""
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
    """With each character in its place: \u03a3 has two small forms, which depend on what is around it, and \u0130
    becomes two characters, which no term has in one place."""
    return text.replace("\u03a3", "\u03c3").replace("\u0130", "\0").lower().replace("\u03c2", "\u03c3")


# Target terms in a translation ---------------------------------------------------------------------------------


def holds_term(text: str, forms: tuple[str, ...]) -> bool:
    """Whether one of its forms is there as a word of its own."""
    return bool(term_spans(text, forms))


def term_spans(text: str, forms: Sequence[str]) -> list[tuple[int, int]]:
    """Spans of its forms, in order. At the beginning of the text a form may have a capital."""
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
    """The form as it is written at `at`: with a capital where it replaces a word that begins the text with one."""
    begins = not any(character.isalnum() for character in text[:at])
    return _capitalised(form) if begins and text[at : at + 1].isupper() else form


def find_term(text: str, form: str, start: int = 0) -> int:
    """Where it stands as a word of its own, or -1."""
    at = text.find(form, start)
    while at >= 0 and not _is_whole_word(text, at, at + len(form)):
        at = text.find(form, at + 1)
    return at


def _first_alphanumeric(text: str) -> int:
    """The place of the first letter or digit, or the end."""
    return next((at for at, character in enumerate(text) if character.isalnum()), len(text))


def _is_whole_word(text: str, start: int, end: int) -> bool:
    return not (_is_inside_word(text, start) or _is_inside_word(text, end))


def _is_inside_word(text: str, at: int) -> bool:
    """Whether the characters before and behind this place belong to one word."""
    return _BETWEEN_LETTERS.match(text, at) is not None and not any(map(is_unspaced_script, text[at - 1 : at + 1]))


def _capitalised(form: str) -> str:
    """With a capital, unless its first word has one already (iPhone, eBay)."""
    first = form.split(maxsplit=1)[0]
    capital = form[0].upper()
    return capital + form[1:] if first.islower() and len(capital) == 1 else form
