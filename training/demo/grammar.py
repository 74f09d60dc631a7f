"""The parts of a tree, drawn at random so that they make sense together: nobody drinks a table.

There are many more combinations than a corpus needs, so a construction is a function that draws one tree from a seeded
generator. `patients.txt` says what a verb can be done to: alternatives parted by commas, each with
kinds of nouns and how they are determined: a, the, this, poss (my, your, our), num, pl (the, plural), bare (a mass, a
plural, a name). What is written twice, there as in the lists of verbs, is drawn twice as often, which makes up for
what is rejected: each form of each word has to be met some thirty times.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from random import Random
from typing import TypeVar

from training.demo.lexicon import ADJECTIVES, PRONOUNS, VERBS, Adjective, Noun, Verb, nouns_of_kind, table_rows
from training.demo.syntax_trees import Couple, NounPhrase, Place, Subject

T = TypeVar("T")
NUMERALS = ("two", "three", "four", "five", "ten")
POSSESSIVES = {"1s": ("your",), "2s": ("my",), "1p": ("your",)}
ANYONE = ("my", "your", "our")
EVENTIVE = {"buy", "sell", "eat", "drink", "read", "wash", "open"}  # not 'he buys a car' without a time
NOT_FOR_MINORS = {"beer", "wine", "house", "car", "son", "daughter"}
INDEFINITE = frozenset({"a", "num"})
DENIED_ONE = {"have", "want", "need", "buy", "eat", "drink", "see", "find", "write"}
EVERYONE = "i i i you you we we we he she"


class Dice(Random):
    """A generator that is the same on every machine and with every version of Python."""

    def pick(self, options: Sequence[T]) -> T:
        return options[int(self.random() * len(options))]

    def chance(self, share: float) -> bool:
        return self.random() < share


def adjective(dice: Dice, noun: Noun, determiner: str, share: float) -> Adjective | None:
    """In this share of the cases an adjective; 'my' is 我的, so none with a second 的 comes after it."""
    options = [ADJECTIVES[key] for key in noun.adjectives]
    if determiner in ANYONE:
        options = [option for option in options if not option.chinese.endswith("的")]
    return dice.pick(options) if options and dice.chance(share) else None


def noun_phrase(dice: Dice, noun: Noun, code: str, possessives: Sequence[str], share: float) -> NounPhrase:
    """The noun, determined as `code` says, with an adjective in this share of the cases."""
    determiner = {"poss": "", "num": "", "pl": "the", "bare": ""}.get(code, code)
    if code == "num":
        determiner = dice.pick(NUMERALS)
    if code == "poss":
        determiner = dice.pick(possessives)
    plural = code in ("num", "pl") or (code == "bare" and not noun.kinds & {"mass", "name", "city"})
    return NounPhrase(noun, determiner, adjective(dice, noun, determiner, share), plural)


def _alternatives(menu: str) -> Iterator[tuple[tuple[Noun, ...], tuple[str, ...]]]:
    for part in menu.split(","):
        kinds, codes = part.split("/")
        yield tuple(noun for kind in kinds.split() for noun in nouns_of_kind(kind)), tuple(codes.split())


_PATIENTS = {verb: tuple(_alternatives(menu)) for verb, menu in table_rows("patients.txt")}


def patient(dice: Dice, verb: str, subject: Subject | None, avoid: Collection[str]) -> NounPhrase | None:
    """What the verb is done to, not determined in the ways to avoid and not the subject again; or None."""
    nouns, codes = dice.pick(_PATIENTS[verb])
    noun = dice.pick(nouns)
    codes = tuple(code for code in codes if code not in avoid)
    if not codes or noun in _named(subject) or (is_minor(subject) and noun.key in NOT_FOR_MINORS):
        return None
    possessives = POSSESSIVES.get(subject.person, ANYONE) if subject and "kin" in noun.kinds else ANYONE
    return noun_phrase(dice, noun, dice.pick(codes), possessives, 0.0 if verb == "write" else 0.5)


def is_minor(subject: Subject | None) -> bool:
    """Whether it is a child, who neither works nor drinks wine."""
    return isinstance(subject, NounPhrase) and subject.noun.key in ("child", "boy", "girl")


def _named(subject: Subject | None) -> tuple[Noun, ...]:
    if isinstance(subject, NounPhrase):
        return (subject.noun,)
    if isinstance(subject, Couple):
        return (subject.first, subject.second)
    return ()


def denied_patient(dice: Dice, verb: str, subject: Subject) -> NounPhrase | None:
    """What the verb is not done to: no number, no 'no man', and of what is eaten and drunk 'no apples', 'no beer'."""
    phrase = patient(dice, verb, subject, {"num"} if verb in DENIED_ONE else {"num", "a"})
    if phrase is None or phrase.determiner not in ("", "a") or "name" in phrase.noun.kinds:
        return phrase
    if phrase.noun.kinds & {"food", "drink"}:
        return NounPhrase(phrase.noun, "", phrase.adjective, "food" in phrase.noun.kinds)
    return None if phrase.plural or "person" in phrase.noun.kinds else phrase


def couple(dice: Dice, women: float = 0.0) -> Couple:
    """Two different names, in this share of the cases both of women."""
    women_only = dice.chance(women)
    names = [name for name in nouns_of_kind("name") if name.gender == "f" or not women_only]
    first = dice.pick(names)
    second = dice.pick([name for name in names if name is not first])
    return Couple(first, second)


_SORTS = (*("pronoun",) * 11, *("definite",) * 3, "name", "name", "couple", "kin", "this", "plural")


def somebody(dice: Dice, pronouns: str = EVERYONE) -> Subject:
    """A human subject: a pronoun, a name, two names, or a noun."""
    sort = dice.pick(_SORTS)
    if sort == "pronoun":
        return PRONOUNS[dice.pick(pronouns.split())]
    if sort == "couple":
        return couple(dice)
    if sort == "kin":
        return noun_phrase(dice, dice.pick(nouns_of_kind("kin")), "poss", ANYONE, 0.1)
    if sort in ("definite", "this", "plural"):
        code = {"definite": "the", "plural": "pl"}.get(sort, sort)
        return noun_phrase(dice, dice.pick(nouns_of_kind("person")), code, ANYONE, 0.3)
    return NounPhrase(dice.pick(nouns_of_kind("name")))


def animal(dice: Dice) -> NounPhrase:
    """An animal as the subject."""
    return noun_phrase(
        dice, dice.pick(nouns_of_kind("animal")), dice.pick(("the", "the", "poss", "this", "pl")), ANYONE, 0.4
    )


def _places(text: str) -> Iterator[Place]:
    for part in text.split(","):
        relation, *nouns = part.split()
        yield from (Place(relation, nouns_of_kind(noun)[0]) for noun in nouns)


_PLACES = {key: tuple(_places(text)) for key, text in table_rows("places.txt")}


def place(dice: Dice, key: str) -> Place:
    """A place that suits the verb or the kind of thing."""
    return dice.pick(_PLACES[key])


def city(dice: Dice, relation: str) -> Place:
    """In a city, or to a city."""
    return Place(relation, dice.pick(nouns_of_kind("city")))


def verb(dice: Dice, keys: str) -> Verb:
    """One of the verbs."""
    return VERBS[dice.pick(keys.split())]
