"""The words and patterns of `railway_talk`, from the tables in `railway/`: nouns, adjectives, verbs, fixed phrases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

TABLES = Path(__file__).with_name("railway")


def rows(name: str) -> Iterator[list[str]]:
    """The cells of each line of a table, without # comments."""
    for line in TABLES.joinpath(f"railway_{name}.txt").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            yield [cell.strip() for cell in line.split("|")]


@dataclass(frozen=True, slots=True)
class Noun:
    """german, english: singular and plural. weak: -n or -en in every form but the nominative singular."""

    kinds: tuple[str, ...]
    gender: str  # m, f, n
    german: tuple[str, str]
    english: tuple[str, str]
    weak: bool

    @property
    def key(self) -> str:
        return self.german[0]


@dataclass(frozen=True, slots=True)
class Adjective:
    """german: the predicate. stem: what the endings follow. predicative: False for 'nächste', 'vordere', …"""

    kinds: tuple[str, ...]
    german: str
    stem: str
    english: str
    predicative: bool

    @property
    def key(self) -> str:
        return self.german


@dataclass(frozen=True, slots=True)
class Phrase:
    """A pair of texts that never change."""

    german: str
    english: str

    @property
    def key(self) -> str:
        return self.german


@dataclass(frozen=True, slots=True)
class GermanVerb:
    """prefix: '' where the verb is not separable. third: of the present, without the prefix."""

    prefix: str
    infinitive: str  # without the prefix
    third: str
    participle: str
    auxiliary: str

    def present(self, person: str) -> str:
        """person: 1s, 3s or pl; without the prefix."""
        if person == "1s":
            if self.infinitive.endswith("eln"):
                return self.infinitive[:-3] + "le"
            return self.infinitive.removesuffix("n").removesuffix("e") + "e"
        return self.third if person == "3s" else self.infinitive


@dataclass(frozen=True, slots=True)
class EnglishVerb:
    base: str
    third: str
    past: str
    gerund: str

    def present(self, person: str) -> str:
        return self.third if person == "3s" else self.base


@dataclass(frozen=True, slots=True)
class Act:
    """A verb phrase in both languages; the texts around the verbs contain slots (`railway_grammar`)."""

    kinds: tuple[str, ...]
    german: str  # all but the verb
    german_verb: GermanVerb
    english_verb: EnglishVerb
    english: str  # all but the verb
    negated: bool  # in English; in German 'nicht' is a part of the text

    @property
    def key(self) -> str:
        return f"{self.german} {self.german_verb.prefix}{self.german_verb.infinitive}"


Word = TypeVar("Word", Noun, Adjective, Act)


def _kinds(cell: str) -> tuple[str, ...]:
    return tuple(kind.strip() for kind in cell.split(","))


def _nouns() -> Iterator[Noun]:
    for german, english, *plural in rows("nouns"):
        kinds, _, forms = german.partition(":")
        gender, singular, many = forms.split()
        yield Noun(
            _kinds(kinds),
            gender,
            (singular, many.removesuffix("*")),
            (english, plural[0] if plural else english + "s"),
            many.endswith("*"),
        )


def _adjectives() -> Iterator[Adjective]:
    for kinds, german, english in rows("adjectives"):
        predicate, _, stem = german.removesuffix("!").partition("/")
        yield Adjective(
            _kinds(kinds), predicate, stem or predicate.removesuffix("e"), english, not german.endswith("!")
        )


def _phrases() -> dict[str, tuple[Phrase, ...]]:
    kinds: dict[str, list[Phrase]] = {}
    for german, english in rows("phrases"):
        kind, _, text = german.partition(": ")
        kinds.setdefault(kind, []).append(Phrase(text, english))
    return {kind: tuple(phrases) for kind, phrases in kinds.items()}


def _verbs() -> tuple[dict[str, GermanVerb], dict[str, EnglishVerb]]:
    """By their infinitives; a German row has a participle or a prefix, an English one four forms."""
    german, english = {}, {}
    for cells in rows("german_verbs"):
        infinitive, third, participle, *auxiliary = "|".join(cells).split()
        prefix, _, bare = infinitive.rpartition("|")
        german[prefix + bare] = GermanVerb(prefix, bare, third, participle, *(auxiliary or ["haben"]))
    for (cell,) in rows("english_verbs"):
        forms = cell.split()
        english[forms[0]] = EnglishVerb(*forms)
    return german, english


def _regular(base: str) -> EnglishVerb:
    if base.endswith("y") and base[-2] not in "aeo":
        return EnglishVerb(base, base[:-1] + "ies", base[:-1] + "ied", base + "ing")
    stem = base.removesuffix("e")
    sibilant = base.endswith(("ss", "ch", "sh", "x"))
    return EnglishVerb(base, base + ("es" if sibilant else "s"), stem + "ed", stem + "ing")


def _acts() -> Iterator[Act]:
    german_verbs, english_verbs = _verbs()
    for kind, german, english in rows("acts"):
        middle, _, infinitive = german.rpartition(" ")
        negated = english.startswith("not ")
        base, _, rest = english.removeprefix("not ").partition(" ")
        verb = english_verbs.get(base) or _regular(base)
        yield Act(_kinds(kind), middle, german_verbs[infinitive], verb, rest, negated)


def _by_kind(words: Iterable[Word]) -> dict[str, tuple[Word, ...]]:
    kinds: dict[str, list[Word]] = {}
    for word in words:
        for kind in word.kinds:
            kinds.setdefault(kind, []).append(word)
    return {kind: tuple(members) for kind, members in kinds.items()}


NOUNS = _by_kind(_nouns())
ADJECTIVES = _by_kind(_adjectives())
PHRASES = _phrases()
ACTS = _by_kind(_acts())
PATTERNS = tuple((register, german, english) for register, german, english in rows("patterns"))
