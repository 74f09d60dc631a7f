"""Fills the slots of conversation templates: the same draw in all languages, each in its form.

A slot is {class} or {class.form}; the n-th slot of a class in a text is the n-th draw of this class."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from training.demo.constructions import Dice
from training.demo.lexicon import demo_text, table_rows, words_of

_SLOT = re.compile(r"\{([a-z_]+?)(?:\.([a-z_0-9]+?))?2?\}")
_WORDS = words_of("slots")
_UNKNOWN_NOUNS = 0.06  # of things, dishes, places
_ONSETS, _VOWELS = _WORDS["onsets"].split(), _WORDS["vowels"].split()
_CODAS = ["", "", "", *_WORDS["codas"].split()]


class Entry(NamedTuple):
    """What a slot stands for. texts: German, English and Spanish, each with its forms."""

    texts: tuple[tuple[str, ...], ...]


class NounEntry(NamedTuple):
    """gender: of German and of Spanish. singular, plural: by language; - where there is none."""

    genders: tuple[str, str]
    singular: tuple[str, str, str]
    plural: tuple[str, str, str]


@cache
def table_sections(name: str) -> dict[str, tuple[Entry, ...]]:
    """The rows below each [section]."""
    sections: dict[str, list[Entry]] = {}
    rows: list[Entry] = []
    for line in demo_text(name).splitlines():
        if line.startswith("["):
            rows = sections.setdefault(line.strip("[]"), [])
        elif not line.startswith("#"):
            rows.append(Entry(tuple(tuple(cell.strip().split("~")) for cell in line.split("|"))))
    return {section: tuple(entries) for section, entries in sections.items()}


@cache
def nouns() -> dict[str, tuple[NounEntry, ...]]:
    """Nouns by kind."""
    found: dict[str, list[NounEntry]] = {}
    for german, english, spanish, kinds in table_rows("conversation_nouns.txt"):
        gender, *own = german.split()
        gender_es, *spanish_forms = spanish.split()
        lines = [[form.replace("_", " ") for form in forms] for forms in (own, english.split(), spanish_forms)]
        entry = NounEntry(
            (gender, gender_es), (lines[0][0], lines[1][0], lines[2][0]), (lines[0][1], lines[1][1], lines[2][1])
        )
        for kind in kinds.split():
            found.setdefault(kind, []).append(entry)
    return {kind: tuple(entries) for kind, entries in found.items()}


@cache
def _whole_words() -> tuple[str, ...]:
    """Words of all three languages, in lower case."""
    texts = demo_text("conversation_words.txt"), demo_text("conversation_nouns.txt"), demo_text("nouns.txt")
    words = re.findall(r"[^\W\d_]{4,}", "\n".join(texts).lower())
    return tuple(dict.fromkeys(word for word in words if not re.search(r"[\u4e00-\u9fff]", word)))


def random_word(dice: Dice) -> str:
    """Letters that are no word: the beginning and the end of two words, syllables, or any letters. Of the first kind
    most, so that each piece of the vocabulary is copied somewhere."""
    if dice.chance(0.5):
        first, last = dice.pick(_whole_words()), dice.pick(_whole_words())
        middle = dice.pick(_whole_words())[1:4] if dice.chance(0.3) else ""
        beginning = first[: 2 + int(dice.random() * 4)]
        return f"{beginning}{middle}{last[-2 - int(dice.random() * 4) :]}".capitalize()
    if dice.chance(0.2):
        return "".join(
            dice.pick("abcdefghijklmnopqrstuvwxyzäöüé") for _ in range(2 + int(dice.random() * 6))
        ).capitalize()
    syllables = 1 + int(dice.random() * 3)
    word = "".join(dice.pick(_ONSETS) + dice.pick(_VOWELS) + dice.pick(_CODAS) for _ in range(syllables))
    return word.capitalize()


def _digits(dice: Dice, least: int, most: int) -> str:
    return str(least + int(dice.random() * (most - least + 1)))


def _clock_time(dice: Dice) -> str:
    minutes = dice.pick(("00", "05", "10", "15", "20", "25", "30", "40", "45", "50", _digits(dice, 10, 59)))
    return f"{_digits(dice, 2, 23)}:{minutes}"


def _number(dice: Dice) -> str:
    return _digits(dice, *dice.pick(((2, 9), (10, 99), (10, 99), (100, 999), (1000, 9999))))


def _same(text: str) -> tuple[str, str, str]:
    return text, text, text


def _price(dice: Dice) -> tuple[str, str, str]:
    whole, cents = _digits(dice, 2, 99), dice.pick(("50", "20", "90", "99", "80", _digits(dice, 10, 98)))
    return f"{whole},{cents}", f"{whole}.{cents}", f"{whole},{cents}"


def _mail(dice: Dice) -> tuple[str, str, str]:
    parts = (random_word(dice).lower() for _ in range(2))
    return _same("@".join(parts) + dice.pick(_WORDS["mail_ends"]))


def _phone(dice: Dice) -> tuple[str, str, str]:
    groups = [_digits(dice, 0, 10 ** (2 + int(dice.random() * 5))) for _ in range(1 + int(dice.random() * 3))]
    return _same(dice.pick(("", "0", "+49 ", "+34 ")) + " ".join(groups))


def _full_date(dice: Dice) -> tuple[str, str, str]:
    return _same(f"{_digits(dice, 1, 31):0>2}.{_digits(dice, 1, 12):0>2}.{_digits(dice, 1950, 2030)}")


_TEXT_SLOTS: dict[str, Callable[[Dice], tuple[str, str, str]]] = {
    "digits": lambda dice: _same(_number(dice)),
    "age": lambda dice: _same(_digits(dice, 2, 99)),
    "date": lambda dice: _same(_digits(dice, 1, 31)),
    "hour": lambda dice: _same(_digits(dice, 2, 12)),
    "late": lambda dice: _same(_digits(dice, 13, 23)),
    "house": lambda dice: _same(_digits(dice, 1, 199)),
    "year": lambda dice: _same(_digits(dice, 1940, 2030)),
    "time": lambda dice: _same(_clock_time(dice)),
    "price": _price,
    "mail": _mail,
    "phone": _phone,
    "street": lambda dice: _same(random_word(dice) + dice.pick(_WORDS["streets"])),
    "fulldate": _full_date,
}


def _noun_text(noun: NounEntry, form: str, language: int) -> str:
    if form == "pl":
        return noun.plural[language]
    if form == "the_pl":
        spanish = "los" if noun.genders[1].startswith("m") else "las"
        return f"{('die', 'the', spanish)[language]} {noun.plural[language]}"
    singular = noun.singular[language]
    if language == 0:
        return f"{_WORDS['german'][form]['mfn'.index(noun.genders[0])]} {singular}".strip()
    if language == 1:
        return f"{_WORDS['english'].get(form, 'the')} {singular}".strip()
    feminine, stressed = noun.genders[1][0] == "f", noun.genders[1] == "fa"
    if form == "this":
        return "esta" if feminine else "este"
    if form == "nearest":
        return f"{'la' if feminine else 'el'} {singular} más {'cercana' if feminine else 'cercano'}"
    article = _WORDS["spanish"][form][feminine and not (stressed and form in ("the", "a", "del", "to_the"))]
    return f"{article} {singular}".strip()


def _agreeing(spanish: str, feminine: bool, plural: bool) -> str:
    """A Spanish adjective, given in the masculine singular."""
    if feminine and spanish.endswith(("o", "dor")):
        spanish = spanish[:-1] + "a" if spanish.endswith("o") else spanish + "a"
    if not plural:
        return spanish
    if spanish == "joven":
        return "jóvenes"
    return spanish + ("s" if spanish[-1] in "aeo" else "es")


class Draws:
    """The draws of one sentence. source: the language of the source; in an English one no gender is visible."""

    def __init__(self, dice: Dice, source: str) -> None:
        self._dice, self._source = dice, source
        self._drawn: dict[tuple[str, int], Entry | NounEntry] = {}
        self._feminine = False
        self._plural = False

    def filled(self, texts: Sequence[str], feminine: bool | None = None, plural: bool = False) -> tuple[str, ...]:
        """The German, English and Spanish text. feminine, plural: of the subject, for adjectives and jobs."""
        self._plural = plural
        self._feminine = self._dice.chance(0.5) and self._source == "de" if feminine is None else feminine
        known = feminine is not None
        if not known:
            for text in texts:
                if subject := re.match(r"\{(sub_s|sub_p|\w+)(?:\.(?:nom_\w+|the))?\}", text):
                    self._take_gender(subject[1])
                    break
                if relative := re.match(r"mein(e?) \{relative", text):
                    self._feminine = bool(relative[1])
                    break
        return tuple(self._text(text, language) for language, text in enumerate(texts))

    def _take_gender(self, slot: str) -> None:
        entry = self._draw(slot, 1)
        if isinstance(entry, NounEntry):
            self._feminine = entry.genders[1].startswith("f")
        elif slot in ("sub_s", "sub_p"):
            self._feminine = entry.texts[2][-1] == "f"
        else:
            self._feminine = False

    def _text(self, text: str, language: int) -> str:
        counts: dict[str, int] = {}

        def value(match: re.Match[str]) -> str:
            slot, form = match[1], match[2] or ""
            if form != "this":
                counts[slot] = counts.get(slot, 0) + 1
            return self._value(slot, form, max(1, counts.get(slot, 1)), language)

        return _SLOT.sub(value, text)

    def _draw(self, slot: str, number: int) -> Entry | NounEntry:
        key = slot, number
        if key not in self._drawn:
            self._drawn[key] = self._new(slot)
        return self._drawn[key]

    def _new(self, slot: str) -> Entry | NounEntry:
        dice = self._dice
        if slot in _TEXT_SLOTS:
            return Entry(tuple((text,) for text in _TEXT_SLOTS[slot](dice)))
        if slot in nouns():
            if slot in ("thing", "dish", "town", "event", "drink") and dice.chance(_UNKNOWN_NOUNS):
                return self._unknown_noun()
            return dice.pick(nouns()[slot])
        if dice.chance(_WORDS["unknown_shares"].get(slot, 0.0)):
            word = random_word(dice)
            return Entry(((word,), (word,), (word,)))
        return self._filled_entry(dice.pick(_entries(slot)))

    def _unknown_noun(self) -> NounEntry:
        """A thing of no known word; of an English source the gender is taken for masculine."""
        word = random_word(self._dice)
        if self._source == "en" and self._dice.chance(0.6):
            word = word.lower()
        gender = self._dice.pick("mfn") if self._source == "de" else "m"
        return NounEntry((gender, "f" if gender == "f" else "m"), (word, word, word), (word, word, word))

    def _filled_entry(self, entry: Entry) -> Entry:
        """An entry may have slots of its own."""
        if not any("{" in form for forms in entry.texts for form in forms):
            return entry
        firsts = Draws(self._dice, self._source)
        return Entry(
            tuple(tuple(firsts._text(form, language) for form in forms) for language, forms in enumerate(entry.texts))
        )

    def _value(self, slot: str, form: str, number: int, language: int) -> str:
        if slot in ("day_s", "day_pl"):
            day = self._value("day", "", 1, language)
            return (day.lower() + "s") if slot == "day_s" else day if day.endswith("s") else day + "s"
        entry = self._draw(slot, number)
        if isinstance(entry, NounEntry):
            return _noun_text(entry, form, language)
        forms = entry.texts[language]
        if slot in ("hobby_verb",):
            return forms[1] if language == 0 and form == "noun" else self._hobby(entry, form, language)
        if slot == "job":
            return forms[self._feminine and len(forms) > 1]
        if slot in _WORDS["agreeing"].split() and language == 2:
            return _agreeing(forms[0], self._feminine, self._plural)
        return forms[0]

    def _hobby(self, entry: Entry, form: str, language: int) -> str:
        return entry.texts[language][int(form) if language < 2 and form.isdigit() else 0]


@cache
def _entries(slot: str) -> tuple[Entry, ...]:
    sections = table_sections("conversation_words.txt")
    if slot in ("relative_m", "relative_f"):
        return tuple(
            Entry(((entry.texts[0][0],), entry.texts[1], (entry.texts[2][0],)))
            for entry in sections["relative"]
            if entry.texts[0][1] == slot[-1]
        )
    return sections[slot]
