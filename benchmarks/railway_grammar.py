"""Both languages of a sentence pattern: slots, inflection, word order, and the choice of the words.

A pattern is a German and an English text with slots in braces; a slot of the same name is the same choice in both:

    {den train}  {the train}            noun phrases; the German determiner, in its masculine form, gives the case
    {den adj train}  {the adj train}    with an adjective that suits the noun
    {einen =gültig paper}  {a valid paper}      with this adjective
    {die train.pl}: {der train.pl}, {acc food.pl}, {- food.pl}    plural; nom, acc, dat and - are without determiner
    {seinen luggage}  {his luggage}     the possessive of the subject
    {er staff}  {he staff}              the pronoun;  {pred train}: the adjective as the predicate
    {city}  {time}  {price}             names, numbers and fixed phrases
    {main:past human go}                a clause, `TENSE SUBJECT ACT`: finite verb second
    {front:…}  {sub:…}  {rel:…}         finite verb first; last; last in a relative clause to the subject's noun
    {q:…}                               an English question
    {zu:I go}  {inf:I go}  {imp duty}   infinitives with their logical subject, imperatives;
    {to:I go}  {base:I go}  {ing:I go}  the same in English

A digit makes another choice of the same kind: {city2}. ^ capitalises."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import date, timedelta

from benchmarks.railway_words import ACTS, ADJECTIVES, NOUNS, PHRASES, Act, Adjective, Noun, Phrase

_SLOT = re.compile(r"\{(\^?)([^{}]+)\}")
_DEFINITE = {"der": "nom", "den": "acc", "dem": "dat", "des": "gen"}
_ARTICLES = {  # masculine, feminine, neuter, plural
    "nom": ("der", "die", "das", "die"),
    "acc": ("den", "die", "das", "die"),
    "dat": ("dem", "der", "dem", "den"),
    "gen": ("des", "der", "des", "der"),
}
_STRONG = {  # of dies-, jed-
    "nom": ("er", "e", "es", "e"),
    "acc": ("en", "e", "es", "e"),
    "dat": ("em", "er", "em", "en"),
    "gen": ("es", "er", "es", "er"),
}
_WEAK = {
    "nom": ("e", "e", "e", "en"),
    "acc": ("en", "e", "e", "en"),
    "dat": ("en",) * 4,
    "gen": ("en",) * 4,
}
_BARE_PLURAL = {"nom": "e", "acc": "e", "dat": "en"}
_EIN_WORDS = ("kein", "mein", "dein", "sein", "ihr", "Ihr", "unser", "ein")
_CASE_OF_ENDING = {"": "nom", "er": "nom", "en": "acc", "em": "dat", "es": "gen"}
_PRONOUNS = {
    "nom": ("er", "sie", "es"),
    "acc": ("ihn", "sie", "es"),
    "dat": ("ihm", "ihr", "ihm"),
}
_CASE_OF_PRONOUN = {"er": "nom", "ihn": "acc", "ihm": "dat"}
_CONTRACTIONS = {
    "in dem": "im",
    "in das": "ins",
    "an dem": "am",
    "zu dem": "zum",
    "zu der": "zur",
    "bei dem": "beim",
    "von dem": "vom",
}
_CONTRACTED = re.compile(rf"(?<!, )\b({'|'.join(_CONTRACTIONS)})\b(?! des\b)", re.IGNORECASE)
_GERMAN_MODALS = {
    "muss": ("muss", "müssen"),
    "kann": ("kann", "können"),
    "will": ("will", "wollen"),
    "soll": ("soll", "sollen"),
    "darf": ("darf", "dürfen"),
    "fut": ("wird", "werden"),
}
_ENGLISH_MODALS = {"kann": "can", "soll": "should", "darf": "may", "fut": "will"}
_AUXILIARIES = {"haben": ("habe", "hat", "haben"), "sein": ("bin", "ist", "sind")}
_PERSONS = ("1s", "3s", "pl")


@dataclass(frozen=True, slots=True)
class Subject:
    """persons: 1s, 3s or pl, of the finite verb. possessive: its German stem and the English word."""

    german: str
    english: str
    person: str
    english_person: str
    reflexive: str
    possessive: tuple[str, str]


PRONOUNS = {
    "I": Subject("ich", "I", "1s", "1s", "mich", ("mein", "my")),
    "we": Subject("wir", "we", "pl", "pl", "uns", ("unser", "our")),
    "you": Subject("Sie", "you", "pl", "pl", "sich", ("Ihr", "your")),
    "he": Subject("er", "he", "3s", "3s", "sich", ("sein", "his")),
    "she": Subject("sie", "she", "3s", "3s", "sich", ("ihr", "her")),
    "they": Subject("sie", "they", "pl", "pl", "sich", ("ihr", "their")),
}
_SUBJECTS = {  # kind of subject -> pronouns, and kinds of nouns with their determiners
    "human": (
        ("I", "we", "he", "she"),
        (
            ("mein relative", "my relative"),
            ("der traveller", "the traveller"),
            ("ein adj traveller", "a adj traveller"),
        ),
    ),
    "asker": (("I", "I", "we"), (("mein relative", "my relative"),)),
    "crew": (
        ("we", "I"),
        (("der staff", "the staff"), ("der adj staff", "the adj staff"), ("ein staff", "a staff")),
    ),
    "you": (("you",), ()),
    "train": ((), (("der train", "the train"), ("der adj train", "the adj train"), ("dieser train", "this train"))),
}


@dataclass(slots=True)
class Sentence:
    """The choices for one pattern. combinations: pairs of words that stand together, for `railway_talk`."""

    rng: random.Random
    name: str
    choices: dict[str, object] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    combinations: set[tuple[str, str]] = field(default_factory=set)

    def choose(self, name: str, make: Callable[[], Noun | Adjective | Phrase | Act]) -> object:
        """One choice for each name, and no word twice in a sentence."""
        if name not in self.choices:
            word = make()
            while word.key in self.used:
                word = make()
            self.used.add(word.key)
            self.choices[name] = word
        return self.choices[name]


@dataclass(frozen=True, slots=True)
class Scope:
    """Where slots are resolved: the sentence, or an act within it. prefix: of the names of its choices."""

    sentence: Sentence
    prefix: str
    place: str  # the pattern or the act, as a part of combinations
    subject: Subject | None = None

    def text(self, template: str, language: str) -> str:
        resolve = self._german if language == "de" else self._english

        def filled(match: re.Match[str]) -> str:
            text = resolve(match[2])
            return text[0].upper() + text[1:] if match[1] else text

        return _SLOT.sub(filled, template)

    def noun(self, name: str) -> Noun:
        kind = name.rstrip("0123456789")
        word = self.sentence.choose(self.prefix + name, lambda: self.sentence.rng.choice(NOUNS[kind]))
        assert isinstance(word, Noun)
        self.sentence.combinations.add((self.place, word.key))
        return word

    def adjective(self, name: str, *, predicative: bool = False) -> Adjective:
        noun, kind = self.noun(name), name.rstrip("0123456789")
        suitable = [word for word in ADJECTIVES[kind] if word.predicative or not predicative]
        word = self.sentence.choose(f"{self.prefix}adj:{name}", lambda: self.sentence.rng.choice(suitable))
        assert isinstance(word, Adjective)
        self.sentence.combinations.add((word.key, noun.key))
        return word

    def phrase(self, name: str) -> Phrase:
        kind = name.rstrip("0123456789")
        make = _NUMBERS.get(kind)
        if make:
            earlier = self.sentence.choices.get(self.prefix + kind)
            least = earlier.key if kind != name and isinstance(earlier, Phrase) else ""
            word = self.sentence.choose(self.prefix + name, lambda: make(self.sentence.rng, least))
        else:
            word = self.sentence.choose(self.prefix + name, lambda: self.sentence.rng.choice(PHRASES[kind]))
        assert isinstance(word, Phrase)
        return word

    def subject_of(self, name: str) -> Subject:
        """A pronoun by its English name, a kind of subject, or a noun that was chosen before."""
        if name in PRONOUNS and name != "you":
            return PRONOUNS[name]
        kind, key = name.rstrip("0123456789"), f"{self.prefix}subject:{name}"
        if key not in self.sentence.choices:
            rng = self.sentence.rng
            pronouns, phrases = _SUBJECTS[kind]
            free = [pronoun for pronoun in pronouns if pronoun not in self.sentence.used]
            if free and (not phrases or rng.random() < 0.5):
                pronoun = rng.choice(free)
                self.sentence.used.add(pronoun)
                self.sentence.choices[key] = PRONOUNS[pronoun]
            else:
                german, english = rng.choice(phrases)
                number = f"{name[len(kind) :]}0"  # a noun of its own
                noun = self.noun(german.split()[-1] + number)
                possessive = {"m": ("sein", "his"), "f": ("ihr", "her"), "n": ("sein", "its")}[noun.gender]
                texts = [self.text(f"{{{text}{number}}}", lang) for text, lang in ((german, "de"), (english, "en"))]
                self.sentence.choices[key] = Subject(texts[0], texts[1], "3s", "3s", "sich", possessive)
        subject = self.sentence.choices[key]
        assert isinstance(subject, Subject)
        return subject

    def act(self, name: str) -> tuple[Act, str]:
        kind = name.rstrip("0123456789")
        word = self.sentence.choose(self.prefix + name, lambda: self.sentence.rng.choice(ACTS[kind]))
        assert isinstance(word, Act)
        self.sentence.combinations.add((self.place, word.key))
        return word, f"{self.prefix}{name}/"

    def _around(self, name: str, subject: Subject, language: str) -> tuple[Act, list[str]]:
        """An act and the words beside its verb."""
        act, prefix = self.act(name)
        inner = Scope(self.sentence, prefix, act.key, subject)
        return act, [inner.text(act.german if language == "de" else act.english, language)]

    def _german(self, slot: str) -> str:
        head, *rest = slot.split()
        form, _, tense = head.partition(":")
        if form in ("main", "front", "sub"):
            return self._german_clause(form, tense, self.subject_of(rest[0]), rest[1])
        if form == "rel":
            noun = self.noun(rest[0])
            pronoun = _ARTICLES["nom"]["mfn".index(noun.gender)]
            possessive = ("ihr", "her") if noun.gender == "f" else ("sein", "his")
            return self._german_clause("sub", tense, Subject(pronoun, "", "3s", "3s", "sich", possessive), rest[1])
        if form in ("zu", "inf", "imp"):
            act, around = self._around(rest[0], PRONOUNS[tense or "you"], "de")
            verb = act.german_verb
            if form == "imp":
                return _joined([verb.infinitive, "Sie", *around, verb.prefix])
            whole = f"{verb.prefix}zu{verb.infinitive}" if verb.prefix else f"zu {verb.infinitive}"
            return _joined([*around, whole if form == "zu" else verb.prefix + verb.infinitive])
        if head == "sich":
            assert self.subject is not None
            return self.subject.reflexive
        if not rest:
            return self.phrase(head).german
        name, plural = rest[-1].removesuffix(".pl"), rest[-1].endswith(".pl")
        if head == "pred":
            return self.adjective(name, predicative=True).german
        noun = self.noun(name)
        if head in _CASE_OF_PRONOUN:
            return _PRONOUNS[_CASE_OF_PRONOUN[head]]["mfn".index(noun.gender)]
        if head.startswith("sein") and self.subject:
            head = self.subject.possessive[0] + head.removeprefix("sein")
        stem = ""
        if len(rest) == 2:
            stem = rest[0][1:] if rest[0].startswith("=") else self.adjective(name).stem
        return _german_noun_phrase(head, stem, noun, plural)

    def _german_clause(self, form: str, tense: str, subject: Subject, name: str) -> str:
        act, around = self._around(name, subject, "de")
        verb, person = act.german_verb, _PERSONS.index(subject.person)
        whole = verb.prefix + verb.infinitive
        if tense == "pres":
            finite, final = verb.present(subject.person), [verb.prefix]
            if form == "sub":
                return _joined([subject.german, *around, verb.prefix + finite])
        elif tense == "past":
            finite, final = _AUXILIARIES[verb.auxiliary][person], [verb.participle]
        else:
            singular, plural = _GERMAN_MODALS[tense]
            finite, final = plural if subject.person == "pl" else singular, [whole]
            if tense == "fut" and subject.person == "1s":
                finite = "werde"
        if form == "sub":
            return _joined([subject.german, *around, *final, finite])
        start = [subject.german, finite] if form == "main" else [finite, subject.german]
        return _joined([*start, *around, *final])

    def _english(self, slot: str) -> str:
        head, *rest = slot.split()
        form, _, tense = head.partition(":")
        if form in ("main", "q"):
            return self._english_clause(form, tense, self.subject_of(rest[0]), rest[1])
        if form == "rel":
            noun = self.noun(rest[0])
            people = {"staff", "traveller", "relative"}
            possessive = ("", "her" if noun.gender == "f" else "his")
            pronoun = "who" if people.intersection(noun.kinds) else "that"
            return self._english_clause("main", tense, Subject("", pronoun, "3s", "3s", "", possessive), rest[1])
        if form in ("to", "base", "ing"):
            act, around = self._around(rest[0], PRONOUNS[tense or "you"], "en")
            verb = {"to": f"to {act.english_verb.base}", "base": act.english_verb.base, "ing": act.english_verb.gerund}
            return _joined([verb[form], *around])
        if not rest:
            return self.phrase(head).english
        name, plural = rest[-1].removesuffix(".pl"), rest[-1].endswith(".pl")
        if head == "pred":
            return self.adjective(name, predicative=True).english
        if head == "he":
            return "she" if self.noun(name).gender == "f" else "he"
        words = [self.adjective(name).english if word == "adj" else word for word in rest[:-1]]
        words.append(self.noun(name).english[plural])
        if head == "his" and self.subject:
            head = self.subject.possessive[1]
        if head == "a" and words[0][0] in "aeiou":
            head = "an"
        if head == "this" and plural:
            head = "these"
        return " ".join(words if head == "-" else [head, *words])

    def _english_clause(self, form: str, tense: str, subject: Subject, name: str) -> str:
        act, around = self._around(name, subject, "en")
        verb, person = act.english_verb, subject.english_person
        denied = ["not"] * act.negated
        if verb.base == "be" and tense in ("pres", "past"):
            singular, first, plural = ("is", "am", "are") if tense == "pres" else ("was", "was", "were")
            auxiliary, rest = {"3s": singular, "1s": first, "pl": plural}[person], denied
        elif tense in _ENGLISH_MODALS:
            auxiliary, rest = _ENGLISH_MODALS[tense], [*denied, verb.base]
        else:
            does = "does" if person == "3s" else "do"
            if tense in ("muss", "will"):
                have = {"muss": ("have", "has"), "will": ("want", "wants")}[tense]
                plain, auxiliary, rest = [have[person == "3s"], "to", verb.base], does, [have[0], "to", verb.base]
            elif tense == "past":
                plain, auxiliary, rest = [verb.past], "did", [verb.base]
            else:
                plain, auxiliary, rest = [verb.present(person)], does, [verb.base]
            if form == "main" and not act.negated:
                return _joined([subject.english, *plain, *around])
            rest = [*denied, *rest]
        start = [auxiliary, subject.english] if form == "q" else [subject.english, auxiliary]
        return _joined([*start, *rest, *around])


def _joined(words: Iterable[str]) -> str:
    return " ".join(word for word in words if word)


def _genitive(noun: Noun) -> str:
    singular = noun.german[0]
    if noun.gender == "f":
        return singular
    if noun.weak:
        return singular + ("n" if singular.endswith(("e", "bar")) else "en")
    short = len(re.findall("[aeiouäöüy]+", singular.lower())) == 1 and singular[-1] not in "lr"
    return singular + ("es" if singular.endswith(("s", "ß", "x", "z")) or (short and singular[-1] != "e") else "s")


def _inflected(noun: Noun, case: str, plural: bool) -> str:
    if plural:
        form = noun.german[1]
        return form + "n" * (case == "dat" and not form.endswith(("n", "s")))
    if case == "gen":
        return _genitive(noun)
    if noun.weak and case != "nom":
        return _genitive(noun)
    return noun.german[0]


def _german_noun_phrase(determiner: str, stem: str, noun: Noun, plural: bool) -> str:
    """determiner: in its masculine form. stem: of an adjective, or ''."""
    column = 3 if plural else "mfn".index(noun.gender)
    if determiner in _BARE_PLURAL:
        case, form, ending = determiner, "", _BARE_PLURAL[determiner]
    elif determiner in _DEFINITE:
        case = _DEFINITE[determiner]
        form, ending = _ARTICLES[case][column], _WEAK[case][column]
    else:
        base = next((word for word in _EIN_WORDS if determiner.startswith(word)), "")
        if base:
            case = _CASE_OF_ENDING[determiner.removeprefix(base)]
            bare = (case == "nom" and column in (0, 2)) or (case == "acc" and column == 2)
            form = base + ("" if bare else _STRONG[case][column])
            ending = _STRONG[case][column] if bare else _WEAK[case][column]
        else:
            case = _CASE_OF_ENDING[determiner[-2:]]
            form, ending = determiner[:-2] + _STRONG[case][column], _WEAK[case][column]
    return _joined([form, stem + ending if stem else "", _inflected(noun, case, plural)])


def _time(rng: random.Random, after: str) -> Phrase:
    """Of the day. after: an earlier time, by an hour or more, or ''; times in words are those of the morning."""
    if not after and rng.random() < 0.4:
        hour, part = rng.randrange(6, 12), rng.choice(("half", "past", "to", "full"))
        name, following = _HOURS[hour], _HOURS[hour + 1]
        return {
            "half": Phrase(f"halb {following.german}", f"half past {name.english}"),
            "past": Phrase(f"Viertel nach {name.german}", f"a quarter past {name.english}"),
            "to": Phrase(f"Viertel vor {following.german}", f"a quarter to {following.english}"),
            "full": Phrase(f"{name.german} Uhr", f"{name.english} o'clock"),
        }[part]
    first = int(after[:2]) * 60 + int(after[3:5]) + 60 if after[:1].isdigit() else (13 if after else 5) * 60
    hour, minute = divmod(rng.randrange(first, 24 * 60 if after else 22 * 60), 60)
    return Phrase(f"{hour:02}.{minute:02} Uhr", f"{hour:02}:{minute:02}")


_HOURS = {
    6: Phrase("sechs", "six"),
    7: Phrase("sieben", "seven"),
    8: Phrase("acht", "eight"),
    9: Phrase("neun", "nine"),
    10: Phrase("zehn", "ten"),
    11: Phrase("elf", "eleven"),
    12: Phrase("zwölf", "twelve"),
}
_MONTHS = (
    Phrase("Januar", "January"),
    Phrase("Februar", "February"),
    Phrase("März", "March"),
    Phrase("April", "April"),
    Phrase("Mai", "May"),
    Phrase("Juni", "June"),
    Phrase("Juli", "July"),
    Phrase("August", "August"),
    Phrase("September", "September"),
    Phrase("Oktober", "October"),
    Phrase("November", "November"),
    Phrase("Dezember", "December"),
)


def _date(rng: random.Random, after: str) -> Phrase:
    first = 0
    if after:
        day, month = after.split(". ")
        first = date(2027, [name.german for name in _MONTHS].index(month) + 1, int(day)).timetuple().tm_yday
    drawn = date(2027, 1, 1) + timedelta(days=rng.randrange(first, 365) if first < 365 else 0)
    name = _MONTHS[drawn.month - 1]
    return Phrase(f"{drawn.day}. {name.german}", f"{drawn.day} {name.english}")


def _price(rng: random.Random, after: str) -> Phrase:
    """after: a price that is higher."""
    top = int(re.split(r"\D", after)[0]) if after else 140
    euros, cents = rng.randrange(2, max(3, top)), rng.choice(("", "", "50", "80", "90"))
    if not cents:
        return Phrase(f"{euros} Euro", f"{euros} euros")
    return Phrase(f"{euros},{cents} Euro", f"{euros}.{cents} euros")


def _plain_number(low: int, high: int) -> Callable[[random.Random, str], Phrase]:
    def draw(rng: random.Random, after: str) -> Phrase:
        number = str(rng.randrange(low, high))
        return Phrase(number, number)

    return draw


def _letter(rng: random.Random, after: str) -> Phrase:
    letter = rng.choice("ABCDEFG")
    return Phrase(letter, letter)


_NUMBERS: dict[str, Callable[[random.Random, str], Phrase]] = {
    "time": _time,
    "date": _date,
    "price": _price,
    "track": _plain_number(1, 25),
    "number": _plain_number(100, 3000),
    "letter": _letter,
}


def sentence_pair(rng: random.Random, german: str, english: str) -> tuple[str, str, set[tuple[str, str]]]:
    """German, English, and the combinations of words in them, of a pattern with words drawn from `rng`."""
    sentence = Sentence(rng, german)
    scope = Scope(sentence, "", german)
    source, target = (scope.text(text, language) for text, language in ((german, "de"), (english, "en")))
    source = _CONTRACTED.sub(lambda match: _CONTRACTIONS[match[0].lower()], source)
    return _capitalised(source), _capitalised(target), sentence.combinations


def _capitalised(text: str) -> str:
    return text[0].upper() + text[1:]
