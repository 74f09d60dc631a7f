"""The phrasebook: a corpus of everyday phrases in German, English, Spanish and Chinese, written for this project.

One abstract grammar has four linearisations, so that a phrase means the same in all languages and its word alignment is
known. No two phrases have the same text in any language: each ordered pair of languages is a one-to-one mapping. All is
lower case but the names of people and places; there is no punctuation (nor ¿ and ¡), and Chinese has no spaces. A tenth
of the combinations, chosen by the hash of the abstract tree, is held out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache

from training.demo import chinese, constructions, english, german, spanish
from training.demo.grammar import Dice
from training.demo.lexicon import NOUNS, PRONOUNS, VERBS, Noun, nouns_of_kind, table_rows
from training.demo.syntax_trees import Clause, Couple, Existence, Formula, NounPhrase, Order, Tree, Word, word

LANGUAGES: tuple[str, ...] = ("de", "en", "es", "zh")
_GRAMMARS = (german, english, spanish, chinese)


def _formula_words(cell: str) -> tuple[Word, ...]:
    """The digits behind a word are the nodes that it expresses."""
    line = []
    for token in cell.split():
        text = token.rstrip("0123456789")
        line.append(word(text, *(f"formula.{digit}" for digit in token[len(text) :])))
    return tuple(line)


def _formula_table(name: str) -> dict[str, tuple[tuple[Word, ...], ...]]:
    rows = [tuple(map(_formula_words, row)) for row in table_rows(name)]
    return {" ".join(part.text for part in row[1]): row for row in rows}


_GREETING_LINES, _FIXED_LINES = _formula_table("greetings.txt"), _formula_table("formulas.txt")
_LINES = _GREETING_LINES | _FIXED_LINES


def linearised_formula(tree: Formula, language: int) -> list[Word]:
    """The phrase in the language of this number, and the addressee after it."""
    line = list(_LINES[tree.phrase][language])
    addressee = tree.addressee
    if addressee is None:
        return line
    if isinstance(addressee, Couple):
        return [*line, *_GRAMMARS[language].couple(addressee)]
    names = (addressee.german[0], addressee.english[0], addressee.spanish[0], addressee.chinese)
    return [*line, word(names[language], "subject.noun")]


def fixed_formulas() -> Iterator[Formula]:
    """The phrases that every translator is trained on: those without an addressee, and to the world."""
    yield from (Formula(phrase) for phrase in _LINES)
    yield from (Formula(phrase, nouns_of_kind("world")[0]) for phrase in _GREETING_LINES)


def greeting_formulas() -> Iterator[Formula]:
    """Each greeting to each name, city and couple of names."""
    names = nouns_of_kind("name")
    couples = [Couple(first, second) for first in names for second in names if first is not second]
    addressees: list[Noun | Couple] = [*names, *nouns_of_kind("city"), *couples]
    for phrase in _GREETING_LINES:
        yield from (Formula(phrase, addressee) for addressee in addressees)


_QUOTAS: dict[Callable[[Dice], Tree | None], int] = {  # how many different trees of each construction
    constructions.present: 3800,
    constructions.wish: 500,
    constructions.denial: 1800,
    constructions.past: 2700,
    constructions.past_denial: 800,
    constructions.question: 1000,
    constructions.who: 350,
    constructions.what: 350,
    constructions.modal: 900,
    constructions.modal_denial: 450,
    constructions.modal_question: 300,
    constructions.habit: 1300,
    constructions.meal: 900,
    constructions.activity: 2000,
    constructions.idleness: 800,
    constructions.activity_question: 400,
    constructions.animal_activity: 250,
    constructions.journey: 850,
    constructions.location: 1050,
    constructions.whereabouts: 250,
    constructions.existence: 2500,
    constructions.description: 1850,
    constructions.label: 650,
    constructions.order: 90,
}


@dataclass(frozen=True, slots=True)
class Phrase:
    """One phrase in all languages; `key` is its abstract tree, readable and unique."""

    key: str
    held_out: bool
    lines: tuple[tuple[Word, ...], ...] = field(repr=False)  # in the order of LANGUAGES

    def words(self, language: str) -> tuple[str, ...]:
        """The words in the language; a Chinese one may be of several characters."""
        return tuple(part.text for part in self._line(language))

    def text(self, language: str) -> str:
        """The words joined: by spaces, or by nothing in Chinese."""
        return ("" if language == "zh" else " ").join(self.words(language))

    def alignment(self, source: str, target: str) -> frozenset[tuple[int, int]]:
        """The pairs of word indices (from 0) that express a common node; `syntax_trees` has the conventions."""
        return frozenset(
            (i, j)
            for i, here in enumerate(self._line(source))
            for j, there in enumerate(self._line(target))
            if here.nodes & there.nodes
        )

    def _line(self, language: str) -> tuple[Word, ...]:
        return self.lines[LANGUAGES.index(language)]


def _linearised(tree: Tree, language: int) -> tuple[Word, ...]:
    grammar = _GRAMMARS[language]
    if isinstance(tree, Clause):
        return tuple(grammar.clause(tree))
    if isinstance(tree, Existence):
        return tuple(grammar.existence(tree))
    if isinstance(tree, Order):
        return tuple(grammar.order(tree))
    return tuple(linearised_formula(tree, language))


def _drawn(construction: Callable[[Dice], Tree | None], quota: int) -> dict[str, Tree]:
    """Different trees of the construction by their keys, up to the quota."""
    dice = Dice(f"phrasebook: {construction.__name__}")
    trees: dict[str, Tree] = {}
    for _ in range(quota * 6):
        tree = construction(dice)
        if tree is not None:
            trees[tree.key] = tree
            if len(trees) == quota:
                break
    return trees


@cache
def _phrases() -> tuple[Phrase, ...]:
    """The phrases without those of which a text in some language is taken already."""
    examples: tuple[Tree, ...] = (  # of the documentation
        Clause(PRONOUNS["i"], VERBS["want"], NounPhrase(NOUNS["beer"], "a")),
        Clause(NounPhrase(NOUNS["Tom"]), VERBS["chase"], NounPhrase(NOUNS["Jerry"])),
    )
    never_held_out: dict[str, Tree] = {formula.key: formula for formula in fixed_formulas()}
    never_held_out |= {tree.key: tree for tree in examples}
    trees = never_held_out | {tree.key: tree for tree in greeting_formulas()}
    for construction, quota in _QUOTAS.items():
        trees |= _drawn(construction, quota)
    phrases: list[Phrase] = []
    taken: set[tuple[str, str]] = set()
    for key, tree in trees.items():
        lines = tuple(_linearised(tree, language) for language in range(len(LANGUAGES)))
        in_held_out_tenth = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8]) % 10 == 0
        phrase = Phrase(key, in_held_out_tenth and key not in never_held_out, lines)
        texts = {(language, phrase.text(language)) for language in LANGUAGES}
        if taken.isdisjoint(texts):
            taken |= texts
            phrases.append(phrase)
    return tuple(phrases)


def phrases() -> Iterator[Phrase]:
    """All phrases, always in the same order: first the formulas, then construction by construction."""
    return iter(_phrases())


def pairs(source: str, target: str, *, held_out: bool) -> list[tuple[str, str]]:
    """The texts of the trained or of the held-out phrases in two languages, each source text once."""
    return [(phrase.text(source), phrase.text(target)) for phrase in _phrases() if phrase.held_out == held_out]
