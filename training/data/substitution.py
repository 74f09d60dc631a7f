"""Makes new lines from those of the corpus `everyday`: another noun or adjective of the dictionary takes the place of
one in the line, in all four languages at once, so that a model learns the dictionary's words in sentences.

A word is exchanged where it stands once in each text of the line in the same number, and its successor agrees as it
did: nouns of one German and one Spanish gender, which have no other form in any case of their number; adjectives as
they stand in predicates. Some nouns give way to a word of no language or to a number, which is the same in all texts:
so a model learns to copy what it does not know, the stand-ins of the server (`models.stand_ins`) among it."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from training.config.shipped_corpora import ROOT

Texts = tuple[str, ...]
"""The cells of one line or entry: English, German, Spanish, Chinese."""
COPIED_SHARE = 0.25  # of the exchanged nouns, for a word that is copied
_WORD = re.compile(r"[\w'’-]+")
_VOWEL = re.compile(r"[aeiou]", re.IGNORECASE)
# Chinese counts nouns with words that suit some of them alone; only the general 个 may stand before an exchanged one.
_MEASURE_WORDS = "只条张把辆本件位名间家座台部块片杯瓶双套棵朵支根颗封份场节门所艘架匹头口幅顿"
_ONSETS = ["B", "Br", "D", "Dr", "F", "Fl", "G", "K", "Kl", "L", "M", "N", "P", "R", "S", "St", "T", "Tr", "V", "W"]
_SYLLABLES = ["a", "an", "ar", "e", "el", "en", "i", "in", "is", "o", "or", "u", "um"]
_INNER = ["b", "d", "f", "g", "k", "l", "m", "n", "r", "s", "t", "v", "nd", "lt", "rk", "st"]


class Word(NamedTuple):
    """A form of an entry. agreement: what a successor must have in common with it. forms: of each language."""

    agreement: tuple[str, ...]
    forms: Texts


def substituted(lines: Sequence[Texts], entries: Iterable[Sequence[str]], seed: int, each: int = 1) -> list[Texts]:
    """Up to `each` new lines for every line that has a word to exchange; words that came least often come next.
    entries: rows of the dictionary, (kind, en, de, es, zh, forms)."""
    dice = random.Random(f"substitution {seed}")
    words = [word for entry in entries for word in _words(entry)]
    by_english, by_agreement = defaultdict[str, list[Word]](list), defaultdict[tuple[str, ...], list[Word]](list)
    for word in words:
        by_english[word.forms[0]].append(word)
        by_agreement[word.agreement].append(word)
    draws = {agreement: _shuffled_forever(some, dice) for agreement, some in by_agreement.items()}
    made = []
    for line in lines:
        tokens = [_WORD.findall(text) for text in line[:3]]
        found = [word for token in dict.fromkeys(tokens[0]) for word in by_english.get(token, ())]
        found = [word for word in found if _stands_once(word, line, tokens)]
        for word in dice.sample(found, min(each, len(found))):
            copied = word.agreement[0] == "noun" and dice.random() < COPIED_SHARE
            other = (_invented(dice),) * 4 if copied else next(draws[word.agreement]).forms
            if other != word.forms:
                made.append(_exchanged(line, word, other))
    return made


@cache
def substituted_lines() -> list[Texts]:
    """From all lines of training, two of each at most."""
    lines = [tuple(row[1:5]) for row in _rows(ROOT / "train")]
    return substituted(lines, _rows(ROOT / "dictionary"), seed=1, each=2)


def _rows(folder: Path) -> list[list[str]]:
    """The rows of all files, in the order of their names, without titles."""
    files = sorted(folder.glob("*.tsv"))
    return [line.split("\t") for file in files for line in file.read_text(encoding="utf-8").splitlines()[1:]]


def _words(entry: Sequence[str]) -> Iterator[Word]:
    kind, english, german, spanish, chinese, *more = entry
    if len(chinese) < 2:  # a single character is a part of many words
        return
    if kind == "adj" and not any(" " in cell for cell in entry[1:5]):
        ending = "o" if spanish.endswith("o") else ""
        yield Word(("adj", ending), (english, german, spanish, chinese))
    if kind != "noun":
        return
    article, _, noun = german.partition(" ")
    genus, _, spanish_noun = spanish.partition(" ")
    _, _, name = english.partition("the ")
    plural = (more[0] if more else "").partition(" ")[2]
    if not name or " " in name + noun + spanish_noun:
        return
    if genus not in ("el", "la") or article not in ("der", "die", "das"):
        return
    if genus == "el" and spanish_noun.endswith("a"):  # el agua, of which adjectives are feminine
        return
    weak = article == "der" and plural.endswith("n")  # den Studenten
    if not weak and plural != noun:
        yield Word(("noun", "one", article, genus), (name, noun, spanish_noun, chinese))
    if plural.endswith(("n", "s")) and plural != noun:
        many = (_english_plural(name), plural, _spanish_plural(spanish_noun), chinese)
        yield Word(("noun", "many", genus), many)


def _english_plural(noun: str) -> str:
    if re.search(r"(s|x|z|ch|sh)$", noun):
        return noun + "es"
    return noun[:-1] + "ies" if re.search(r"[^aeiou]y$", noun) else noun + "s"


def _spanish_plural(noun: str) -> str:
    if noun.endswith("z"):
        return noun[:-1] + "ces"
    if noun.endswith("ión"):
        return noun[:-2] + "ones"
    return noun + "s" if noun[-1] in "aeiouáéó" else noun + "es"


def _pattern(form: str) -> str:
    return rf"(?<![\w'’-]){re.escape(form)}(?![\w'’-])"


def _stands_once(word: Word, line: Texts, tokens: Sequence[list[str]]) -> bool:
    """tokens: of the first three texts."""
    if any(some.count(form) != 1 for some, form in zip(tokens, word.forms, strict=False)):
        return False
    chinese, form = line[3], word.forms[3]
    before = chinese[: chinese.find(form)][-1:]
    if chinese.count(form) != 1 or (before and before in _MEASURE_WORDS):
        return False
    # a predicate: an adjective before a noun would have an ending
    return word.agreement[0] == "noun" or re.search(_pattern(word.forms[0]) + r"(?! [a-z])", line[0]) is not None


def _exchanged(line: Texts, word: Word, other: Texts) -> Texts:
    english = re.sub(_pattern(word.forms[0]), lambda _: other[0], line[0])
    vowel = _VOWEL.match(other[0]) is not None
    english = re.sub(rf"\b([Aa])n? (?={re.escape(other[0])}(?!\w))", lambda match: f"{match[1]}{'n' * vowel} ", english)
    german, spanish = (
        re.sub(_pattern(word.forms[place]), lambda _, form=other[place]: form, line[place])  # type: ignore[misc]
        for place in (1, 2)
    )
    return english, german, spanish, line[3].replace(word.forms[3], other[3])


def _invented(dice: random.Random) -> str:
    """A name, a number, a code or a letter, in that order of frequency."""
    drawn = dice.random()
    if drawn < 0.5:
        parts = dice.randint(1, 2)
        return dice.choice(_ONSETS) + "".join(
            dice.choice(_SYLLABLES) + dice.choice(_INNER) * (part + 1 < parts) for part in range(parts)
        )
    if drawn < 0.75:
        return str(dice.randint(11, 99) if dice.random() < 0.6 else dice.randint(100, 9999))
    letter = dice.choice("XYZQWVKJ")
    return f"{letter}{dice.randint(1, 99)}" if drawn < 0.9 else letter


def _shuffled_forever(words: Sequence[Word], dice: random.Random) -> Iterator[Word]:
    while True:
        yield from dice.sample(words, len(words))
