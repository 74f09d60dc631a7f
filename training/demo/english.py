"""English: fixed word order, 'do' in questions and negations, 'a' or 'an'."""

from __future__ import annotations

from training.demo.syntax_trees import Clause, Existence, NounPhrase, Order, Place, Word, subject_words, word, words

_COPULA = {"1s": "am", "2s": "are", "3s": "is", "1p": "are", "3p": "are"}


def noun_phrase(phrase: NounPhrase, role: str) -> list[Word]:
    noun = word(phrase.noun.forms["en"][phrase.plural], f"{role}.noun")
    line = [word(phrase.adjective.key, f"{role}.adjective"), noun] if phrase.adjective else [noun]
    if phrase.determiner:
        vowel = phrase.determiner == "a" and line[0].text[0] in "aeiou"
        line.insert(0, word(phrase.determiner + "n" * vowel, f"{role}.determiner"))
    return line


def _place(place: Place) -> list[Word]:
    article = [] if "city" in place.noun.kinds else [word("the", "place.determiner")]
    return [word(place.relation, "place.relation"), *article, word(place.noun.forms["en"][0], "place.noun")]


def _lexical(clause: Clause, form: int) -> list[Word]:
    """The full verb in its form (infinitive, third person, past), with its particle."""
    if clause.verb is None:
        return []
    return [*words(clause.verb.english[form], "verb"), *words(clause.verb.english_particle, "verb")]


def _verbs(clause: Clause) -> tuple[list[Word], list[Word]]:
    """The auxiliary, which precedes 'not' and swaps with the subject, and the other verbs."""
    third = clause.person == "3s"
    if clause.verb is None:
        return [word(_COPULA[clause.person], "verb")], []
    wants = clause.modal is not None and clause.modal.key == "want"
    if clause.modal and not wants:
        return [word(clause.modal.key, "modal")], _lexical(clause, 0)
    infinitive = [word("to", "modal"), *_lexical(clause, 0)] if wants else []
    if clause.negated or clause.asks not in ("", "who"):
        do = "did" if clause.past else "does" if third else "do"
        return [word(do, clause.finite)], [word("want", "modal"), *infinitive] if wants else _lexical(clause, 0)
    if wants:
        return [], [word("wants" if third else "want", "modal"), *infinitive]
    return [], _lexical(clause, 2 if clause.past else int(third))


def clause(tree: Clause) -> list[Word]:
    """Time or question word, subject, verb, object, place; a question has the auxiliary before the subject."""
    auxiliary, verb = _verbs(tree)
    if tree.negated:
        cannot = auxiliary[0].text == "can"
        auxiliary = words("cannot", "modal", "negation") if cannot else [*auxiliary, word("not", "negation")]
    subject = subject_words(tree.subject, "en", noun_phrase)
    line = words("" if tree.asks == "whether" else tree.asks, "asked")
    line += tree.time_words({tree.time: tree.time}, "every day")
    line += auxiliary[:1] + subject + auxiliary[1:] if tree.asks else subject + auxiliary
    line += verb + (noun_phrase(tree.patient, "object") if tree.patient else [])
    line += [word(tree.quality.key, "quality")] if tree.quality else []
    return line + (_place(tree.place) if tree.place else [])


def existence(tree: Existence) -> list[Word]:
    copula = "are" if tree.thing.plural else "is"
    return [word("there", "verb"), word(copula, "verb"), *noun_phrase(tree.thing, "subject"), *_place(tree.place)]


def order(tree: Order) -> list[Word]:
    return noun_phrase(tree.thing, "subject") + (words("please", "please") if tree.please else [])
