"""From what validation finds to one sentence for a person: the thing, the limit, the way out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_SHOWN_CHARACTERS = 40
_LARGEST_SHOWN = 10**19

# pydantic's error types; {thing} is the field and what it is now, the rest comes from the error's own context.
_SENTENCES = {
    "string_type": "{thing}; it takes a text.",
    "int_type": "{thing}; it takes a whole number.",
    "int_parsing": "{thing}; it takes a whole number.",
    "float_type": "{thing}; it takes a number.",
    "bool_type": "{thing}; it takes true or false.",
    "bool_parsing": "{thing}; it takes true or false.",
    "finite_number": "{thing}; it takes a finite number.",
    "list_type": "{thing}; it takes a list.",
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "{thing}; it takes an object."),
    "greater_than": "{thing}; it takes a number above {gt}.",
    "greater_than_equal": "{thing}; it takes {ge} or more.",
    "less_than": "{thing}; it takes a number below {lt}.",
    "less_than_equal": "{thing}; it takes at most {le}.",
    "too_short": '"{field}" has {actual_length} items; it takes at least {min_length}.',
    "too_long": '"{field}" has more than {max_length} items; send fewer.',
    "literal_error": "{thing}; it takes {expected}.",
}


def sentence(problems: Sequence[Mapping[str, Any]]) -> str:
    """All of pydantic's `problems` in one message."""
    missing = [f'"{field_of(problem)}"' for problem in problems if problem["type"] == "missing"]
    sentences = [_missing(missing)] if missing else []
    sentences += [_one(problem) for problem in problems if problem["type"] != "missing"]
    if len(sentences) == 1:
        return sentences[0]
    return f"{len(sentences)} problems: {'; '.join(each.rstrip('.').replace('; ', ', ') for each in sentences)}."


def field_of(problem: Mapping[str, Any]) -> str | None:
    """The input at fault, as in `layers[2]`; None for the body as a whole."""
    name = ""
    for part in problem["loc"][1:]:
        name += f"[{part}]" if isinstance(part, int) else f".{part}" if name else str(part)
    return shown(name) or None


def shown(text: str) -> str:
    """Someone's text, fit to be quoted in a sentence: short, printable, encodable."""
    printable = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
    return printable if len(printable) <= _SHOWN_CHARACTERS else f"{printable[:_SHOWN_CHARACTERS]}…"


def value_shown(value: object) -> str:
    """A JSON value as the subject of a sentence: itself where it is short, or else what kind of value it is."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return _number(value)
        case str():
            return f'"{shown(value)}"'
        case list():
            return "a list"
        case _:
            return "an object"


def _missing(fields: Sequence[str]) -> str:
    if len(fields) == 1:
        return f"{fields[0]} is missing; add it to the request, as the example at /docs does."
    return (
        f"{', '.join(fields[:-1])} and {fields[-1]} are missing; add them to the request, as the example at /docs does."
    )


def _one(problem: Mapping[str, Any]) -> str:
    if problem["type"] == "refused":  # our own validators, which know best (`app.api.fields.refusal`)
        field = field_of(problem)
        return f'"{field}" {problem["msg"]}' if field else f"The body {problem['msg']}"
    field = field_of(problem) or "body"
    words = {
        "field": field,
        "thing": f'"{field}" is {value_shown(problem.get("input"))}',
        **{key: _limit(value) for key, value in problem.get("ctx", {}).items()},
    }
    if template := _SENTENCES.get(problem["type"]):
        return template.format(**words)
    return f"{words['thing']}: {problem['msg']}."


def _number(value: float) -> str:
    """Whole numbers grouped, as people write them; Python refuses to print those of thousands of digits."""
    if abs(value) > _LARGEST_SHOWN:
        return "a very large number"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:g}"


def _limit(value: object) -> str:
    """A number, or pydantic's list of what is allowed, with the quotes of JSON."""
    if isinstance(value, int | float):
        return f"{value:,}" if isinstance(value, int) else f"{value:g}"
    return re.sub(r"'([^']*)'", r'"\1"', str(value))
