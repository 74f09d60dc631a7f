"""Links, placeholders and numbers in a text."""

from __future__ import annotations

import time

import pytest

from app.text.protected_spans import (
    digits,
    may_be_a_word,
    missing_spans,
    number_spans,
    protected_spans,
    without_protected,
)


def protected_texts(text: str) -> list[str]:
    spans = protected_spans(text)
    assert [text[span.start : span.end] for span in spans] == [span.key for span in spans]
    return [span.key for span in spans]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("See https://x.org/a_(b)?q=1&r=2#c.", ["https://x.org/a_(b)?q=1&r=2#c"]),
        ("(siehe http://x.org/y), dann www.foo.de!", ["http://x.org/y", "www.foo.de"]),
        ("Mail a.b+c@d-e.org, or mailto:x@y.de.", ["a.b+c@d-e.org", "mailto:x@y.de"]),
        ("{name}, {0} {{x}} ${v} ${{w}} %{n}", ["{name}", "{0}", "{{x}}", "${v}", "${{w}}", "%{n}"]),
        ("%s %d %5.2f %1$s %(name)d %@ %lld", ["%s", "%d", "%5.2f", "%1$s", "%(name)d", "%@", "%lld"]),
        (
            "$HOME %PATH% <0>x</0> <br/> &lt;b&gt; &#39;",
            ["$HOME", "%PATH%", "<0>", "</0>", "<br/>", "&lt;", "&gt;", "&#39;"],
        ),
        ("nice :smile: :+1:", [":smile:", ":+1:"]),
        ("100% sicher, 5 % der Leute, 5% discount, $5, 12:30:45, a < b, AT&T; Uhr: jetzt: ja", []),
        ("Peter@home und a@b", []),
    ],
)
def test_links_and_placeholders_are_protected(text: str, wanted: list[str]) -> None:
    assert protected_texts(text) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1,000.00 und 1.000,00", ["1,000.00", "1.000,00"]),
        ("3.5 10 000 2'500'000 5", ["3.5", "10 000", "2'500'000", "5"]),
        ("am 3.10.2026 um 12:30", ["3", "10", "2026", "12", "30"]),
        ("v1.2.3 A380 50 % €5 5 600", ["1", "2", "3", "380", "50", "5", "5 600"]),
        ("3, 4, 5.", ["3", "4", "5"]),
        ("٣٫٥", ["٣٫٥"]),
    ],
)
def test_number_spans(text: str, wanted: list[str]) -> None:
    assert [text[span.start : span.end] for span in number_spans(text)] == wanted


def test_numbers_are_compared_by_their_digits() -> None:
    assert digits("1,000.00") == digits("1.000,00") == "100000"
    assert digits("٣٫٥") == "35"
    lost = missing_spans(number_spans("5 and 5 and 1,000"), number_spans("5 und 1.000"))
    assert [(each.key, each.start) for each in lost] == [("5", 6)]


def test_numbers_within_links_are_not_counted() -> None:
    text = "https://x.org/12 has 7"
    assert [span.key for span in number_spans(text, protected_spans(text))] == ["7"]


@pytest.mark.parametrize(("number", "word"), [("2", True), ("12", True), ("13", False), ("100", False), ("3.5", False)])
def test_small_whole_numbers_may_become_words(number: str, word: bool) -> None:
    assert may_be_a_word(number_spans(number)[0]) is word


def test_text_without_protected_spans() -> None:
    assert without_protected("a https://x.org b") == "a   b"
    assert without_protected("{x}").strip() == ""


@pytest.mark.parametrize(
    "pattern",
    [
        "a",
        "a.",
        "1.",
        "1 000",
        "{",
        "<a",
        "&a",
        ":a",
        "http://)",
        "%(",
        "www.",
        "$a",
        "a@",
        "a@b.",
        "a-",
        "((http://",
        "{{",
    ],
)
def test_time_is_linear_in_the_length_of_the_text(pattern: str) -> None:
    text = "http://" * (pattern == "http://)") + (pattern * 100_000)[:100_000]
    began = time.perf_counter()
    number_spans(text, protected_spans(text))
    assert time.perf_counter() - began < 20  # no measure of speed: time that grows with the square takes minutes
