"""The phrasebook: a corpus of everyday phrases in German, English, Spanish and Chinese, written for this project.

One abstract grammar has four linearisations, so a phrase means the same in all languages and its word alignment is
known. No two phrases share a text in any language: each ordered pair of languages is a one-to-one mapping. Everything
but names of people and places is in lower case, without punctuation (nor ¿ and ¡); Chinese has no spaces. A tenth of
the combinations, chosen by the hash of the abstract tree, is held out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import permutations, starmap

from training.demo import chinese, constructions, english, german, spanish
from training.demo.lexicon import LANGUAGES, NOUNS, PRONOUNS, VERBS, nouns_of_kind, table_rows, words_of
from training.demo.syntax_trees import Clause, Couple, Existence, Formula, NounPhrase, Tree, Word, subject_words, word

_GRAMMARS = {"de": german, "en": english, "es": spanish, "zh": chinese}


def _formula_words(cell: str) -> tuple[Word, ...]:
    """The digits after a word are the nodes that it expresses."""
    line = []
    for token in cell.split():
        text = token.rstrip("0123456789")
        line.append(word(text, *(f"formula.{digit}" for digit in token[len(text) :])))
    return tuple(line)


def _formula_table(name: str) -> dict[str, dict[str, tuple[Word, ...]]]:
    """English phrase -> language -> words."""
    rows = [tuple(map(_formula_words, row)) for row in table_rows(name)]
    return {" ".join(part.text for part in row[1]): dict(zip(LANGUAGES, row, strict=True)) for row in rows}


_GREETING_LINES, _FIXED_LINES = _formula_table("greetings.txt"), _formula_table("formulas.txt")
_LINES = _GREETING_LINES | _FIXED_LINES


_WORDS = words_of("phrasebook")


@dataclass(frozen=True, slots=True)
class Phrase:
    """A phrase in all languages; `key` is its abstract tree, readable and unique."""

    key: str
    held_out: bool
    lines: Mapping[str, Sequence[Word]] = field(repr=False)

    def words(self, language: str) -> tuple[str, ...]:
        """The words in a language; a Chinese word may have several characters."""
        return tuple(part.text for part in self.lines[language])

    def text(self, language: str) -> str:
        """The words joined by spaces, or by nothing in Chinese."""
        return ("" if language == "zh" else " ").join(self.words(language))

    def sentence(self, language: str) -> str:
        """The text as people write it, with capitals and punctuation; of German, English or Spanish."""
        text = " ".join(_with_capital(word, language, self.words(language)[0]) for word in self.lines[language])
        asks = self.words("en")[0] in _WORDS["asking"].split()
        opening = "¿" if asks and language == "es" else ""
        return f"{opening}{text[0].upper()}{text[1:]}{'?' if asks else '.'}"

    def alignment(self, source: str, target: str) -> frozenset[tuple[int, int]]:
        """Pairs of word indices (from 0) that express a common node; `syntax_trees` has the conventions."""
        return frozenset(
            (i, j)
            for i, here in enumerate(self.lines[source])
            for j, there in enumerate(self.lines[target])
            if here.nodes & there.nodes
        )


_CAPITALS = {language: set(words.split()) for language, words in _WORDS["capitals"].items()}
_CAPITALS["de"] |= {form for noun in NOUNS.values() for form in noun.forms["de"]}


def _with_capital(part: Word, language: str, first: str) -> str:
    """A German noun, but not the adjective 'junge'; 'Morgen' in 'guten Morgen', but not 'morgen'."""
    text = part.text
    is_noun = language != "de" or any(node.endswith((".noun", ".second")) for node in part.nodes)
    formula = any(node.startswith("formula") for node in part.nodes)
    if text in _CAPITALS[language] and (is_noun or formula):
        return text.capitalize()
    return "Morgen" if (text, first) == ("morgen", "guten") else text


def _linearised(tree: Tree, language: str) -> list[Word]:
    grammar = _GRAMMARS[language]
    if isinstance(tree, Formula):
        return [*_LINES[tree.phrase][language], *subject_words(tree.addressee, language, grammar.noun_phrase)]
    if isinstance(tree, Clause):
        return list(grammar.clause(tree))
    return list(grammar.existence(tree) if isinstance(tree, Existence) else grammar.order(tree))


def _drawn(construction: Callable[[constructions.Dice], Tree | None], quota: int) -> dict[str, Tree]:
    """Up to `quota` different trees of the construction, by key."""
    dice = constructions.Dice(f"phrasebook: {construction.__name__}")
    trees: dict[str, Tree] = {}
    for _ in range(quota * 6):
        if (tree := construction(dice)) is not None:
            trees[tree.key] = tree
            if len(trees) == quota:
                break
    return trees


@cache
def phrases() -> tuple[Phrase, ...]:
    """All phrases: formulas, then each construction; a phrase is skipped if its text in a language is taken."""
    formulas: list[Tree] = [Formula(phrase) for phrase in _LINES]
    formulas += [Formula(phrase, NounPhrase(NOUNS["world"])) for phrase in _GREETING_LINES]
    examples: list[Tree] = [  # from the documentation
        Clause(PRONOUNS["i"], VERBS["want"], NounPhrase(NOUNS["beer"], "a")),
        Clause(NounPhrase(NOUNS["Tom"]), VERBS["chase"], NounPhrase(NOUNS["Jerry"])),
    ]
    never_held_out: dict[str, Tree] = {tree.key: tree for tree in (*formulas, *examples)}
    names = nouns_of_kind("name")
    addressees: list[NounPhrase | Couple] = [
        *map(NounPhrase, (*names, *nouns_of_kind("city"))),
        *starmap(Couple, permutations(names, 2)),
    ]
    greetings = [Formula(phrase, addressee) for phrase in _GREETING_LINES for addressee in addressees]
    trees = never_held_out | {tree.key: tree for tree in greetings}
    for name, quota in _WORDS["quotas"].items():
        trees |= _drawn(getattr(constructions, name), quota)
    kept: list[Phrase] = []
    taken: set[tuple[str, str]] = set()
    for key, tree in trees.items():
        in_held_out_tenth = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8]) % 10 == 0
        lines = {language: _linearised(tree, language) for language in LANGUAGES}
        phrase = Phrase(key, in_held_out_tenth and key not in never_held_out, lines)
        texts = {(language, phrase.text(language)) for language in LANGUAGES}
        if taken.isdisjoint(texts):
            taken |= texts
            kept.append(phrase)
    return tuple(kept)


def pattern_count() -> int:
    """Constructions and fixed phrases."""
    return len(_WORDS["quotas"]) + len(_LINES)


def pairs(source: str, target: str, *, held_out: bool) -> list[tuple[str, str]]:
    """The texts of the training or held-out phrases in two languages, each source text once."""
    return [(phrase.text(source), phrase.text(target)) for phrase in phrases() if phrase.held_out == held_out]


def written_pairs(source: str, target: str, *, held_out: bool) -> list[tuple[str, str]]:
    """`pairs`, with a quarter of the phrases as sentences with capitals and punctuation."""
    return [
        (phrase.sentence(source), phrase.sentence(target))
        if hashlib.sha256(f"written {phrase.key}".encode()).digest()[0] % 4 == 0
        else (phrase.text(source), phrase.text(target))
        for phrase in phrases()
        if phrase.held_out == held_out
    ]
