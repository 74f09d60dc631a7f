"""The constructions of the phrasebook: each function draws one syntax tree, or None for a senseless draw.

The parts of a tree are drawn at random so that they make sense together: a table is no drink. There are many more
combinations than a corpus needs, so a construction draws from a seeded generator. Nouns are determined by a, the, this,
poss (my, your, our), num, pl (the, plural) or bare (a mass, a plural, a name). A word listed twice, in `patients.txt`
or in a list of verbs, is drawn twice as often, to make up for rejected draws: each form of each word should occur some
thirty times."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import TypeVar

from training.demo.lexicon import (
    ADJECTIVES,
    PRONOUNS,
    VERBS,
    Adjective,
    Noun,
    Pronoun,
    Verb,
    nouns_of_kind,
    table_rows,
    words_of,
)
from training.demo.syntax_trees import Clause, Couple, Existence, NounPhrase, Order, Place, Subject, Tree

T = TypeVar("T")
_WORDS = words_of("constructions")
NUMERALS = ("two", "three", "four", "five", "ten")
POSSESSIVES = {"1s": ("your",), "2s": ("my",), "1p": ("your",)}
ANYONE = ("my", "your", "our")
INDEFINITE = frozenset({"a", "num"})
_ANYTHING = f"{_WORDS['states']} {_WORDS['events']}"
EVERYONE = "i i i you you we we we he she"


class Dice(Random):
    """A random generator with the same draws on every machine and Python version."""

    def pick(self, options: Sequence[T]) -> T:
        return options[int(self.random() * len(options))]

    def noun(self, kind: str) -> Noun:
        return self.pick(nouns_of_kind(kind))

    def chance(self, share: float) -> bool:
        return self.random() < share


def adjective(dice: Dice, noun: Noun, determiner: str, share: float) -> Adjective | None:
    """An adjective with probability `share`; 'my' is 我的, so no second 的 follows it."""
    options = [ADJECTIVES[key] for key in noun.adjectives]
    if determiner in ANYONE:
        options = [option for option in options if not option.chinese.endswith("的")]
    return dice.pick(options) if options and dice.chance(share) else None


def noun_phrase(dice: Dice, noun: Noun, code: str, share: float, possessives: Sequence[str] = ANYONE) -> NounPhrase:
    """The noun with the determiner of `code`, and an adjective with probability `share`."""
    drawn = {"num": NUMERALS, "poss": possessives}.get(code)
    determiner = dice.pick(drawn) if drawn else {"pl": "the", "bare": ""}.get(code, code)
    plural = code in ("num", "pl") or (code == "bare" and not noun.kinds & {"mass", "name", "city"})
    return NounPhrase(noun, determiner, adjective(dice, noun, determiner, share), plural)


def _alternatives(menu: str) -> Iterator[tuple[tuple[Noun, ...], tuple[str, ...]]]:
    for part in menu.split(","):
        kinds, codes = part.split("/")
        yield tuple(noun for kind in kinds.split() for noun in nouns_of_kind(kind)), tuple(codes.split())


_PATIENTS = {verb: tuple(_alternatives(menu)) for verb, menu in table_rows("patients.txt")}


def patient(dice: Dice, verb: str, subject: Subject | None, avoid: Collection[str]) -> NounPhrase | None:
    """The object of the verb, with no determiner in `avoid` and not the subject again; or None."""
    nouns, codes = dice.pick(_PATIENTS[verb])
    noun = dice.pick(nouns)
    codes = tuple(code for code in codes if code not in avoid)
    if not codes or noun in _named(subject) or (is_minor(subject) and noun.key in _WORDS["not_for_minors"].split()):
        return None
    possessives = POSSESSIVES.get(subject.person, ANYONE) if subject and "kin" in noun.kinds else ANYONE
    return noun_phrase(dice, noun, dice.pick(codes), 0.0 if verb == "write" else 0.5, possessives)


def is_minor(subject: Subject | None) -> bool:
    """Whether the subject is a child, who neither works nor drinks wine."""
    return isinstance(subject, NounPhrase) and subject.noun.key in ("child", "boy", "girl")


def _named(subject: Subject | None) -> tuple[Noun, ...]:
    if isinstance(subject, NounPhrase):
        return (subject.noun,)
    return (subject.first, subject.second) if isinstance(subject, Couple) else ()


def denied_patient(dice: Dice, verb: str, subject: Subject) -> NounPhrase | None:
    """The object of a negated verb: no number, no 'no man', and for food and drink 'no apples', 'no beer'."""
    phrase = patient(dice, verb, subject, {"num"} if verb in _WORDS["denied_one"].split() else {"num", "a"})
    if phrase is None or phrase.determiner not in ("", "a") or "name" in phrase.noun.kinds:
        return phrase
    if phrase.noun.kinds & {"food", "drink"}:
        return NounPhrase(phrase.noun, "", phrase.adjective, "food" in phrase.noun.kinds)
    return None if phrase.plural or "person" in phrase.noun.kinds else phrase


def couple(dice: Dice, women: float = 0.0) -> Couple:
    """Two different names, both of women with probability `women`."""
    women_only = dice.chance(women)
    names = [name for name in nouns_of_kind("name") if name.gender == "f" or not women_only]
    first = dice.pick(names)
    return Couple(first, dice.pick([name for name in names if name is not first]))


_SORTS = (*("pronoun",) * 11, *("definite",) * 3, "name", "name", "couple", "kin", "this", "plural")


def somebody(dice: Dice, pronouns: str = EVERYONE) -> Subject:
    """A human subject: a pronoun, a name, two names, or a noun."""
    sort = dice.pick(_SORTS)
    if sort == "pronoun":
        return PRONOUNS[dice.pick(pronouns.split())]
    if sort == "couple":
        return couple(dice)
    if sort == "kin":
        return noun_phrase(dice, dice.noun("kin"), "poss", 0.1)
    if sort in ("definite", "this", "plural"):
        code = {"definite": "the", "plural": "pl"}.get(sort, sort)
        return noun_phrase(dice, dice.noun("person"), code, 0.3)
    return NounPhrase(dice.noun("name"))


def animal(dice: Dice) -> NounPhrase:
    return noun_phrase(dice, dice.noun("animal"), dice.pick(("the", "the", "poss", "this", "pl")), 0.4)


def _places(text: str) -> Iterator[Place]:
    for part in text.split(","):
        relation, *nouns = part.split()
        yield from (Place(relation, nouns_of_kind(noun)[0]) for noun in nouns)


_PLACES = {key: tuple(_places(text)) for key, text in table_rows("places.txt")}


def place(dice: Dice, key: str) -> Place:
    """A place that suits the verb or the kind of thing."""
    return dice.pick(_PLACES[key])


def city(dice: Dice, relation: str) -> Place:
    return Place(relation, dice.noun("city"))


def verb(dice: Dice, keys: str) -> Verb:
    return VERBS[dice.pick(keys.split())]


def _agent(dice: Dice, key: str, pronouns: str = EVERYONE) -> Subject:
    """A subject for the verb: an animal or a name chases, an animal also sees, people do all else."""
    if key == "chase" or (key == "see" and dice.chance(0.25)):
        return NounPhrase(dice.noun("name")) if dice.chance(0.25) else animal(dice)
    return somebody(dice, pronouns)


def _undetermined(key: str, in_past: bool) -> frozenset[str]:
    """Determiners that the object may not have: Chinese does not say 'he eats an apple' without a time."""
    return INDEFINITE if key in _WORDS["eventive"].split() and not in_past else frozenset()


def present(dice: Dice) -> Tree | None:
    """The dog sees Tom. The girl drinks milk."""
    action = verb(dice, _ANYTHING)
    subject = _agent(dice, action.key)
    thing = patient(dice, action.key, subject, _undetermined(action.key, in_past=False))
    return None if thing is None else Clause(subject, action, thing)


def wish(dice: Dice) -> Tree | None:
    """I want a beer; now the boy wants an apple."""
    subject = somebody(dice)
    thing = patient(dice, "want", subject, ())
    return None if thing is None else Clause(subject, VERBS["want"], thing, time=dice.pick(("", "", "", "now")))


def denial(dice: Dice) -> Tree | None:
    """I do not want a beer (kein); Tom does not know the man (nicht)."""
    action = verb(dice, _WORDS["deniable"])
    subject = _agent(dice, action.key)
    thing = denied_patient(dice, action.key, subject)
    return None if thing is None else Clause(subject, action, thing, negated=True)


def past(dice: Dice) -> Tree | None:
    """Tom saw a dog; yesterday a young man helped the child. Never 'we': es compramos, buy or bought."""
    action = verb(dice, _WORDS["past"])
    time = dice.pick(("", "", "yesterday"))
    subject = _agent(dice, action.key, "i i i you you he she")
    if dice.chance(0.08):
        subject = noun_phrase(dice, dice.noun("person"), "a", 0.8)
    thing = patient(dice, action.key, subject, ("bare",) if action.key in ("write", "sell") else ())
    return None if thing is None else Clause(subject, action, thing, past=True, time=time)


def past_denial(dice: Dice) -> Tree | None:
    """Anna did not buy an apple (kein); i did not find my key (nicht)."""
    action = verb(dice, _WORDS["past"])
    subject = _agent(dice, action.key, "i i i you you he she")
    thing = denied_patient(dice, action.key, subject)
    return None if thing is None else Clause(subject, action, thing, past=True, negated=True)


def question(dice: Dice) -> Tree | None:
    """Do you drink coffee? Did Tom see the dog?"""
    in_past = dice.chance(0.35)
    action = verb(dice, _WORDS["past"] if in_past else _ANYTHING)
    subject = _agent(dice, action.key, "you you he she")
    thing = patient(dice, action.key, subject, _undetermined(action.key, in_past))
    return None if thing is None else Clause(subject, action, thing, past=in_past, asks="whether")


def who(dice: Dice) -> Tree | None:
    """Who has a dog? Who saw Tom?"""
    in_past = dice.chance(0.4)
    action = verb(dice, _WORDS["past"] if in_past else _ANYTHING)
    thing = patient(dice, action.key, None, _undetermined(action.key, in_past))
    return None if thing is None else Clause(None, action, thing, past=in_past, asks="who")


def what(dice: Dice) -> Tree | None:
    """What does Tom drink? What did you buy? What do you want to eat?"""
    sort = dice.pick(tuple(_WORDS["asked_for"]))
    action = verb(dice, _WORDS["asked_for"][sort])
    return Clause(somebody(dice, "you you he she"), action, modal=VERBS.get(sort), past=sort == "past", asks="what")


def modal(dice: Dice) -> Tree | None:
    """I can see the dog; tomorrow i must buy an apple; we want to drink wine."""
    key = dice.pick(tuple(_WORDS["abilities"]))
    action = verb(dice, _WORDS["abilities"][key])
    subject = somebody(dice)
    thing = patient(dice, action.key, subject, ())
    time = "" if action.key == "see" else dice.pick(_WORDS["times"][key])
    return None if thing is None else Clause(subject, action, thing, modal=VERBS[key], time=time)


def modal_denial(dice: Dice) -> Tree | None:
    """Tom cannot open the door; Anna does not want to drink wine."""
    key = dice.pick(("can", "want"))
    action = verb(dice, _WORDS["inabilities"])
    subject = somebody(dice)
    thing = denied_patient(dice, action.key, subject)
    return None if thing is None else Clause(subject, action, thing, modal=VERBS[key], negated=True)


def modal_question(dice: Dice) -> Tree | None:
    """Can you help Anna? Do you want to drink a coffee?"""
    key = dice.pick(("can", "want"))
    action = verb(dice, _WORDS["abilities"][key])
    subject = somebody(dice, "you you he she")
    thing = patient(dice, action.key, subject, ())
    return None if thing is None else Clause(subject, action, thing, modal=VERBS[key], asks="whether")


def habit(dice: Dice) -> Tree | None:
    """Every day the man drinks a coffee; nobody buys a car or writes a book every day."""
    action = verb(dice, _WORDS["habits"])
    subject = somebody(dice)
    time = dice.pick(("today", "sometimes", "every day"))
    once = {"this", "num"} | ({"the"} if action.key in _WORDS["consuming"].split() else set())
    thing = patient(dice, action.key, subject, () if time == "today" else once)
    if thing is None or (action.key == "buy" and time != "today" and "thing" in thing.noun.kinds):
        return None
    if action.key == "write" and thing.noun.key == "book" and not thing.plural:
        return None
    return Clause(subject, action, thing, time=time)


def meal(dice: Dice) -> Tree | None:
    """The woman eats apples in the kitchen; yesterday Tom bought bread in the supermarket; i speak german."""
    action = verb(dice, "eat drink buy read write speak learn")
    in_past = action.key in ("eat", "drink", "buy") and dice.chance(0.4)
    time = "yesterday" if in_past else dice.pick(("", "every day", "sometimes"))
    subject = somebody(dice, "i you he she" if in_past else EVERYONE)
    avoid = {"the", "this", "poss", "pl"} | (set() if in_past or time else INDEFINITE) | (set() if in_past else {"num"})
    thing = patient(dice, action.key, subject, avoid)
    if thing is None or (action.key in ("buy", "write") and "thing" in thing.noun.kinds):
        return None
    return Clause(subject, action, thing, place=place(dice, action.key), past=in_past, time=time)


def _somewhere(dice: Dice, clause: Clause, key: str) -> Tree | None:
    """The clause, without an object, with or without a place that suits the verb `key`; a child does not work."""
    if key == "work" and is_minor(clause.subject):
        return None
    return replace(clause, place=dice.pick((None, place(dice, key), place(dice, key), city(dice, "in"))))


def activity(dice: Dice) -> Tree | None:
    """The boy plays in the park; every day Tom works in Berlin; tomorrow we must cook."""
    action = verb(dice, "sleep work sing play cook")
    key = dice.pick(("", "", "", "", "can", "must", "want"))
    clause = Clause(somebody(dice), action, modal=VERBS.get(key), time=dice.pick(_WORDS["times"][key]))
    return _somewhere(dice, clause, action.key)


def idleness(dice: Dice) -> Tree | None:
    """Peter does not work in Berlin; the child cannot sleep."""
    action = verb(dice, "sleep work sing play cook")
    key = dice.pick(("", "", "", "can", "want"))
    return _somewhere(dice, Clause(somebody(dice), action, modal=VERBS.get(key), negated=True), action.key)


def activity_question(dice: Dice) -> Tree | None:
    """Do you work in Paris? Can the boy cook? Where does Lisa work?"""
    action = verb(dice, "sleep work sing play cook")
    subject = somebody(dice, "you you he she")
    if dice.chance(0.3) and not is_minor(subject):
        return Clause(subject, action, asks="where")
    key = dice.pick(("", "", "can", "want"))
    return _somewhere(dice, Clause(subject, action, modal=VERBS.get(key), asks="whether"), action.key)


def animal_activity(dice: Dice) -> Tree | None:
    """The cat sleeps on the bed; my horse plays in the garden."""
    action = verb(dice, "sleep play")
    subject = animal(dice)
    where = place(dice, "pet" if "pet" in subject.noun.kinds else "outdoor")
    return Clause(subject, action, place=where, time=dice.pick(_WORDS["times"][""]))


def journey(dice: Dice) -> Tree | None:
    """Sometimes Tom goes to Berlin; tomorrow we want to go to Paris."""
    key = dice.pick(("", "", "", "can", "must", "want"))
    asks = "whether" if key != "must" and dice.chance(0.3) else ""
    negated = key != "must" and not asks and dice.chance(0.3)
    subject = somebody(dice, "you you he she" if asks else EVERYONE)
    times = ("", "now", "today", "tomorrow") if key else ("", "now", "today", "tomorrow", "sometimes")
    time = "" if asks or negated else dice.pick(times)
    where = city(dice, "to")
    return Clause(subject, VERBS["go"], place=where, modal=VERBS.get(key), negated=negated, asks=asks, time=time)


def _thing(dice: Dice, kind: str) -> NounPhrase:
    noun = dice.noun(kind)
    codes = ("the", "this", "poss") if noun.kinds & {"mass", "opening"} else ("the", "this", "poss", "pl", "pl")
    return noun_phrase(dice, noun, dice.pick(codes), 0.15)


def _located(dice: Dice, pronouns: str) -> tuple[Subject, Place]:
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
    asks, time = (mode if mode in modes else "" for modes in (("whether",), ("now", "today")))
    return Clause(subject, place=where, negated=mode == "not", asks=asks, time=time)


def whereabouts(dice: Dice) -> Tree | None:
    """Where is my key? Where are the children?"""
    if dice.chance(0.5):
        return Clause(_thing(dice, dice.pick(("thing", "small", "food", "animal"))), asks="where")
    return Clause(somebody(dice, "you he she"), asks="where")


def existence(dice: Dice) -> Tree | None:
    """There is a small dog in the garden; there are three apples on the table."""
    kind = dice.pick(("person", "animal", "small", "small", "seat", "seat", "vehicle", "food", "drink", "glass"))
    noun = dice.noun(kind)
    key = {"animal": "pet" if "pet" in noun.kinds else "outdoor", "drink": "glass"}.get(kind, kind)
    code = {"drink": "bare", "glass": "a"}.get(kind) or dice.pick(("a", "a", "a", "num"))
    if code == "num":
        key = {"pet": "outdoor", "small": "many"}.get(key, key)  # no ten dogs on a chair
    return Existence(noun_phrase(dice, noun, code, 0.85), place(dice, key))


def _people(dice: Dice) -> Subject:
    """A human subject, with enough women: Spanish adjectives agree."""
    if dice.chance(0.15):
        return couple(dice, women=0.5)
    if dice.chance(0.3):
        return noun_phrase(dice, dice.noun("person"), "pl", 0.5)
    return somebody(dice, "he she she he she i you we")


def _mood(dice: Dice) -> tuple[Subject, Adjective]:
    """A subject and a mood; i, you and we are only sad: Spanish 'tired' depends on the speaker's gender."""
    subject = _people(dice)
    unknown = isinstance(subject, Pronoun) and not subject.gender
    moods = _WORDS["moods"].split()
    return subject, ADJECTIVES["sad" if unknown else dice.pick(moods[:-1] if is_minor(subject) else moods)]


