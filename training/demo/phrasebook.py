"""The phrasebook: a corpus of everyday phrases in German, English, Spanish and Chinese, written for this project."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache

from training.demo import chinese, constructions, english, german, spanish
from training.demo.grammar import Dice
from training.demo.lexicon import NOUNS, PRONOUNS, VERBS, Noun, nouns_of_kind
from training.demo.syntax_trees import Clause, Couple, Existence, Formula, NounPhrase, Order, Tree, Word, word

# The digits behind a word are the nodes that it expresses; words of two languages with a common digit are aligned.
_GREETINGS = """
hallo1 | hello1 | hola1 | 你好1
guten1 morgen2 | good1 morning2 | buenos1 días2 | 早上2 好1
guten1 abend2 | good1 evening2 | buenas1 tardes2 | 晚上2 好1
gute1 nacht2 | good1 night2 | buenas1 noches2 | 晚安12
auf1 wiedersehen1 | goodbye1 | adiós1 | 再见1
danke1 | thank1 you1 | gracias1 | 谢谢1
vielen1 dank2 | many1 thanks2 | muchas1 gracias2 | 非常1 感谢2
entschuldigung1 | sorry1 | perdón1 | 对不起1
bis1 morgen2 | see1 you1 tomorrow2 | hasta1 mañana2 | 明天2 见1
bis1 bald2 | see1 you1 soon2 | hasta1 pronto2 | 回头2 见1
"""
_FIXED = """
wie1 geht2 es2 dir3 | how1 are2 you3 | cómo1 estás23 | 你3 好12 吗1
wie1 heißt2 du3 | what1 is2 your3 name2 | cómo1 te3 llamas23 | 你3 叫2 什么1 名字2
viel1 glück2 | good1 luck2 | buena1 suerte2 | 祝1 你1 好运2
guten1 appetit1 | enjoy1 your1 meal1 | buen1 provecho1 | 请1 慢用1
kein1 problem2 | no1 problem2 | no1 hay1 problema2 | 没1 问题2
ich1 weiß2 es2 nicht3 | i1 do2 not3 know2 | no3 lo2 sé12 | 我1 不3 知道2
was1 kostet2 das3 | how1 much1 does2 that3 cost2 | cuánto1 cuesta2 eso3 | 那3 个3 多少1 钱2
ich1 komme2 aus3 deutschland4 | i1 come2 from3 germany4 | vengo12 de3 alemania4 | 我1 来2 自3 德国4
ja1 bitte2 | yes1 please2 | sí1 por2 favor2 | 好的1 谢谢2
nein1 danke2 | no1 thank2 you2 | no1 gracias2 | 不用1 谢谢2
"""


def _formula_words(cell: str) -> tuple[Word, ...]:
    line = []
    for token in cell.split():
        text = token.rstrip("0123456789")
        line.append(word(text, *(f"formula.{digit}" for digit in token[len(text) :])))
    return tuple(line)


def _formula_table(table: str) -> dict[str, tuple[tuple[Word, ...], ...]]:
    rows = [tuple(_formula_words(cell) for cell in row.split("|")) for row in table.strip().splitlines()]
    return {" ".join(part.text for part in row[1]): row for row in rows}


_GREETING_LINES, _FIXED_LINES = _formula_table(_GREETINGS), _formula_table(_FIXED)
_LINES = _GREETING_LINES | _FIXED_LINES
_COUPLES: tuple[Callable[[Couple], list[Word]], ...] = (
    german.couple,
    english.couple,
    spanish.couple,
    chinese.couple,
)


def linearised_formula(tree: Formula, language: int) -> list[Word]:
    """The phrase in the language of this number, and the addressee after it."""
    line = list(_LINES[tree.phrase][language])
    addressee = tree.addressee
    if addressee is None:
        return line
    if isinstance(addressee, Couple):
        return line + _COUPLES[language](addressee)
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


LANGUAGES: tuple[str, ...] = ("de", "en", "es", "zh")
_GRAMMARS = (german, english, spanish, chinese)
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
    return tuple(linearised_formula(tree, language))


def _required() -> Iterator[Tree]:
    """What is always trained on: the fixed phrases, and the examples of the documentation."""
    yield from fixed_formulas()
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
    for tree in greeting_formulas():
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
