"""Entries as lines."""

from __future__ import annotations

import pytest

from app.errors import InvalidRequest
from app.storage.glossary_store import EntriesFormat, entries_as_tsv, parse_entries


@pytest.mark.parametrize(
    ("lines", "form", "entries"),
    [
        ("Bier\tale\nWirt\thost", "tsv", {"Bier": "ale", "Wirt": "host"}),
        ("Bier\tale\r\n\r\n Wirt \t host \r\n", "tsv", {"Bier": "ale", "Wirt": "host"}),
        ('Bier,ale\n"Bier, hell","pale ale"', "csv", {"Bier": "ale", "Bier, hell": "pale ale"}),
        ("Bier,ale,de,en\nWirt, host", "csv", {"Bier": "ale", "Wirt": "host"}),
        (
            'Bier;ale\r\n"Bier; hell";"pale ale"\r\nBier, dunkel;dark ale',
            "csv",
            {"Bier": "ale", "Bier; hell": "pale ale", "Bier, dunkel": "dark ale"},
        ),
        ("\ufeffBier;ale;de;en\n\n", "csv", {"Bier": "ale"}),
        ("Bier,ale; beer\nWirt,host", "csv", {"Bier": "ale; beer", "Wirt": "host"}),
        ("\ufeffBier\tale", "tsv", {"Bier": "ale"}),
        ("\ufeffBier\tale\n\ufeffWirt\thost", "tsv", {"Bier": "ale", "Wirt": "host"}),
        ("", "tsv", {}),
        ("Bier\tale\rWirt\thost\r", "tsv", {"Bier": "ale", "Wirt": "host"}),
        ("Bier,ale\rWirt,host\r\r", "csv", {"Bier": "ale", "Wirt": "host"}),
        ("\r\rBier;ale\r\nWirt;host", None, {"Bier": "ale", "Wirt": "host"}),
        ("Bier, hell\tale\rWirt\thost", None, {"Bier, hell": "ale", "Wirt": "host"}),
    ],
)
def test_parse_entries(lines: str, form: EntriesFormat | None, entries: dict[str, str]) -> None:
    assert parse_entries(lines, form) == entries


@pytest.mark.parametrize(
    ("lines", "form", "sentence"),
    [
        ("a\tb\nc", "tsv", 'Line 2 of "entries" has 1 cell; write a source term, a tab, and its target term.'),
        (
            "a,b\nc,d,e",
            "csv",
            'Line 2 of "entries" has 3 cells; write a source term, a comma or semicolon, and its target term.',
        ),
        (
            "a;b\nc",
            "csv",
            'Line 2 of "entries" has 1 cell; write a source term, a comma or semicolon, and its target term.',
        ),
        ("a\tb\na\tc", "tsv", 'Line 2 of "entries" has a source term that an earlier line has; leave one out.'),
        ("a,b\ra,c", "csv", 'Line 2 of "entries" has a source term that an earlier line has; leave one out.'),
        ("a\tb\rc", "tsv", 'Line 2 of "entries" has 1 cell; write a source term, a tab, and its target term.'),
        *(
            (lines, form, 'Line 2 of "entries" has a term with a control character; terms are text of one line.')
            for lines, form in (
                ("a\tb\nc\x0bd\te", "tsv"),
                ("a,b\nc,d\x1f", "csv"),
                ("a,b\nc,d\0e", "csv"),
                ("a\tb\nc\0\td", "tsv"),
                ("a,b\n\u2028c,d", "csv"),
                ('a,b\nc,"d\te"', "csv"),
                ('a,b\nc,"d\re"', "csv"),
            )
        ),
        (
            "a\t",
            "tsv",
            'Line 1 of "entries" has an empty term; each takes at least one character that is not white space.',
        ),
        ('a,"b', "csv", '"entries" is not csv (unexpected end of data); quote cells as RFC 4180 says.'),
    ],
)
def test_invalid_line_is_refused(lines: str, form: EntriesFormat, sentence: str) -> None:
    with pytest.raises(InvalidRequest) as excinfo:
        parse_entries(lines, form)
    assert (excinfo.value.message, excinfo.value.field) == (sentence, "entries")


def test_entries_as_tsv_are_parsed_back() -> None:
    entries = {"Bier": "ale", "der Wirt": "the host"}
    assert entries_as_tsv(entries) == "Bier\tale\nder Wirt\tthe host"
    assert parse_entries(entries_as_tsv(entries), "tsv") == entries