def _feature(dice: Dice) -> tuple[Subject, Adjective]:
    """An animal or a thing, and an adjective that suits it."""
    kinds = ("animal", "animal", "thing", "thing", "seat", "vehicle", "food", "drink", "drink", "meal", "opening")
    kind = dice.pick(kinds)
    thing = animal(dice) if kind == "animal" else _thing(dice, kind)
    return thing, ADJECTIVES[dice.pick((*thing.noun.adjectives, *_WORDS["kind_features"][kind].split()))]


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
    noun = dice.noun(dice.pick(("person", "animal", "thing", "food", "meal", "drink", "glass", "small")))
    mass: tuple[str, ...] = ("the", "this", "a", "bare") if "glass" in noun.kinds else ("the", "this", "bare")
    codes = mass if "mass" in noun.kinds else ("a", "a", "the", "this", "num", "pl")
    if not noun.kinds & {"mass", "person"}:
        codes += ("poss",)
    thing = noun_phrase(dice, noun, dice.pick(codes), 0.9)
    return Order(thing, please=False) if thing.determiner or thing.adjective else None


def order(dice: Dice) -> Tree | None:
    """A beer please; three apples please."""
    noun = dice.noun(dice.pick(("food", "glass")))
    code = "a" if "mass" in noun.kinds else dice.pick(("a", "num"))
    return Order(noun_phrase(dice, noun, code, 0.5), please=True)
