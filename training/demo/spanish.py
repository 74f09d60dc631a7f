"""Spanish: gender and number agreement, dropped subject pronouns, ser and estar, the personal a."""

from __future__ import annotations

from training.demo.lexicon import PERSONS, words_of
from training.demo.syntax_trees import (
    Clause,
    Couple,
    Existence,
    NounPhrase,
    Order,
    Place,
    Subject,
    Word,
    subject_words,
    word,
    words,
)

_WORDS = words_of("spanish")
_DETERMINERS: dict[str, list[str]] = _WORDS["determiners"]
_NUMERALS: dict[str, str] = _WORDS["numerals"]


def _determiner(phrase: NounPhrase, denied: bool) -> str:
    determiner = "no" if denied and phrase.determiner else phrase.determiner
    if determiner not in _DETERMINERS:
        return _NUMERALS.get(determiner, "")
    stressed = phrase.noun.key == "water" and determiner == "the"  # a stressed a: el agua fría, but esta agua fría
    feminine = phrase.noun.spanish_gender == "f" and not stressed
    return _DETERMINERS[determiner][feminine + 2 * phrase.plural]


def noun_phrase(phrase: NounPhrase, role: str, denied: bool = False) -> list[Word]:
    """Determiner, noun, adjective; a negated 'a' is 'ningún'."""
    line = words(_determiner(phrase, denied), f"{role}.determiner")
    line.append(word(phrase.noun.forms["es"][phrase.plural], f"{role}.noun"))
    if phrase.adjective:
        adjective = phrase.adjective.in_spanish(phrase.noun.spanish_gender, phrase.plural)
        line.append(word(adjective, f"{role}.adjective"))
    return line


def _gender(subject: Subject | None) -> str:
    if isinstance(subject, NounPhrase):
        return subject.noun.spanish_gender
    if isinstance(subject, Couple):
        return "f" if subject.first.spanish_gender == subject.second.spanish_gender == "f" else "m"
    return (subject and subject.gender) or "m"


def _contracted(preposition: Word, phrase: list[Word]) -> list[Word]:
    """De and a contract with the article el."""
    if phrase[0].text == "el" and preposition.text in ("de", "a"):
        melted = {"de": "del", "a": "al"}[preposition.text]
        return [word(melted, *sorted(preposition.nodes | phrase[0].nodes)), *phrase[1:]]
    return [preposition, *phrase]


def _place(place: Place) -> list[Word]:
    *before, preposition = words(_WORDS["relations"][place.relation], "place.relation")
    determiner = "" if "city" in place.noun.kinds else "the"
    return [*before, *_contracted(preposition, noun_phrase(NounPhrase(place.noun, determiner), "place"))]


def _patient(clause: Clause) -> list[Word]:
    """The object; the personal a marks every name and human, and definite animals."""
    phrase = clause.patient
    if phrase is None or clause.verb is None:
        return []
    line = noun_phrase(phrase, "object", clause.denies_existence)
    kinds = phrase.noun.kinds
    definite = phrase.determiner in ("the", "this", "my", "your", "our")
    if "personal" in clause.verb.traits and (kinds & {"name", "person", "kin"} or ("animal" in kinds and definite)):
        return _contracted(word("a", *sorted(line[0].nodes)), line)
    return line


def _verbs(clause: Clause) -> tuple[Word, list[Word]]:
    """The finite verb, and the infinitive after a modal verb."""
    person = PERSONS.index(clause.person)
    if clause.verb is None:
        copula = clause.quality.copula if clause.quality else "estar"
        return word(_WORDS["copulas"][copula][person], "verb"), []
    if clause.modal:
        line = words("que", "modal") if clause.modal.key == "must" else []
        return word(clause.modal.spanish[person], "modal"), [*line, word(clause.verb.spanish_infinitive, "verb")]
    forms = clause.verb.spanish_past if clause.past else clause.verb.spanish
    return word(forms[person], "verb"), []


def clause(tree: Clause) -> list[Word]:
    """The subject comes first in a statement, after the finite verb in a question, and last with a question word."""
    finite, infinite = _verbs(tree)
    subject = [] if tree.person == "2s" and tree.asks else subject_words(tree.subject, "es", noun_phrase)
    if tree.subject and not subject:
        finite = finite.also("subject.noun")
    verb = [*words("no" if tree.negated else "", "negation"), finite]
    rest = infinite + _patient(tree) + (_place(tree.place) if tree.place else [])
    if tree.quality:
        form = tree.quality.in_spanish(_gender(tree.subject), tree.person.endswith("p"))
        rest.append(word(form, "quality"))
    front = tree.time_words(_WORDS["times"], "cada día") + words(_WORDS["asked"].get(tree.asks, ""), "asked")
    if tree.asks in ("what", "where") or (tree.asks and tree.quality):
        return front + verb + rest + subject
    return front + (verb + subject if tree.asks else subject + verb) + rest


def existence(tree: Existence) -> list[Word]:
    """Hay, for singular and plural."""
    return [word("hay", "verb"), *noun_phrase(tree.thing, "subject"), *_place(tree.place)]


def order(tree: Order) -> list[Word]:
    return noun_phrase(tree.thing, "subject") + (words("por favor", "please") if tree.please else [])
