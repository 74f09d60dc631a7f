"""Edits keep the text, the tokens and the alignment of a translation together."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from app.engine.interface import AlignedWord, TranslationResult
from app.engine.output.text_stream import WrittenToken
from app.translation.edits import Edit, with_edits

TEXT = "one two three four"


def translation(pieces: list[str]) -> TranslationResult:
    text = "".join(pieces)
    words = tuple(AlignedWord(*word.span(), *word.span(), 0.5) for word in re.finditer(r"\S+", text))
    tokens = tuple(WrittenToken(number, piece, -0.5) for number, piece in enumerate(pieces))
    return TranslationResult(text, (), "stop", "m", tokens=tokens, alignment=words)


def test_replacement_insertion_and_deletion() -> None:
    before = translation(["one", " two", " thr", "ee", " four", ""])
    after = with_edits(before, [Edit(0, 3, "eins"), Edit(7, 7, " 😀"), Edit(8, 14, ""), Edit(18, 18, "!")])
    assert after.text == "eins two 😀 four!"
    assert after.tokens is not None
    assert [token.text for token in after.tokens] == ["eins", " two", " 😀 ", "", "four!", ""]
    assert after.alignment is not None
    assert [after.text[aligned.target_start : aligned.target_end] for aligned in after.alignment] == [
        "eins",
        "two",
        "",
        "four",
    ]


@st.composite
def changes(draw: st.DrawFn) -> list[Edit]:
    places = sorted(draw(st.lists(st.integers(0, len(TEXT)), max_size=8)))
    return [
        Edit(start, end, draw(st.sampled_from(["", "x", " yy "])))
        for start, end in zip(places[::2], places[1::2], strict=False)
    ]


@settings(max_examples=40, deadline=None)
@given(changes(), st.lists(st.integers(1, 5), min_size=1, max_size=6))
def test_tokens_join_to_the_edited_text(edits: list[Edit], lengths: list[int]) -> None:
    pieces, at = [], 0
    for length in lengths:
        pieces.append(TEXT[at : at + length])
        at += length
    pieces.append(TEXT[at:])
    after = with_edits(translation(pieces), edits)
    assert after.tokens is not None
    assert after.alignment is not None
    assert "".join(token.text for token in after.tokens) == after.text
    assert all(0 <= aligned.target_start <= aligned.target_end <= len(after.text) for aligned in after.alignment)
