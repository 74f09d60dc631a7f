"""Sentence boundaries; no character is lost."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.text.sentence_splitting import sentence_spans


def sentences(text: str, language: str) -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text, language)]


@pytest.mark.parametrize(
    ("language", "text", "wanted"),
    [
        ("de", "Am 3. Oktober kam Dr. Müller. Er lacht.", ["Am 3. Oktober kam Dr. Müller. ", "Er lacht."]),
        ("en", "Mr. Smith paid 3.50 dollars. Why?  He was asked.", None),
        ("zh-Hans", "我想要一杯啤酒。你呢？", ["我想要一杯啤酒。", "你呢？"]),
        ("tlh", "Hi there. You.", ["Hi there. ", "You."]),
    ],
)
def test_sentences_of_many_languages(language: str, text: str, wanted: list[str] | None) -> None:
    assert sentences(text, language) == (wanted or ["Mr. Smith paid 3.50 dollars. ", "Why?  ", "He was asked."])


@settings(max_examples=20, deadline=None)
@given(st.text(max_size=60), st.sampled_from(["de", "en", "zh", "ar", "hi", "xx"]))
def test_spans_cover_the_line_without_gaps(line: str, language: str) -> None:
    spans = sentence_spans(line, language)
    assert "".join(line[start:end] for start, end in spans) == line
    assert all(start < end for start, end in spans)


def test_multibyte_spaces_do_not_crash_the_library() -> None:
    text = "\u2028i. A\u3000b.\u2003C"  # cuts one byte off the space before "i.", and fails, if it is shown them
    assert "".join(sentences(text, "en")) == text


@pytest.mark.parametrize("pattern", ["“a ", '"', "a. ", "1. ", "x"])
def test_time_for_long_lines(pattern: str) -> None:
    line = (pattern * 100_000)[:100_000]
    began = time.perf_counter()
    spans = sentence_spans(line, "en")
    assert time.perf_counter() - began < 20  # no measure of speed: time that grows with the square takes minutes
    assert spans[-1][1] == 100_000
    assert max(end - start for start, end in spans) <= 4000


def test_a_region_with_an_underscore_is_left_out_as_one_with_a_hyphen() -> None:
    text = "Am 3. Oktober ist Feiertag. Gut."
    assert sentence_spans(text, "de_CH") == sentence_spans(text, "de-CH") == sentence_spans(text, "de")
