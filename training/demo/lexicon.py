"""The words of the phrasebook in German, English, Spanish and Chinese: nouns, names, pronouns, adjectives, verbs."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

LANGUAGES = ("de", "en", "es", "zh")


def demo_text(name: str) -> str:
    return resources.files("training.demo").joinpath(name).read_text(encoding="utf-8")


@cache
def words_of(module: str) -> dict[str, Any]:
    """The tables of words.toml that a module of this package reads."""
    tables: dict[str, dict[str, Any]] = tomllib.loads(demo_text("words.toml"))
    return tables[module]


def table_rows(name: str) -> Iterator[list[str]]:
    """The cells of each line of a table, without # comments."""
    for line in demo_text(name).splitlines():
        if not line.startswith("#"):
            yield [cell.strip() for cell in line.split("|")]


class Noun:
    """A noun or a name, from a row of nouns.txt; names, cities and mass nouns ('mass' in kinds) have no plural."""

    def __init__(self, row: list[str]) -> None:
        german, english, spanish, chinese, kinds, adjectives = map(str.split, row)
        self.key = english[0]
        self.gender, self.spanish_gender, self.measure = german[0], spanish[0], chinese[0]
        forms = (german[1:], english, spanish[1:], chinese[1:])
        # by language: singular and plural
        self.forms = {language: (line[0], line[-1]) for language, line in zip(LANGUAGES, forms, strict=True)}
        self.kinds, self.adjectives = frozenset(kinds), tuple(adjectives)  # adjectives that make sense with it


NOUNS = {noun.key: noun for noun in map(Noun, table_rows("nouns.txt"))}


@dataclass(frozen=True, slots=True, eq=False)
class Pronoun:
    """A personal subject; Spanish drops the first person, and the second in a question."""

    key: str  # the English word
    person: str  # 1s, 2s, 3s, 1p
    gender: str  # m, f, or '' for unmarked
    forms: dict[str, str]  # by language


PRONOUNS = {
    english: Pronoun(english, person, gender, {"de": german, "en": english, "es": spanish, "zh": chinese})
    for person, gender, german, english, spanish, chinese in words_of("lexicon")["pronouns"]
}


@cache
def nouns_of_kind(kind: str) -> tuple[Noun, ...]:
    """The nouns of a kind, in table order; a noun's key names that noun alone."""
    if kind in NOUNS:
        return (NOUNS[kind],)
    return tuple(noun for noun in NOUNS.values() if kind in noun.kinds)


class Adjective:
    """An adjective, from a row of adjectives.txt."""

    def __init__(self, row: list[str]) -> None:
        (self.key,), (self.german,), (self.spanish, self.copula), chinese = map(str.split, row)
        self.german_stem = "teur" if self.german == "teuer" else self.german  # before an ending
        self.chinese = chinese[0]  # before a noun: ends in 的, or has one syllable
        self.is_colour = self.chinese.endswith("色的")  # predicated with 是 in Chinese; other adjectives take 很
        self.chinese_predicate = chinese[-1] if self.is_colour else chinese[-1].removesuffix("的")

    def in_spanish(self, gender: str, plural: bool) -> str:
        form = self.spanish
        if gender == "f" and form.endswith("o"):
            form = form[:-1] + "a"
        if not plural:
            return form
        return {"joven": "jóvenes"}.get(form, form + ("s" if form[-1] in "aeo" else "es"))


ADJECTIVES = {adjective.key: adjective for adjective in map(Adjective, table_rows("adjectives.txt"))}

PERSONS = ("1s", "2s", "3s", "1p", "3p")
_PRESENT_ENDINGS = {
    "ar": ("o", "as", "a", "amos", "an"),
    "er": ("o", "es", "e", "emos", "en"),
    "ir": ("o", "es", "e", "imos", "en"),
}
_PRETERITE_ENDINGS = {
    "ar": ("é", "aste", "ó", "amos", "aron"),
    **dict.fromkeys(("er", "ir"), ("í", "iste", "ió", "imos", "ieron")),
}


class Verb:
    """A verb, from a row of verbs.txt; finite forms are in the order of `PERSONS`.

    Traits: 'dative' (case of the German object), 'personal' (a living Spanish object takes 'a')."""

    def __init__(self, row: list[str]) -> None:
        german, english, spanish, (self.chinese,), traits = map(str.split, row)
        first, second, third, self.german_infinitive, *participle = german
        self.german = (first, second, third, self.german_infinitive, self.german_infinitive)
        self.german_participle = "".join(participle)  # "" without a past tense in the phrasebook
        self.key, third, *past_and_particle = english
        past = "".join(past_and_particle[:1]).replace("-", "")
        self.english, self.english_particle = (self.key, third, past), "".join(past_and_particle[1:])
        present, _, preterite = " ".join(spanish).partition(" / ")
        self.spanish_infinitive, *irregular = present.split()
        self.spanish = tuple(irregular) or _conjugated(self.spanish_infinitive, _PRESENT_ENDINGS)
        self.spanish_past = tuple(preterite.split()) or _conjugated(self.spanish_infinitive, _PRETERITE_ENDINGS)
        self.traits = frozenset(traits)


def _conjugated(infinitive: str, endings: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    stem, kind = infinitive[:-2], infinitive[-2:].replace("í", "i")
    return tuple(stem + ending for ending in endings[kind])


VERBS = {verb.key: verb for verb in map(Verb, table_rows("verbs.txt"))}
