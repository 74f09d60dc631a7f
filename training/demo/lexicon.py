"""The words of the phrasebook in German, English, Spanish and Chinese: nouns, names, pronouns, adjectives, verbs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources


def demo_text(name: str) -> str:
    """A text file of this package."""
    return resources.files("training.demo").joinpath(name).read_text(encoding="utf-8")


def table_rows(name: str) -> Iterator[list[str]]:
    """The cells of each line of a table; the lines that explain them begin with #."""
    for line in demo_text(name).splitlines():
        if not line.startswith("#"):
            yield [cell.strip() for cell in line.split("|")]


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A noun or a name; names, cities and mass nouns ('mass' in kinds) are used in the singular only."""

    key: str  # the English singular
    gender: str  # German: m, f, n
    german: tuple[str, str]  # singular, plural
    english: tuple[str, str]
    spanish_gender: str  # m, f
    spanish: tuple[str, str]
    measure: str
    chinese: str
    kinds: frozenset[str]
    adjectives: tuple[str, ...]  # those that sensibly describe it

    @property
    def person(self) -> str:
        return "3s"


@dataclass(frozen=True, slots=True, eq=False)
class Pronoun:
    """A personal subject; Spanish leaves out the first person, and the second in a question."""

    key: str  # the English word
    person: str  # 1s, 2s, 3s, 1p
    gender: str  # m, f, or '' where the pronoun does not tell
    german: str
    spanish: str
    chinese: str


def _noun(row: list[str]) -> Noun:
    german, english, spanish, chinese, kinds, adjectives = map(str.split, row)
    return Noun(
        key=english[0],
        gender=german[0],
        german=(german[1], german[-1]),
        english=(english[0], english[-1]),
        spanish_gender=spanish[0],
        spanish=(spanish[1], spanish[-1]),
        measure=chinese[0],
        chinese=chinese[1],
        kinds=frozenset(kinds),
        adjectives=tuple(adjectives),
    )


NOUNS = {noun.key: noun for noun in map(_noun, table_rows("nouns.txt"))}

PRONOUNS: dict[str, Pronoun] = {
    pronoun.key: pronoun
    for pronoun in (
        Pronoun("i", "1s", "", "ich", "", "我"),
        Pronoun("you", "2s", "", "du", "tú", "你"),
        Pronoun("he", "3s", "m", "er", "él", "他"),
        Pronoun("she", "3s", "f", "sie", "ella", "她"),
        Pronoun("we", "1p", "", "wir", "", "我们"),
    )
}


@cache
def nouns_of_kind(kind: str) -> tuple[Noun, ...]:
    """The nouns of a kind, in the order of the table; a key names the one noun itself."""
    if kind in NOUNS:
        return (NOUNS[kind],)
    return tuple(noun for noun in NOUNS.values() if kind in noun.kinds)


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    """A quality; its Chinese form before a noun ends in 的, or it is of one syllable."""

    key: str  # the English word
    german: str
    spanish: str  # masculine singular
    copula: str  # Spanish: ser for what something is, estar for the state it is in
    chinese: str
    chinese_predicate: str  # after 很 or 是: 漂亮 without 的, but 红色的 with it

    @property
    def german_stem(self) -> str:
        """What the endings are added to: 'teuer' loses an e."""
        return "teur" if self.german == "teuer" else self.german

    @property
    def is_colour(self) -> bool:
        """A colour is predicated with 是 in Chinese, any other quality with 很."""
        return self.chinese.endswith("色的")

    def in_spanish(self, gender: str, plural: bool) -> str:
        form = self.spanish
        if gender == "f" and form.endswith("o"):
            form = form[:-1] + "a"
        if not plural:
            return form
        return {"joven": "jóvenes"}.get(form, form + ("s" if form[-1] in "aeo" else "es"))


def _adjective(row: list[str]) -> Adjective:
    english, german, spanish, chinese = map(str.split, row)
    predicate = chinese[-1] if chinese[-1].endswith("色的") else chinese[-1].removesuffix("的")
    return Adjective(english[0], german[0], spanish[0], spanish[1], chinese[0], predicate)


ADJECTIVES = {adjective.key: adjective for adjective in map(_adjective, table_rows("adjectives.txt"))}

PERSONS = ("1s", "2s", "3s", "1p", "3p")
_PRESENT_ENDINGS: dict[str, tuple[str, ...]] = {
    "ar": ("o", "as", "a", "amos", "an"),
    "er": ("o", "es", "e", "emos", "en"),
    "ir": ("o", "es", "e", "imos", "en"),
}
_PRETERITE_ENDINGS: dict[str, tuple[str, ...]] = {
    "ar": ("é", "aste", "ó", "amos", "aron"),
    "er": ("í", "iste", "ió", "imos", "ieron"),
    "ir": ("í", "iste", "ió", "imos", "ieron"),
}


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """A verb; the finite forms stand in the order of `PERSONS`, an English form may have a particle.

    Traits: 'dative' (the German object's case), 'personal' (a Spanish living object takes 'a').
    """

    key: str  # the English infinitive
    german: tuple[str, ...]
    german_infinitive: str
    german_participle: str  # '' where the phrasebook has no past of the verb
    english: tuple[str, str, str]  # infinitive, third person, past (or '')
    english_particle: str
    spanish: tuple[str, ...]
    spanish_past: tuple[str, ...]
    spanish_infinitive: str
    chinese: str
    traits: frozenset[str]


def _conjugated(infinitive: str, endings: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    stem, kind = infinitive[:-2], infinitive[-2:].replace("í", "i")
    return tuple(stem + ending for ending in endings[kind])


def _verb(row: list[str]) -> Verb:
    german, english, spanish, chinese, traits = map(str.split, row)
    first, second, third, infinitive, *participle = german
    regular = " ".join(spanish).partition(" / ")
    present, past = regular[0].split(), tuple(regular[2].split())
    return Verb(
        key=english[0],
        german=(first, second, third, infinitive, infinitive),
        german_infinitive=infinitive,
        german_participle="".join(participle),
        english=(english[0], english[1], "".join(english[2:3]).replace("-", "")),
        english_particle="".join(english[3:]),
        spanish=tuple(present[1:]) or _conjugated(present[0], _PRESENT_ENDINGS),
        spanish_past=past or _conjugated(present[0], _PRETERITE_ENDINGS),
        spanish_infinitive=present[0],
        chinese=chinese[0],
        traits=frozenset(traits),
    )


VERBS = {verb.key: verb for verb in map(_verb, table_rows("verbs.txt"))}
