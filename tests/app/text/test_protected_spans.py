"""Links, addresses and placeholders in a text."""

from __future__ import annotations

import time

import pytest

from app.text.numbers import numbers_in
from app.text.protected_spans import protected_spans, without_protected


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
            "$HOME %PATH% <0>x</0> <br/> &lt;b&gt; &lt; &#39;",
            ["$HOME", "%PATH%", "<0>", "</0>", "<br/>", "&lt;b&gt;", "&lt;"],
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
        ("auf 127.0.0.1, 10.0.0.1:8080 oder fe80::1.", ["127.0.0.1", "10.0.0.1:8080", "fe80::1"]),
        ("Python 3.11.4 und v1.2.3-beta.1", ["3.11.4", "v1.2.3-beta.1"]),
        (
            "+49 30 1234567, 030/1234567, (030) 123 456, 0171-1234567, 555-123-4567",
            ["+49 30 1234567", "030/1234567", "(030) 123 456", "0171-1234567", "555-123-4567"],
        ),
        ("Tel. +49\u00a030\u00a01234567, 030\u00a0123456", ["+49\u00a030\u00a01234567", "030\u00a0123456"]),
        ("ISBN 978-3-16-148410-0", ["978-3-16-148410-0"]),
        (
            "/usr/lib/x.py, ./foo, ~/bar/baz. C:\\Users\\x und README.md.",
            ["/usr/lib/x.py", "./foo", "~/bar/baz", "C:\\Users\\x", "README.md"],
        ),
        ("parlance.org/path, localhost:8080/x, example.com.", ["parlance.org/path", "localhost:8080/x", "example.com"]),
        ("um 2024-03-12T12:30:00Z", ["2024-03-12T12:30:00Z"]),
        ("am 12.03.2024, 5.6.24, 03/12/2024, 2024-03-12 um 12:30:45, 1.000.000", []),
        ("z.B. d.h. u.a. und/oder km/h. Er ging.Er kam. std::cout a::b", []),
    ],
)
def test_addresses_versions_and_paths_are_protected(text: str, wanted: list[str]) -> None:
    assert protected_texts(text) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("[2001:db8::8a2e]:8080, fe80::1%eth0", ["[2001:db8::8a2e]:8080", "fe80::1%eth0"]),
        (
            "DE89 3704 0044 0532 0130 00 und DE89370400440532013000.",
            ["DE89 3704 0044 0532 0130 00", "DE89370400440532013000"],
        ),
        (
            "550e8400-e29b-41d4-a716-446655440000, 7913d10e, 0x1F",
            ["550e8400-e29b-41d4-a716-446655440000", "7913d10e", "0x1F"],
        ),
        (
            "A380, F-16, SHA256, x86_64, ISO-8859-1, 5G, 12a",
            ["A380", "F-16", "SHA256", "x86_64", "ISO-8859-1", "5G", "12a"],
        ),
        ("CO2-Ausstoß, H2O, H₂O, ½, 52°31'12\"N", ["CO2", "H2O", "H₂O", "½", "52°31'12\"N"]),
        ("2 + 2 = 4, 10^6, 1e-5", ["2 + 2 = 4", "10^6", "1e-5"]),
        ("#hund, #12345-AB! @anna_m: @bob@chaos.social.", ["#hund", "#12345-AB", "@anna_m", "@bob@chaos.social"]),
        ('mit `git commit -m "x"` und ``a b``', ['`git commit -m "x"`', "``a b``"]),
        ("#1, C#, Nummer17, Haus5, 80kg, 2x, 30er, $5M, 1980er, EUR12, wie geht`s und geht`s, 第3章, 10-12, a = b", []),
    ],
)
def test_codes_formulas_and_hashtags_are_protected(text: str, wanted: list[str]) -> None:
    assert protected_texts(text) == wanted


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
        "1-",
        "1:",
        "0 1",
        "+1",
        "a/",
        "a::",
        "~/a",
        "((http://",
        "{{",
        "`a",
        "#a",
        "#1",
        "@a.",
        "[::",
        "A1-",
        "AB12 ",
        "1+1 ",
        "A₁",
        "1° ",
        "0a",
    ],
)
def test_time_is_linear_in_the_length_of_the_text(pattern: str) -> None:
    text = "http://" * (pattern == "http://)") + (pattern * 30_000)[:30_000]
    began = time.process_time()
    protected_spans(text)
    numbers_in(text)
    assert time.process_time() - began < 2  # no measure of speed: time that grows with the square takes far longer
