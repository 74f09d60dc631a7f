"""German: three genders and four cases (no genitive here), the finite verb second, the infinite one last."""

from __future__ import annotations

from training.demo.lexicon import PERSONS, Noun, words_of
from training.demo.syntax_trees import Clause, Existence, NounPhrase, Order, Place, Word, subject_words, word, words

CASES = NOMINATIVE, ACCUSATIVE, DATIVE = "nominative", "accusative", "dative"
_Forms = tuple[str, str, str, str]  # masculine, feminine, neuter, plural


def _by_case(*forms: _Forms) -> dict[str, _Forms]:
    return dict(zip(CASES, forms, strict=True))


_ARTICLES = _by_case(("der", "die", "das", "die"), ("den", "die", "das", "die"), ("dem", "der", "dem", "den"))
_STRONG_ENDINGS = _by_case(("er", "e", "es", "e"), ("en", "e", "es", "e"), ("em", "er", "em", "en"))
_POSSESSIVE_ENDINGS = _by_case(("", "e", "", "e"), ("en", "e", "", "e"), ("em", "er", "em", "en"))
_WEAK_ENDINGS = _by_case(("e", "e", "e", "en"), ("en", "e", "e", "en"), ("en", "en", "en", "en"))
_MIXED_ENDINGS = _by_case(("er", "e", "es", "en"), ("en", "e", "es", "en"), ("en", "en", "en", "en"))
_WORDS = words_of("german")
NUMERALS = _WORDS["numerals"]


def _column(noun: Noun, plural: bool) -> int:
    return 3 if plural else "mfn".index(noun.gender)


def _determiner(determiner: str, case: str, column: int) -> tuple[str, dict[str, _Forms]]:
    """The form of the determiner, and the adjective endings after it."""
    if determiner == "the":
        return _ARTICLES[case][column], _WEAK_ENDINGS
    if determiner == "this":
        return "dies" + _STRONG_ENDINGS[case][column], _WEAK_ENDINGS
    if determiner in _WORDS["possessives"]:
        return _WORDS["possessives"][determiner] + _POSSESSIVE_ENDINGS[case][column], _MIXED_ENDINGS
    return NUMERALS.get(determiner, ""), _STRONG_ENDINGS


def noun_phrase(phrase: NounPhrase, role: str, case: str = NOMINATIVE, denied: bool = False) -> list[Word]:
    """The words of a noun phrase; 'kein' expresses its article and the negation."""
    column = _column(phrase.noun, phrase.plural)
    form, endings = _determiner("no" if denied else phrase.determiner, case, column)
    nodes = [f"{role}.determiner"] if phrase.determiner else []
    line = words(form, *nodes, *(["negation"] if denied else []))
    if phrase.adjective:
        adjective = phrase.adjective.german_stem + endings[case][column]
        line.append(word(adjective, f"{role}.adjective"))
    weak = phrase.noun.key == "boy" and case != NOMINATIVE and not phrase.plural
    return [*line, word(phrase.noun.forms["de"][phrase.plural] + "n" * weak, f"{role}.noun")]


def _place(place: Place) -> list[Word]:
    relation, noun = _WORDS["relations"][place.relation], word(place.noun.forms["de"][0], "place.noun")
    if "city" in place.noun.kinds:
        return [word(relation, "place.relation"), noun]
    article = _ARTICLES[DATIVE][_column(place.noun, plural=False)]
    if relation == "in" and article == "dem":
        return [word("im", "place.relation", "place.determiner"), noun]
    return [word(relation, "place.relation"), word(article, "place.determiner"), noun]


def _verbs(clause: Clause) -> tuple[Word, list[Word]]:
    """The finite verb, and the infinitive or participle that closes the clause."""
    person = PERSONS.index(clause.person)
    if clause.verb is None:
        return word(_WORDS["copula"][person], "verb"), []
    if clause.modal:
        return word(clause.modal.german[person], "modal"), words(clause.verb.german_infinitive, "verb")
    if clause.past:
        return word(_WORDS["have"][person], "verb"), words(clause.verb.german_participle, "verb")
    return word(clause.verb.german[person], "verb"), []


def _middle(clause: Clause) -> list[Word]:
    """Object, negation, predicate and place; 'nicht' follows the object and precedes everything else."""
    line: list[Word] = []
    if clause.patient:
        case = DATIVE if clause.verb and "dative" in clause.verb.traits else ACCUSATIVE
        line += noun_phrase(clause.patient, "object", case, clause.denies_existence)
    if clause.negated and not clause.denies_existence:
        line.append(word("nicht", "negation"))
    if clause.quality:
        line.append(word(clause.quality.german, "quality"))
    return line + (_place(clause.place) if clause.place else [])


def clause(tree: Clause) -> list[Word]:
    """A statement has one constituent before the finite verb, a yes/no question none."""
    finite, final = _verbs(tree)
    subject = subject_words(tree.subject, "de", noun_phrase)
    front = tree.time_words(_WORDS["times"], "jeden tag") + words(_WORDS["asked"].get(tree.asks, ""), "asked")
    start = [*front, finite, *subject] if front or tree.asks else [*subject, finite]
    return start + _middle(tree) + final


def existence(tree: Existence) -> list[Word]:
    """The place comes first: 'im garten ist ein hund'."""
    copula = "sind" if tree.thing.plural else "ist"
    return [*_place(tree.place), word(copula, "verb"), *noun_phrase(tree.thing, "subject")]


def order(tree: Order) -> list[Word]:
    """An ordered thing is in the accusative, a named thing in the nominative."""
    if tree.please:
        return [*noun_phrase(tree.thing, "subject", ACCUSATIVE), word("bitte", "please")]
    return noun_phrase(tree.thing, "subject")
