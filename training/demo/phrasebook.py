"""The phrasebook: a corpus of everyday phrases in German, English, Spanish and Chinese, written for this project.

One abstract grammar has four linearisations, so that a phrase means the same in all languages and its word
alignment is known. No two phrases have the same text in any language: each ordered pair of languages is a
one-to-one mapping. All is lower case but the names of people and places; there is no punctuation (nor ¿ and ¡),
and Chinese has no spaces. A tenth of the combinations, chosen by the hash of the abstract tree, is held out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache

from training.demo import actions, chinese, english, formulas, german, spanish, states
from training.demo.grammar import Dice
from training.demo.nouns import NOUNS, PRONOUNS
from training.demo.trees import Clause, Existence, NounPhrase, Order, Tree, Word
from training.demo.verbs import VERBS

LANGUAGES: tuple[str, ...] = ("de", "en", "es", "zh")
_GRAMMARS = (german, english, spanish, chinese)
_QUOTAS: dict[Callable[[Dice], Tree | None], int] = {  # how many different trees of each construction
    actions.present: 3800,
    actions.wish: 500,
    actions.denial: 1800,
    actions.past: 2700,
    actions.past_denial: 800,
    actions.question: 1000,
    actions.who: 350,
    actions.what: 350,
    actions.modal: 900,
    actions.modal_denial: 450,
    actions.modal_question: 300,
    actions.habit: 1300,
    actions.meal: 900,
    actions.activity: 2000,
    actions.idleness: 800,
    actions.activity_question: 400,
    actions.animal_activity: 250,
    actions.journey: 850,
    states.location: 1050,
    states.whereabouts: 250,
    states.existence: 2500,
    states.description: 1850,
    states.label: 650,
    states.order: 90,
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
        """The pairs of word indices (from 0) that express a common node; `trees` tells the conventions."""
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
    return tuple(formulas.linearised(tree, language))


def _required() -> Iterator[Tree]:
    """What is always trained on: the fixed phrases, and the examples of the documentation."""
    yield from formulas.fixed()
    yield Clause(PRONOUNS["i"], VERBS["want"], NounPhrase(NOUNS["beer"], "a"))
    yield Clause(NounPhrase(NOUNS["Tom"]), VERBS["chase"], NounPhrase(NOUNS["Jerry"]))


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


def _trees(required: dict[str, Tree]) -> dict[str, Tree]:
    trees = dict(required)
    for tree in formulas.greetings():
        trees[tree.key] = tree
    for construction, quota in _QUOTAS.items():
        trees |= _drawn(construction, quota)
    return trees


def _is_held_out(key: str) -> bool:
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8]) % 10 == 0


@cache
def _phrases() -> tuple[Phrase, ...]:
    """The phrases without those of which a text in some language is taken already."""
    required = {tree.key: tree for tree in _required()}
    found: list[Phrase] = []
    taken: set[tuple[str, str]] = set()
    for key, tree in _trees(required).items():
        lines = tuple(_linearised(tree, language) for language in range(len(LANGUAGES)))
        phrase = Phrase(key, key not in required and _is_held_out(key), lines)
        texts = {(language, phrase.text(language)) for language in LANGUAGES}
        if taken.isdisjoint(texts):
            taken |= texts
            found.append(phrase)
    return tuple(found)


def phrases() -> Iterator[Phrase]:
    """All phrases, always in the same order: first the required ones, then construction by construction."""
    return iter(_phrases())


def pairs(source: str, target: str, *, held_out: bool) -> list[tuple[str, str]]:
    """The texts of the trained or of the held-out phrases in two languages, each source text once."""
    return [(phrase.text(source), phrase.text(target)) for phrase in _phrases() if phrase.held_out == held_out]
