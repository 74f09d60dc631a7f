"""Sentences that people try first, in German, English and Spanish: greetings, names, homes, jobs, numbers, dates,
ordering, directions. Drawn from templates with slots (`conversation_*.txt`), written with capitals and punctuation.

Many names, places and things are random strings of letters, the same in both languages, so that a model learns to copy
words that it does not know. The style of a source is that of its translation: a sentence in lower case or without a
full stop is translated into such a sentence."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from training.demo.constructions import Dice
from training.demo.conversation_slots import Draws
from training.demo.lexicon import table_rows, words_of

LANGUAGES = ("de", "en", "es")
MOST_REPEATS = 4
COPYING = 6  # weight of a phrase that is names alone
INTRODUCTIONS = 28  # rows of conversation_verbs.txt
_WORDS = words_of("conversation")
_PERSONS = _WORDS["persons"].split()
_SUBJECTS: dict[str, tuple[str, str, str, int, int]] = _WORDS["subjects"]
_CONTRACTIONS = [(re.compile(rf"\b{full}\b", re.IGNORECASE), short) for full, short in _WORDS["contractions"].items()]
_INTRODUCES = re.compile(r"^(my|I am|this is|I live|I work) .*\{(name|city|job|surname)\}|^(hello|good \w+),? \{name\}")
_COPIES = re.compile(r"(\{\w+\}|and|[ ,])+")
_AN = re.compile(r"\b([Aa]) (?=[aeiouAEIOU](?!ni|uro))")


class Sentence(NamedTuple):
    """Texts by language, without a capital at the start. end: ".", "?" or "!"."""

    de: str
    en: str
    es: str
    end: str


@dataclass(frozen=True, slots=True)
class VerbRow:
    """A row of conversation_verbs.txt: verb forms, and a complement, by language."""

    forms: tuple[tuple[str, ...], ...]
    complements: tuple[str, ...]
    marks: str
    asked: tuple[str, ...]  # question word by language; () for none
    share: int  # of draws that ask this question, in tenths

    @property
    def is_copula(self) -> bool:
        return len(self.forms[1]) > 2 and self.forms[1][0].startswith("am")


@cache
def _verb_rows() -> tuple[VerbRow, ...]:
    rows = []
    for german, english, spanish, complement, marks in table_rows("conversation_verbs.txt"):
        forms = [tuple(german.partition("/")[0].split()), tuple(english.split()), tuple(spanish.split())]
        forms = [tuple(form.replace("_", " ") for form in line) for line in forms]
        marks, *asked = marks.split()
        share = int(marks[-1]) if asked else 0
        parts = tuple(part.strip() for part in complement.split("="))
        rows.append(VerbRow(tuple(forms), parts, marks, tuple(word.replace("_", " ") for word in asked), share))
    return tuple(rows)


@cache
def _phrases() -> tuple[tuple[tuple[str, ...], ...], ...]:
    """By row and language, the alternatives of a text."""
    return tuple(
        tuple(tuple(text.strip() for text in cell.split(" / ")) for cell in row)
        for row in table_rows("conversation_phrases.txt")
    )


@cache
def _drawn_phrases() -> tuple[tuple[tuple[str, ...], ...], ...]:
    """The rows, those with slots twice, those about a person by name, home or job five times, and names alone most."""
    weights = {
        row: COPYING if _COPIES.fullmatch(row[1][0]) else 5 if _INTRODUCES.search(row[1][0]) else 1 + ("{" in row[1][0])
        for row in _phrases()
    }
    return tuple(row for row, weight in weights.items() for _ in range(weight))


@cache
def _openers() -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(row) for row in table_rows("conversation_openers.txt"))


def _joined(*parts: str) -> str:
    return " ".join(part for part in parts if part)


class Conversation:
    """Draws sentence pairs of one direction."""

    def __init__(self, source: str, target: str) -> None:
        self._source, self._target = source, target
        self._dice = Dice(f"conversation: {source} {target}")

    def pairs(self, count: int) -> list[tuple[str, str]]:
        """Each source has one translation, and comes at most MOST_REPEATS times: fixed phrases have few variants."""
        translations: dict[str, str] = {}
        counts: Counter[str] = Counter()
        while counts.total() < count:
            source, target = self._pair()
            translations.setdefault(source, target)
            if counts[source] < MOST_REPEATS:
                counts[source] += 1
        return [(source, translations[source]) for source in counts.elements()]

    def _pair(self) -> tuple[str, str]:
        sentence = self._sentence()
        texts = sentence._asdict()
        return self._styled(texts[self._source], texts[self._target], sentence.end)

    def _sentence(self) -> Sentence:
        drawn = self._dice.random()
        if drawn < 0.6:
            sentence = self._phrase()
        else:
            sentence = self._clause()
            if sentence.end == "." and self._dice.chance(0.4):
                sentence = self._compound(sentence)
        if self._dice.chance(0.24):
            return self._opened(sentence)
        return sentence

    def _opened(self, sentence: Sentence) -> Sentence:
        opener = self._dice.pick(_openers())
        if sentence.end != "." and opener[0] in ("ich glaube", "natürlich", "es tut mir leid", "alles klar"):
            return sentence
        texts = Draws(self._dice, self._source).filled(opener)
        links = (",", "" if opener[0] == "ich glaube" else ",", "" if opener[0] == "ich glaube" else ",")
        bodies = (sentence.de, sentence.en, self._marked(sentence.es, sentence.end))
        joined = [f"{text}{link} {body}" for text, link, body in zip(texts, links, bodies, strict=True)]
        return Sentence(joined[0], joined[1], joined[2], sentence.end)

    def _phrase(self) -> Sentence:
        """A row of conversation_phrases.txt: any alternative as the source, the first as the translation."""
        row = self._dice.pick(_drawn_phrases())
        chosen = [
            self._dice.pick(cell) if language == self._source else cell[0]
            for language, cell in zip(LANGUAGES, row, strict=True)
        ]
        end = chosen[LANGUAGES.index(self._source)][-1]
        end = end if end in ".?!" else ""
        texts = [text.rstrip(".!?") for text in Draws(self._dice, self._source).filled(chosen)]
        return Sentence(texts[0], texts[1], texts[2], end)

    def _clause(self) -> Sentence:
        """A verb and its complement as a statement, a denial or a question."""
        row = self._verb_row()
        draws = Draws(self._dice, self._source)
        person = self._dice.pick(_PERSONS)
        if "x" in row.marks and person in ("ich", "du", "wir", "Sie"):  # 'my name is', of conversation_phrases.txt
            person = "sub_s"
        if self._dice.chance(row.share / 10):
            person = self._dice.pick(("du", "du", "Sie", "er", "sub_s", "sub_p"))
            return self._question(row, draws, person, row.asked)
        if person == "Sie" or ("q" in row.marks and self._dice.chance(0.2)):
            if "q" in row.marks:
                return self._question(row, draws, "du" if person == "ich" else person, ())
            person = "ich"
        denied = "n" in row.marks and self._dice.chance(0.15)
        return self._statement(row, draws, person, "nicht" if denied else "")

    def _verb_row(self) -> VerbRow:
        """Homes, jobs, origins and ages, which the first rows are about, in every second draw."""
        rows = _verb_rows()
        return self._dice.pick(rows[:INTRODUCTIONS] if self._dice.chance(0.45) else rows)

    def _verb(self, row: VerbRow, person: str) -> tuple[str, str, str]:
        *_, german, spanish = _SUBJECTS[person]
        if row.is_copula:
            english = row.forms[1][{"ich": 0, "er": 2, "sie": 2, "sub_s": 2, "name": 2}.get(person, 1)]
        else:
            english = row.forms[1][1 if german == 2 else 0]
        return row.forms[0][german], english, row.forms[2][spanish]

    def _spanish_subject(self, text: str, verb: str, person: str) -> str:
        """'a mi hermano le gusta'; the first person needs no 'a mí'."""
        if " gusta" not in verb:
            return text
        return "" if person in ("ich", "du", "wir", "Sie") else f"a {text}"

    def _progressive(self, row: VerbRow, person: str) -> str:
        """'am going': as an English source often, as a translation where that is usual."""
        if len(row.forms[1]) < 3 or row.is_copula:
            return ""
        usual = "p" in row.marks
        if not (usual if self._source == "de" else self._dice.chance(0.6 if usual else 0.25)):
            return ""
        be = "am" if person == "ich" else "is" if person in ("er", "sie", "sub_s", "name") else "are"
        return f"{be} {row.forms[1][2]}"

    def _statement(self, row: VerbRow, draws: Draws, person: str, denied: str = "", because: bool = False) -> Sentence:
        german, english, spanish, *_ = _SUBJECTS[person]
        verbs = self._verb(row, person)
        progressive = self._progressive(row, person)
        verb = progressive or verbs[1]
        if denied and (row.is_copula or progressive):
            be, _, rest = verb.partition(" ")
            verb = _joined(be, "not", rest)
        elif denied:
            does = "does" if verbs[1] != row.forms[1][0] else "do"
            verb = f"{does} not {row.forms[1][0]}"
        complements = row.complements
        middle = (complements[0], verbs[0]) if because else (verbs[0], denied, complements[0])
        texts = draws.filled(
            (
                _joined(german, *middle),
                _joined(english, verb, complements[1]),
                _joined(
                    self._spanish_subject(spanish, verbs[2], person), "no" if denied else "", verbs[2], complements[2]
                ),
            ),
            feminine={"sie": True, "er": False}.get(person),
            plural=person in ("wir", "they", "sub_p"),
        )
        return Sentence(texts[0], texts[1], texts[2], ".")

    def _question(self, row: VerbRow, draws: Draws, person: str, asked: Sequence[str]) -> Sentence:
        german, english, spanish, *_ = _SUBJECTS[person]
        verbs = self._verb(row, person)
        complements = ("", "", "") if asked else row.complements
        progressive = self._progressive(row, person)
        if row.is_copula or progressive:
            be, _, rest = (progressive or verbs[1]).partition(" ")
            question = _joined(be, english, rest)
        else:
            does = "does" if person in ("er", "sie", "sub_s", "name") else "do"
            question = _joined(does, english, row.forms[1][0])
        words = tuple(asked) or ("", "", "")
        if person in ("du", "Sie"):
            spanish = ""
        texts = draws.filled(
            (
                _joined(words[0], verbs[0], german, complements[0]),
                _joined(words[1], question, complements[1]),
                _joined(words[2], self._spanish_subject("", verbs[2], "du"), verbs[2], spanish, complements[2])
                if asked
                else _joined(self._spanish_subject(spanish, verbs[2], person), verbs[2], complements[2]),
            ),
            feminine={"sie": True, "er": False}.get(person),
            plural=person in ("wir", "they", "sub_p"),
        )
        return Sentence(texts[0], texts[1], texts[2], "?")

    def _compound(self, first: Sentence) -> Sentence:
        """Two statements with and, but or because; a second 'I' may be left out."""
        link = self._dice.pick((*(("und", "and", "y"),) * 5, ("aber", "but", "pero"), ("weil", "because", "porque")))
        row = self._verb_row()
        subject = first.de.split()[0]
        person = subject if subject in ("ich", "wir", "er") else self._dice.pick(("ich", "wir", "er", "sub_s"))
        if "x" in row.marks:
            person = "sub_s"
        second = self._statement(row, Draws(self._dice, self._source), person, because=link[0] == "weil")
        german, english, spanish = second.de, second.en, second.es
        if link[0] == "und" and person == subject and not spanish.startswith("a ") and self._dice.chance(0.6):
            german, english = german.partition(" ")[2], english.partition(" ")[2]
        if person == subject == "er":
            spanish = spanish.removeprefix("él ")
        comma = "," if link[0] != "und" else ""
        y = "e" if link[2] == "y" and re.match(r"h?i(?!e)", spanish) else link[2]
        return Sentence(
            f"{first.de}{comma} {link[0]} {german}",
            f"{first.en}{',' if link[0] == 'aber' else ''} {link[1]} {english}",
            f"{first.es}{',' if link[0] == 'aber' else ''} {y} {spanish}",
            ".",
        )

    def _marked(self, spanish: str, end: str) -> str:
        """With the opening mark of a question or an exclamation."""
        return {"?": "¿", "!": "¡"}.get(end, "") + spanish

    def _styled(self, source: str, target: str, end: str) -> tuple[str, str]:
        """Capitals and punctuation; sometimes without."""
        if self._source == "en":
            source = _with_contractions(source, self._dice)
        texts = [
            _AN.sub(r"\1n ", text) if code == "en" else text
            for code, text in ((self._source, source), (self._target, target))
        ]
        ends = [end, end]
        style = self._dice.random()
        if end == "." and style > 0.97:
            ends = ["!", "!"]
        elif style > 0.90:
            ends = ["", ""]
        marked = [
            self._marked(text, final) if code == "es" and not text.count("¿") + text.count("¡") else text
            for code, text, final in zip((self._source, self._target), texts, ends, strict=True)
        ]
        if ends == ["", ""]:
            marked = [text.replace("¿", "").replace("¡", "") for text in marked]
        lines = [text + final for text, final in zip(marked, ends, strict=True)]
        if self._dice.chance(0.08):
            return lines[0].lower(), lines[1].lower()
        return capitalised(lines[0]), capitalised(lines[1])


def _with_contractions(text: str, dice: Dice) -> str:
    for full, short in _CONTRACTIONS:
        if dice.chance(0.4):
            text = full.sub(short, text)
    return text


def capitalised(text: str) -> str:
    """With a capital after opening marks."""
    at = next((i for i, character in enumerate(text) if character.isalnum()), 0)
    return text[:at] + text[at : at + 1].upper() + text[at + 1 :]


def pattern_count() -> int:
    """Phrases with slots, and verbs with their complements."""
    return len(_phrases()) + len(_verb_rows())


def pairs(source: str, target: str, count: int) -> list[tuple[str, str]]:
    return Conversation(source, target).pairs(count)
