from __future__ import annotations

import pytest

from app.text.html_page import parse_page
from app.text.tag_placement import AlignedSpan
from tests.app.text.scripted_translation import backwards, ordered, translated


@pytest.mark.parametrize(
    ("page", "pairs", "expected"),
    [
        # each inline tag follows the words of its own
        ("ich habe den <b>Hund</b> gesehen", "i=ich have=habe seen=gesehen the=den dog=Hund",
         "i have seen the <b>dog</b>"),
        ("<i>ich</i> <b>habe gesehen</b>", "i=ich have=habe just seen=gesehen", "<i>i</i> <b>have just seen</b>"),
        # one stray word does not stretch a link over the whole sentence
        ("der <a href=x>große Hund</a> läuft sehr schnell",
         "Dog=Hund the=der very=sehr fast=schnell runs=läuft big=große",
         "<a href=x>Dog</a> the very fast runs big"),
        # punctuation belongs to where the source has its own
        ("der <b>Hund</b>, der", "the=der dog,=Hund, who", "the <b>dog</b>, who"),
        ("der <b>Hund,</b> der", "the=der dog,=Hund, who", "the <b>dog,</b> who"),
        ("(<b>Hund</b>)", "(dog)=(Hund)", "(<b>dog</b>)"),
        ("<b>Guten Morgen</b>", "well good=Guten morning=Morgen !", "<b>well good morning !</b>"),
        # part of a word has the whole of what it became
        ("<b>H</b>und da", "dog=Hund there=da", "<b>dog</b> there"),
        # elements beside each other keep their own words when these change places
        ("<b>rot</b> <i>Auto</i>", "car=Auto red=rot", "<i>car</i> <b>red</b>"),
        # what nothing came from stays, empty, between its neighbours
        ("ja <b>doch</b> gern", "yes=ja gladly=gern", "yes <b></b>gladly"),
        # an image keeps to the words around it, or to the edge
        ("ein <img src=x> Hund da", "there=da a=ein dog=Hund", "there a <img src=x> dog"),
        ("ein Hund<img src=1> ist da", "there=da is=ist a=ein dog=Hund", "there is a dog<img src=1>"),
        ("<img src=x> ein Hund<img src=y>", "dog=Hund one=ein", "<img src=x> dog one<img src=y>"),
        # verbatim elements: once, with or without words of their own
        ("die Taste <kbd>Enter</kbd> da", "there=da the=die enter=Enter key=Taste",
         "there the <kbd>Enter</kbd> key"),
        ("nimm <code>f(x)</code> hier", "here=hier take=nimm {1}={1}", "here take <code>f(x)</code>"),
        ("nimm <code>f(x)</code> hier", "take=nimm here=hier", "take <code>f(x)</code> here"),
        ("nimm <code>f(x)</code>", "take=nimm", "take <code>f(x)</code>"),
        # a part of a word replaces no other part of it
        ("die <kbd>Strg</kbd>-Taste da", "the=die Strg=Strg-Taste key=Strg-Taste there=da",
         "the <kbd>Strg</kbd> key there"),
        # tags without their partner
        ("a</b> c", "c=c a=a", "c a</b>"),
    ],
)  # fmt: skip
def test_inline_tags_follow_the_word_alignment(page: str, pairs: str, expected: str) -> None:
    assert translated(page, lambda text: ordered(text, pairs)) == expected


def test_nested_elements_stay_nested() -> None:
    page = "<p>one <b>two <i>three</i> four</b> five</p>"
    assert translated(page, backwards) == "<p>FIVE <b>FOUR <i>THREE</i> TWO</b> ONE</p>"


def test_wrong_alignment_loses_no_tag() -> None:
    lies = [
        AlignedSpan(0, 99, 0, 1),
        AlignedSpan(-1, 2, 0, 1),
        AlignedSpan(2, 1, 0, 1),
        AlignedSpan(0, 1, 5, 99),
        AlignedSpan(0, 2, 0, 1),
        AlignedSpan(1, 3, 1, 2),
    ]
    assert translated("<b>a</b> b", lambda _: ("xyz", lies)) == "<b>xy</b>z"


def test_without_alignment_tags_are_placed_proportionally() -> None:
    assert translated("one two <b>three</b> four", lambda _: ("eins zwei drei vier", None)) == (
        "eins zwei <b>drei</b> vier"
    )
    assert translated("分<b>开</b>了", lambda _: ("分开了", None)) == "分<b>开</b>了"


def test_whitespace_between_tags_does_not_separate_a_word_from_its_comma() -> None:
    alignment = [AlignedSpan(0, 3, 0, 3), AlignedSpan(3, 4, 4, 8)]
    assert translated("ein <!-- x --> Hund", lambda _: ("one, dog", alignment)) == "one<!-- x -->, dog"
    alignment = [AlignedSpan(0, 3, 0, 3), AlignedSpan(5, 8, 4, 8)]
    assert translated("ein <!-- x --> Hund", lambda _: ("one, dog", alignment)) == "one, <!-- x --> dog"


@pytest.mark.parametrize(
    ("page", "translation", "words", "expected"),
    [
        ("Ich mag H<sub>2</sub>O.", "I like {1}.", {"I": "Ich", "like": "mag", "{1}": "{1}", ".": "{1}"},
         "I like H<sub>2</sub>O."),
        ("Ich mag <b>Hunde</b>.", "I like dogs.", {"dogs": "Hunde", ".": "Hunde"}, "I like <b>dogs</b>."),
        ("Ich mag <b>Hunde.</b> Ja", "I like dogs. Yes", {"dogs": "Hunde", ".": "Hunde", "Yes": "Ja"},
         "I like <b>dogs.</b> Yes"),
        ("Ich mag <code>x</code> und y", "I like x, and y", {"like": "mag", "x": "x", ",": "x", "and": "x", "y": "y"},
         "I like <code>x</code>, and y"),
    ],
)  # fmt: skip
def test_punctuation_that_a_model_aligns_with_a_word_is_neither_taken_nor_lost(
    page: str, translation: str, words: dict[str, str], expected: str
) -> None:
    parsed = parse_page(page)
    (text,) = parsed.texts
    alignment = [
        AlignedSpan(start := translation.index(word), start + len(word), of := text.index(source), of + len(source))
        for word, source in words.items()
    ]
    assert "".join(parsed.pieces([(translation, alignment)])) == expected
