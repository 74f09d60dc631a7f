"""Texts and pages that once took a time quadratic in their length, or worse."""

from __future__ import annotations

from typing import Any

import pytest

from app.engine.interface import TranslationOptions
from app.text.html_page import page_sections, parse_page
from app.text.text_blocks import text_sections, untranslatable_blocks
from app.translation.reading import Reading, Sentence, read_without_holes
from app.translation.segments import segmented, split_to_fit
from app.translation.steps import Room
from tests.time_limits import processor_seconds


@pytest.mark.parametrize(
    "page", ["<code>{1}</code>{1}" * 4900, "<b>x</b>y" * 4000, "<img>" * 5000 + "x", "<b>" * 5000 + "x"]
)
def test_elements_of_one_passage_are_placed(page: str) -> None:
    with processor_seconds(2):
        parsed = parse_page(page)
        assert "".join(parsed.pieces([(text, None) for text in parsed.texts])).count("<") >= page.count("<")


def test_long_passage_is_cut_between_words() -> None:
    page = parse_page("<p>" + "ein <b>Wort</b> " * 1500 + "ohne Ende " * 9000)
    assert len(page.texts) > 5
    assert max(map(len, page.texts)) <= 40_000
    assert {text.split()[-1] for text in page.texts} <= {"Wort", "ein", "ohne", "Ende"}
    assert "".join(page.pieces([(text, None) for text in page.texts])).count("<b>Wort</b>") == 1500


def _fitted(text: str, room: int) -> tuple[tuple[int, int], ...]:
    options = TranslationOptions("de", "en")
    steps = split_to_fit(segmented(text, "de", split=False), options, lambda piece: read_without_holes(piece, "de"))
    answers: list[Any] | None = None
    while True:
        try:
            (question,) = steps.send(answers)
        except StopIteration as end:
            return end.value.spans  # type: ignore[no-any-return]
        answers = [room] if isinstance(question, Room) else [[len(each.encode()) for each in question.texts]]  # type: ignore[union-attr]


@pytest.mark.parametrize("cluster", ["a" + "\ufe0f" * 30, "a" + "\u0301" * 30, "\U0001f468\u200d" * 20, "a\u200d"])
def test_characters_of_many_code_points_are_cut(cluster: str) -> None:
    with processor_seconds(2):
        spans = _fitted(cluster * (40_000 // len(cluster)) + "Ende", 500)
    assert spans


def test_whole_characters_where_they_are_short() -> None:
    text = "👨‍👩‍👧e\u0301❤️" * 300 + "x"
    for start, end in _fitted(text, 200):
        assert text[start] in "👨e❤", text[start - 2 : start + 2]
        assert text[end - 1] != "\u200d"


@pytest.mark.parametrize(
    "text",
    [
        "a   b" * 5000,
        "[a](b) c. " * 3000,
        "*a " * 5000,
        "```\n" * 3000 + "From: a\nSubject: b\nTo: c\n\n" * 500,
        "a\n" * 5000,
        "“a. " * 5000,
        "&amp; " * 4000,
        "x.y/z@" * 4000,
        "1 2. " * 4000,
        "A — b & c " * 3000,
    ],
)
def test_long_texts_are_prepared(text: str) -> None:
    with processor_seconds(2):
        pieces = segmented(text, "de").pieces
        for piece in pieces:
            if len(piece) < 2000:
                Reading.of(Sentence(piece, TranslationOptions("de", "en")), "numbers")


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "a. ",
            "(1.2.3.",
            "[1] ",
            "- [x] ",
            "> - ",
            ":) ",
            "¯\\_(ツ)_/¯ ",
            "(((",
            "^ ",
            " ##",
            "\\",
            "{#a",
            "a:)",
            "....",
        ),
        *(
            "_ ",
            "· ",
            "[b]",
            "[/b]",
            "[a][b]",
            "https://a[b] ",
            "<<a,",
            "[[a|",
            "`a <b>`_",
            "||a||",
            "''",
            "&a ",
            "a;b\n",
        ),
        *('"a";', "a,b,c\n", "k=v\n", '"a": "b",', "a: b\n", '[1]: a "b\n', "[a]\nb=c\n", "From:\n a\n", '!!! a "b\n'),
        *("<!-- ", "[code]", "$$\n", "a\\n", "x. 😀 "),
    ],
)
def test_layout_is_found(pattern: str) -> None:
    with processor_seconds(2):
        segmented((pattern * 20_000)[:20_000], "de")


def test_sections_join_to_their_text_and_keep_code_whole() -> None:
    code = "```\n" + "x = 1\n\n" * 300 + "```\n"
    text = "Ein Satz. Noch einer.\n\n" * 200 + code + "Am Ende. " * 500 + "ohne" * 1000
    sections = list(text_sections(text, 1000))
    assert "".join(sections) == text
    assert all(len(section) <= 1000 or "```" in section for section in sections)
    (block,) = untranslatable_blocks(text)
    borders = [sum(map(len, sections[:number])) for number in range(len(sections))]
    assert not any(block[0] < border < block[1] for border in borders)
    assert list(text_sections("kurz", 1000)) == ["kurz"]


def test_sections_of_a_page_read_as_they_do_within_it() -> None:
    page = (
        "<html><head><title>Ein <b> Titel</title></head><body>"
        + "<p>eins <b>zwei</p><p>drei</b> vier<pre> a\n b <p> c </pre><div translate=no><p>nein</div>" * 50
        + "<ul><li>f<code>x</li><li>g</code></ul><script><p></p></script>" * 50
    )
    sections = list(page_sections(page, 200))
    assert "".join(sections) == page
    assert len(sections) > 20
    assert [text for section in sections for text in parse_page(section).texts] == parse_page(page).texts
