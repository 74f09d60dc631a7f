"""Terms of a glossary in a text: found by their first word, so that a thousand of them cost no more than ten."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from app.text.characters import unspaced

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Term:
    """Where it stands in the source, and what it becomes there: the first form is the glossary's own, the second, at
    the beginning of a sentence, with a capital."""

    start: int
    end: int
    forms: tuple[str, ...]


class Glossary:
    """source term -> target term. A term in lower case is found in any case, another only as it is written. Empty
    terms, and those without a target, are passed over."""

    def __init__(self, terms: Mapping[str, str]) -> None:
        self._by_beginning: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        for source, target in terms.items():
            source, target = source.strip(), target.strip()
            if source and target:
                self._by_beginning[_beginning(source)].append((source, target))
        for entries in self._by_beginning.values():
            entries.sort(key=lambda entry: (-len(entry[0]), entry[0].islower()))

    def __bool__(self) -> bool:
        return bool(self._by_beginning)

    def find(self, text: str) -> list[Term]:
        """From left to right, the longest at each place, none within another."""
        found: list[Term] = []
        end = 0
        for at, beginning in _places(text) if self._by_beginning else ():
            if at < end:
                continue
            for source, target in self._by_beginning.get(beginning, ()):
                if _stands(text, source, at):
                    end = at + len(source)
                    found.append(Term(at, end, _forms(target, text, at)))
                    break
        return found


def holds_term(text: str, forms: tuple[str, ...]) -> bool:
    """Whether one of its forms is there as a word of its own."""
    return bool(term_places(text, forms))


def term_places(text: str, forms: Sequence[str]) -> list[tuple[int, int]]:
    """Spans of its forms, in order. What begins the text may have a capital there, whatever the forms."""
    found = {span for form in forms for span in _spans(text, form)}
    begins = next((at for at, character in enumerate(text) if character.isalnum()), 0)
    for form in forms:
        if text.startswith(_capital(form), begins) and _bounded(text, begins, begins + len(form)):
            found.add((begins, begins + len(form)))
    return sorted(found)


def at_beginning(form: str, text: str, at: int) -> str:
    """The form as it is written there: with a capital where it takes the place of one that begins the text."""
    begins = not any(character.isalnum() for character in text[:at])
    return _capital(form) if begins and text[at : at + 1].isupper() else form


def _spans(text: str, form: str) -> Iterator[tuple[int, int]]:
    at = find_term(text, form)
    while at >= 0:
        yield at, at + len(form)
        at = find_term(text, form, at + len(form))


def find_term(text: str, form: str, start: int = 0) -> int:
    """Where it stands as a word of its own, or -1."""
    at = text.find(form, start)
    while at >= 0 and not _bounded(text, at, at + len(form)):
        at = text.find(form, at + 1)
    return at


def _beginning(term: str) -> str:
    """What it is looked up by: its first word, or its first character where words are not set apart."""
    word = _WORD.match(term)
    return term[0].lower() if word is None or unspaced(term[0]) else word[0].lower()


def _places(text: str) -> Iterator[tuple[int, str]]:
    """Where a term may begin, and what it is looked up by there."""
    end = 0
    for word in _WORD.finditer(text):
        for at in range(end, word.start()):
            yield at, text[at].lower()
        end = word.end()
        if any(map(unspaced, word[0])):
            for at in range(*word.span()):
                yield at, text[at].lower()
        else:
            yield word.start(), word[0].lower()
    for at in range(end, len(text)):
        yield at, text[at].lower()


def _stands(text: str, term: str, at: int) -> bool:
    there = text[at : at + len(term)]
    same = there == term or (term.islower() and there.lower() == term)
    return same and _bounded(text, at, at + len(term))


def _bounded(text: str, start: int, end: int) -> bool:
    return not (_continues(text, start) or _continues(text, end))


def _continues(text: str, at: int) -> bool:
    """Whether one word goes on across this place."""
    if not 0 < at < len(text):
        return False
    before, after = text[at - 1], text[at]
    if unspaced(before) or unspaced(after):
        return False
    return _WORD.fullmatch(before) is not None and _WORD.fullmatch(after) is not None


def _capital(form: str) -> str:
    """iPhone and eBay stay as they are."""
    first = form.split(maxsplit=1)[0]
    capital = form[0].upper()
    return capital + form[1:] if first.islower() and len(capital) == 1 else form


def _forms(target: str, text: str, at: int) -> tuple[str, ...]:
    capital = _capital(target)
    begins = at == 0 or not any(character.isalnum() for character in text[:at])
    return (target, capital) if begins and text[at].isupper() and capital != target else (target,)
