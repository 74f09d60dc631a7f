"""The abstract syntax trees of the phrasebook, and helpers to express them as words of a language.

A tree encodes meaning, not wording: who, what, where, when, and whether it is past, denied or a question. Its nodes
have names such as 'subject.noun', 'verb' or 'place.relation'. A linearisation is a sequence of `Word`, each with the
nodes that it expresses, and two words of two languages are aligned if they share a node. So that every node is
expressed in every language, a word also expresses nodes without a word of their own in its language:

- parts of one verb form (hat gesehen, tiene que, did see, 看见 了, look for, 吗) are the same node;
- a noun expresses the article that it lacks (zh 在厨房里, 没有狗; German and Spanish are as explicit as English);
- a Spanish verb expresses a dropped subject pronoun;
- a German contraction (im), a Spanish one (del, al), and 'kein' have both nodes;
- a case marker (Spanish personal a) belongs to the word after it, a measure word to the determiner.

The `key` of a tree is readable, unique, and decides whether its phrase is held out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, NamedTuple

from training.demo.lexicon import Adjective, Noun, Pronoun, Verb

_AND = {"de": "und", "en": "and", "es": "y", "zh": "和"}


class Word(NamedTuple):
    """A token of a language and the names of its nodes."""

    text: str
    nodes: frozenset[str]

    def also(self, *nodes: str) -> Word:
        return word(self.text, *sorted(self.nodes.union(nodes)))


@dataclass(frozen=True, slots=True)
class NounPhrase:
    """A noun with its determiner ('' for none): a, the, this, my, your, our, or a numeral."""

    noun: Noun
    determiner: str = ""
    adjective: Adjective | None = None
    plural: bool = False

    @property
    def person(self) -> str:
        """The person for verb agreement."""
        return "3p" if self.plural else "3s"

    @property
    def key(self) -> str:
        """Roughly English: 'the small dog', 'the dog+' for the plural."""
        adjective = self.adjective.key if self.adjective else ""
        return " ".join(filter(None, (self.determiner, adjective, self.noun.key + "+" * self.plural)))


@dataclass(frozen=True, slots=True)
class Couple:
    """Two names as one subject: Tom and Anna."""

    first: Noun
    second: Noun

    person: ClassVar[str] = "3p"

    @property
    def key(self) -> str:
        return f"{self.first.key} and {self.second.key}"


Subject = NounPhrase | Pronoun | Couple


@dataclass(frozen=True, slots=True)
class Place:
    """A location or goal: in, on, under or behind something, in a city, or to a city."""

    relation: str
    noun: Noun

    @property
    def key(self) -> str:
        return f"{self.relation} {self.noun.key}"


@dataclass(frozen=True, slots=True)
class Clause:
    """A subject (None for 'who') and its predicate; without a verb it is the copula. `asks` is '' for a statement,
    'whether' for a yes/no question, or the question word: 'who', 'what', 'where'."""

    subject: Subject | None
    verb: Verb | None = None
    patient: NounPhrase | None = None
    quality: Adjective | None = None
    place: Place | None = None
    modal: Verb | None = None
    past: bool = False
    negated: bool = False
    asks: str = ""
    time: str = ""

    @property
    def person(self) -> str:
        return self.subject.person if self.subject else "3s"

    @property
    def finite(self) -> str:
        """The node of the finite verb."""
        return "modal" if self.modal else "verb"

    @property
    def denies_existence(self) -> bool:
        """Whether German uses 'kein': an indefinite object that is no name is denied."""
        patient = self.patient
        indefinite = patient is not None and patient.determiner in ("", "a") and "name" not in patient.noun.kinds
        return self.negated and indefinite

    def time_words(self, texts: Mapping[str, str], every_day: str) -> list[Word]:
        """'Every day' has two nodes, which are one word in Chinese."""
        if self.time != "every day":
            return words(texts.get(self.time, ""), "time")
        every, *day = every_day.split()
        return [word(every, "time.every"), word(day[0], "time")] if day else [word(every, "time.every", "time")]

    @property
    def key(self) -> str:
        marks = (self.time, self.asks, "past" * self.past, "not" * self.negated)
        verbs = (self.modal.key if self.modal else "", self.verb.key if self.verb else "be")
        parts = (part.key for part in (self.patient, self.quality, self.place) if part)
        head = " ".join(filter(None, (*marks, *verbs)))
        return f"({head}: {', '.join((self.subject.key if self.subject else '?', *parts))})"


@dataclass(frozen=True, slots=True)
class Existence:
    """An existential clause: something is somewhere."""

    thing: NounPhrase
    place: Place

    @property
    def key(self) -> str:
        return f"(there: {self.thing.key}, {self.place.key})"


@dataclass(frozen=True, slots=True)
class Order:
    """A noun phrase alone, or with 'please'."""

    thing: NounPhrase
    please: bool

    @property
    def key(self) -> str:
        return f"({'please' if self.please else 'name'}: {self.thing.key})"


@dataclass(frozen=True, slots=True)
class Formula:
    """A fixed phrase of `formulas.txt` or `greetings.txt`, and its addressee."""

    phrase: str  # in English
    addressee: NounPhrase | Couple | None = None

    @property
    def key(self) -> str:
        return f"({self.phrase}{': ' + self.addressee.key if self.addressee else ''})"


Tree = Clause | Existence | Order | Formula


@cache
def word(text: str, *nodes: str) -> Word:
    return Word(text, frozenset(nodes))


def words(texts: str, *nodes: str) -> list[Word]:
    """Words that express these nodes together; none for the empty text."""
    return [word(text, *nodes) for text in texts.split()]


def subject_words(
    subject: Subject | None, language: str, noun_phrase: Callable[[NounPhrase, str], list[Word]]
) -> list[Word]:
    """noun_phrase: the words of a noun phrase in the nominative, by role."""
    if subject is None:
        return []
    if isinstance(subject, NounPhrase):
        return noun_phrase(subject, "subject")
    if isinstance(subject, Pronoun):
        return words(subject.forms[language], "subject.noun")
    first, second = (name.forms[language][0] for name in (subject.first, subject.second))
    return [word(first, "subject.noun"), word(_AND[language], "subject.and"), word(second, "subject.second")]
