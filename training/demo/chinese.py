"""Chinese: no inflection; measure words, particles, places before the verb; no spaces between words."""

from __future__ import annotations

from training.demo.lexicon import words_of
from training.demo.syntax_trees import Clause, Existence, NounPhrase, Order, Place, Word, subject_words, word, words

_WORDS = words_of("chinese")


def _determiner(phrase: NounPhrase, node: str) -> list[Word]:
    if phrase.determiner == "the" and phrase.plural:
        return [word("那些", node)]
    if phrase.determiner in _WORDS["possessives"]:
        return [word(_WORDS["possessives"][phrase.determiner], node)]
    return [word(_WORDS["determiners"][phrase.determiner], node), word(phrase.noun.measure, node)]


def noun_phrase(phrase: NounPhrase, role: str, denied: bool = False) -> list[Word]:
    """Determiner and measure word, adjective, noun; a denied noun has no 'one' and expresses its node."""
    node = f"{role}.determiner"
    noun = word(phrase.noun.forms["zh"][0], f"{role}.noun")
    line = [word(phrase.adjective.chinese, f"{role}.adjective")] if phrase.adjective else []
    if denied and phrase.determiner:
        return [*line, noun.also(node)]
    return [*(_determiner(phrase, node) if phrase.determiner else []), *line, noun]


def _landmark(place: Place) -> list[Word]:
    """The noun, which also expresses its article, and its side; a city has no side."""
    if "city" in place.noun.kinds:
        return [word(place.noun.forms["zh"][0], "place.noun")]
    noun = word(place.noun.forms["zh"][0], "place.noun", "place.determiner")
    return [noun, word(_WORDS["relations"][place.relation], "place.relation")]


def _location(clause: Clause) -> list[Word]:
    """在 and the place; as the predicate, 在 is also the copula."""
    nodes = ["place.relation"] if clause.place else ["asked"]
    if clause.verb is None:
        nodes = ["verb", *(nodes if clause.place else [])]
    where = _landmark(clause.place) if clause.place else [word("哪里", "asked")]
    return [word("在", *nodes), *where]


def _object(clause: Clause) -> list[Word]:
    if clause.asks == "what":
        return [word("什么", "asked")]
    if clause.patient is None:
        return []
    return noun_phrase(clause.patient, "object", clause.denies_existence)


def _action(clause: Clause) -> list[Word]:
    """Modal verb, place, verb, object; the goal of 去 follows it."""
    if clause.verb is None:
        return _location(clause)
    located = clause.place is not None or clause.asks == "where"
    if clause.place and clause.place.relation == "to":
        verb = [word(clause.verb.chinese, "verb", "place.relation"), *_landmark(clause.place)]
    else:
        verb = [*(_location(clause) if located else []), word(clause.verb.chinese, "verb")]
    perfective = words("了", "verb") if clause.past and not clause.negated else []
    modal = [word({"want": "想"}.get(clause.modal.key, clause.modal.chinese), "modal")] if clause.modal else []
    return modal + verb + perfective + _object(clause)


def _quality(clause: Clause) -> list[Word]:
    """很 or 是 for the copula in an affirmative statement; otherwise the adjective has no 很."""
    if clause.quality is None:
        return []
    adjective = word(clause.quality.chinese_predicate, "quality")
    if clause.quality.is_colour:
        return [word("是", "verb"), adjective]
    if clause.negated or clause.asks:
        return [adjective.also("verb")]
    return [word("很", "verb"), adjective]


def _negation(clause: Clause) -> list[Word]:
    """没有 negates the past, and 没 negates 有; 不 negates the rest."""
    if not clause.negated:
        return []
    has = clause.verb is not None and clause.verb.key == "have" and not clause.modal
    return [word("没" if has else "没有" if clause.past else "不", "negation")]


def clause(tree: Clause) -> list[Word]:
    """Time, subject, negation, predicate, and 吗 after a yes/no question."""
    line = tree.time_words(_WORDS["times"], "每天")
    line += subject_words(tree.subject, "zh", noun_phrase) or [word("谁", "asked")]
    line += _negation(tree) + (_quality(tree) or _action(tree))
    return line + words("吗" if tree.asks == "whether" else "", tree.finite)


def existence(tree: Existence) -> list[Word]:
    """The place comes first: 花园里有一只狗."""
    return [*_landmark(tree.place), word("有", "verb"), *noun_phrase(tree.thing, "subject")]


def order(tree: Order) -> list[Word]:
    """请来 orders, as in a restaurant."""
    return [*words("请 来" if tree.please else "", "please"), *noun_phrase(tree.thing, "subject")]
