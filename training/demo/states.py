"""Constructions of how and where something is, and of things that are only named: each function draws one tree."""

from __future__ import annotations

from training.demo.adjectives import ADJECTIVES, Adjective
from training.demo.grammar import ANYONE, EVERYONE, Dice, animal, city, couple, is_minor, noun_phrase, place, somebody
from training.demo.nouns import Pronoun, of_kind
from training.demo.trees import Clause, Existence, NounPhrase, Order, Place, Subject, Tree

_MOODS = ("tired", "tired", "sad", "happy", "happy", "clever", "young")
_KIND_FEATURES: dict[str, tuple[str, ...]] = {
    "animal": ("tired", "sad", "happy"),
    "thing": ("expensive",),
    "seat": ("old", "expensive"),
    "vehicle": ("old", "new"),
    "food": ("expensive",),
    "drink": ("expensive",),
    "meal": ("expensive",),
    "opening": (),
}


def _thing(dice: Dice, kind: str, share: float = 0.15) -> NounPhrase:
    """A definite thing."""
    noun = dice.pick(of_kind(kind))
    codes = ("the", "this", "poss") if noun.kinds & {"mass", "opening"} else ("the", "this", "poss", "pl", "pl")
    return noun_phrase(dice, noun, dice.pick(codes), ANYONE, share)


def _located(dice: Dice, pronouns: str) -> tuple[Subject, Place]:
    """Somebody or something, and a place that suits it."""
    kind = dice.pick(("person", "person", "person", "animal", "small", "food"))
    if kind == "person":
        where = city(dice, "in") if dice.chance(0.3) else place(dice, "person")
        return somebody(dice, pronouns), where
    if kind == "animal":
        beast = animal(dice)
        return beast, place(dice, "pet" if "pet" in beast.noun.kinds else "outdoor")
    return _thing(dice, kind), place(dice, kind)


def location(dice: Dice) -> Tree | None:
    """Tom is in the garden; now my key is not on the table; is the cat under the bed?"""
    mode = dice.pick(("", "", "", "", "now", "today", "not", "whether"))
    subject, where = _located(dice, "you you he she" if mode == "whether" else EVERYONE)
    return Clause(
        subject,
        place=where,
        negated=mode == "not",
        asks=mode if mode == "whether" else "",
        time=mode if mode in ("now", "today") else "",
    )


def whereabouts(dice: Dice) -> Tree | None:
    """Where is my key? Where are the children?"""
    if dice.chance(0.5):
        return Clause(_thing(dice, dice.pick(("thing", "small", "food", "animal"))), asks="where")
    return Clause(somebody(dice, "you he she"), asks="where")


def existence(dice: Dice) -> Tree | None:
    """There is a small dog in the garden; there are three apples on the table."""
    kind = dice.pick(("person", "animal", "small", "small", "seat", "seat", "vehicle", "food", "drink", "glass"))
    noun = dice.pick(of_kind(kind))
    key = {"animal": "pet" if "pet" in noun.kinds else "outdoor", "drink": "glass"}.get(kind, kind)
    code = {"drink": "bare", "glass": "a"}.get(kind) or dice.pick(("a", "a", "a", "num"))
    if code == "num":
        key = {"pet": "outdoor", "small": "many"}.get(key, key)  # no ten dogs on a chair
    return Existence(noun_phrase(dice, noun, code, ANYONE, 0.85), place(dice, key))


def _people(dice: Dice) -> Subject:
    """Somebody, with enough women among them: Spanish adjectives agree."""
    if dice.chance(0.15):
        return couple(dice, women=0.5)
    if dice.chance(0.3):
        return noun_phrase(dice, dice.pick(of_kind("person")), "pl", ANYONE, 0.5)
    return somebody(dice, "he she she he she i you we")


def _mood(dice: Dice) -> tuple[Subject, Adjective]:
    """Somebody is tired; i, you and we are only sad: Spanish would have to know whether a man or a woman is tired."""
    subject = _people(dice)
    unknown = isinstance(subject, Pronoun) and not subject.gender
    moods = _MOODS[:-1] if is_minor(subject) else _MOODS
    return subject, ADJECTIVES["sad" if unknown else dice.pick(moods)]


def _feature(dice: Dice) -> tuple[Subject, Adjective]:
    """An animal or a thing, and what may be said of its kind."""
    kinds = ("animal", "animal", "thing", "thing", "seat", "vehicle", "food", "drink", "drink", "meal", "opening")
    kind = dice.pick(kinds)
    thing = animal(dice) if kind == "animal" else _thing(dice, kind)
    keys = (*thing.noun.adjectives, *_KIND_FEATURES[kind])
    return thing, ADJECTIVES[dice.pick(keys)]


def _repeats(subject: Subject, quality: Adjective) -> bool:
    """The red apple is neither red nor blue; the young king is not young."""
    if not isinstance(subject, NounPhrase) or subject.adjective is None:
        return False
    colours = subject.adjective.is_colour and quality.is_colour
    opposites = {subject.adjective.key, quality.key} in ({"big", "small"}, {"new", "old"}, {"hot", "cold"})
    return colours or opposites or subject.adjective is quality


def description(dice: Dice) -> Tree | None:
    """The car is red; Anna and Lisa are not tired; is the coffee hot?"""
    subject, quality = _mood(dice) if dice.chance(0.5) else _feature(dice)
    mode = dice.pick(("", "", "", "not", "whether"))
    if _repeats(subject, quality) or (mode == "whether" and subject.person.startswith("1")):
        return None
    return Clause(subject, quality=quality, negated=mode == "not", asks=mode if mode == "whether" else "")


def label(dice: Dice) -> Tree | None:
    """A small dog; my new car; three red apples."""
    noun = dice.pick(of_kind(dice.pick(("person", "animal", "thing", "food", "meal", "drink", "glass", "small"))))
    mass: tuple[str, ...] = ("the", "this", "a", "bare") if "glass" in noun.kinds else ("the", "this", "bare")
    codes = mass if "mass" in noun.kinds else ("a", "a", "the", "this", "num", "pl")
    if not noun.kinds & {"mass", "person"}:
        codes += ("poss",)
    thing = noun_phrase(dice, noun, dice.pick(codes), ANYONE, 0.9)
    return Order(thing, please=False) if thing.determiner or thing.adjective else None


def order(dice: Dice) -> Tree | None:
    """A beer please; three apples please."""
    noun = dice.pick(of_kind(dice.pick(("food", "glass"))))
    code = "a" if "mass" in noun.kinds else dice.pick(("a", "num"))
    return Order(noun_phrase(dice, noun, code, ANYONE, 0.5), please=True)
