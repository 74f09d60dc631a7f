"""Sentences from what pydantic reports."""

from __future__ import annotations

from typing import Any

import pytest

from app.api.request_fields import describe_value, field_name, quotable, validation_message


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "null"),
        (False, "false"),
        (1234, "1,234"),
        (-3.0, "-3"),
        (0.25, "0.25"),
        (10**4000, "a very large number"),
        (float("-inf"), "a very large number"),
        ("md", '"md"'),
        ("a" * 50, f'"{"a" * 40}…"'),
        ("a\ud800\0\n", '"a���"'),
        ([], "a list"),
        ({}, "an object"),
    ],
)
def test_values(value: Any, words: str) -> None:
    assert describe_value(value) == words


def test_quoted_text_can_be_encoded_and_holds_no_control_characters() -> None:
    assert quotable("\ud800\x1b[31m {field}") == "\N{REPLACEMENT CHARACTER}" * 2 + "[31m {field}"


def problem(kind: str, *loc: str | int, **context: Any) -> dict[str, Any]:
    return {"type": kind, "loc": ("body", *loc), "input": 5, "ctx": context, "msg": "Input should be odd"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (problem("missing", "q"), '"q" is missing; add it to the request, as the example at /docs does.'),
        (problem("literal_error", "kind", expected="'a' or 'b'"), '"kind" is 5; it takes "a" or "b".'),
        (problem("less_than", "n", lt=5), '"n" is 5; it takes a number below 5.'),
        (problem("bool_type", "stream"), '"stream" is 5; it takes true or false.'),
        (problem("bool_parsing", "stream"), '"stream" is 5; it takes true or false.'),
        (problem("something_new", "a", 2, "b"), '"a[2].b" is 5: Input should be odd.'),
        (problem("something_new"), '"body" is 5: Input should be odd.'),
    ],
)
def test_sentences(given: dict[str, Any], words: str) -> None:
    assert validation_message([given]) == words


def test_body_is_not_reported_as_a_field() -> None:
    assert field_name(problem("missing")) is None
