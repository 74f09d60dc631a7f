"""Texts split into pieces; layout and marks are restored."""

from __future__ import annotations

import asyncio
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.text.layout_characters import JOINERS, MARK, is_spelling_joiner
from app.translation.driver import Translator
from app.translation.segments import cut_spans, segmented
from tests.app.translation.word_engine import WordEngine
from tests.request_builders import text_request


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("Hallo Welt.  Wie geht es? 😀\n", ["Hallo Welt.", "Wie geht es?"]),
        ("  a\tb\r\nc\x0bd   E", ["a", "b", "c", "d", "E"]),
        ("ich   möchte    ein bier", ["ich   möchte    ein bier"]),
        ("apfel    rot\nbanane   gelb", ["apfel", "rot", "banane", "gelb"]),
        ("ich möchte ein bier. wo ist er? da.", ["ich möchte ein bier.", "wo ist er?", "da."]),
        ("das ist z. b. gut, ca. fünf leute kamen", ["das ist z. b. gut, ca. fünf leute kamen"]),
        ("a  b", ["a  b"]),
        ("- Eins\n2. Zwei\n• Drei\n> # Vier\n(5) Fünf\na) Sechs", ["Eins", "Zwei", "Drei", "Vier", "Fünf", "Sechs"]),
        ("\ufeff😀 Gut 👨‍👩‍👧 so 1️⃣", ["Gut 👨‍👩‍👧 so"]),
        ("12,50 €\n😀\n---\nhttps://x.org/a\n{name}\nx@y.org", []),
        ("Siehe https://x.org", ["Siehe https://x.org"]),
        ("", []),
        (" \n\t", []),
    ],
)
def test_pieces_and_layout_give_the_text_back(text: str, pieces: list[str]) -> None:
    cut = segmented(text, "de")
    assert cut.pieces == pieces
    layout = cut.layout("en")
    assert "".join([part for pair in zip(layout, pieces, strict=False) for part in pair]) + layout[-1] == text


def test_lines_are_split_even_without_sentence_splitting() -> None:
    assert segmented("Eins. Zwei.\nDrei.", "de", split=False).pieces == ["Eins. Zwei.", "Drei."]


@pytest.mark.parametrize(
    ("text", "source", "target", "wanted"),
    [
        ("我要。你呢？", "zh", "en", ["", " ", ""]),
        ("I do. You?", "en", "zh-Hans", ["", "", ""]),
        ("I do. You?", "en", "de", ["", " ", ""]),
        ("I do.  You?", "en", "zh", ["", "  ", ""]),
        ("我要。你呢？", "zh", "ja", ["", "", ""]),
    ],
)
def test_single_spaces_between_sentences_follow_the_target_language(
    text: str, source: str, target: str, wanted: list[str]
) -> None:
    assert segmented(text, source).layout(target) == wanted


PARTS = [
    *("Haus", "Bier.", "zwei", "Ja!", "straße", "Hund,", "(gut)", "дом", "בית", "我想。", "e\u0301", "می\u200cخواهم"),
    *("\n", "\r\n", "\t", "  ", "   ", "\u00a0", "\u2003", "\u3000", "\u2028", "\x0b", "\x85", "\n\n"),
    *("😀", "👨‍👩‍👧", "🇩🇪", "❤️", "1️⃣", "→", "\u200b", "\ufeff", "\u200e", "👍🏽", "\x00"),
    *("- ", "• ", "1. ", "12,5", "https://x.org/a?b=(c)", "{name}", "%s", "&lt;b&gt;"),
]
TEXTS = st.lists(st.one_of(st.sampled_from(PARTS), st.just(" ")), max_size=14).map("".join)
LAYOUT = re.compile(r"(?! )\s|[\x00-\x1f\x7f-\x9f]|(?! )" + MARK.pattern.removesuffix("+"))


def layout_characters(text: str) -> list[str]:
    """All that is layout, in order, but for plain spaces; joiners within words are not."""
    results = LAYOUT.finditer(text)
    return [result[0] for result in results if result[0] not in JOINERS or not is_spelling_joiner(text, result.start())]


def wide_spaces(text: str) -> int:
    """Of how many spaces the runs of several consist."""
    return sum(len(run) for run in re.findall(" {2,}", text))


@settings(max_examples=24, deadline=None)
@given(TEXTS, st.booleans(), st.booleans(), st.booleans())
def test_layout_survives_any_translation(text: str, backwards: bool, aligns: bool, split: bool) -> None:
    engine = WordEngine(backwards=backwards, aligns=aligns)
    (result,) = asyncio.run(Translator(engine).translate([text_request(text, "de", "en", split=split)]))
    assert layout_characters(result.text) == layout_characters(text)
    assert wide_spaces(result.text) >= wide_spaces(text)


@settings(max_examples=16, deadline=None)
@given(TEXTS)
def test_copying_engine_gives_the_text_back(text: str) -> None:
    engine = WordEngine(copies=True)
    (result,) = asyncio.run(Translator(engine).translate([text_request(text, "de", "en")]))
    assert result.text == text


def test_cut_never_splits_a_link() -> None:
    text = f"See the file at https://example.org/file?credential={'AbcDef123' * 60} for more."
    parts = [text[start:end] for start, end in cut_spans(text, 0, len(text), 200)]
    assert parts == ["See the file at", "for more."]
