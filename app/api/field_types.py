"""Types of request fields that several families share, and the sentences that say what is wrong with a field."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import Path
from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

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


def validation_message(problems: Sequence[Mapping[str, Any]]) -> str:
    """All of pydantic's `problems` in one message."""
    missing = [f'"{field_name(problem)}"' for problem in problems if problem["type"] == "missing"]
    sentences = [_missing_message(missing)] if missing else []
    sentences += [_problem_message(problem) for problem in problems if problem["type"] != "missing"]
    if len(sentences) == 1:
        return sentences[0]
    return f"{len(sentences)} problems: {'; '.join(each.rstrip('.').replace('; ', ', ') for each in sentences)}."


def field_name(problem: Mapping[str, Any]) -> str | None:
    """The input at fault, as in `layers[2]`; None for the body as a whole."""
    name = ""
    for part in problem["loc"][1:]:
        name += f"[{part}]" if isinstance(part, int) else f".{part}" if name else str(part)
    return quotable(name) or None


def quotable(text: str) -> str:
    """Someone's text, fit to be quoted in a sentence: short, printable, encodable."""
    printable = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
    return printable if len(printable) <= _SHOWN_CHARACTERS else f"{printable[:_SHOWN_CHARACTERS]}…"


def describe_value(value: object) -> str:
    """A JSON value as the subject of a sentence: itself where it is short, or else what kind of value it is."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return _number(value)
        case str():
            return f'"{quotable(value)}"'
        case list():
            return "a list"
        case _:
            return "an object"


def _missing_message(fields: Sequence[str]) -> str:
    if len(fields) == 1:
        return f"{fields[0]} is missing; add it to the request, as the example at /docs does."
    return (
        f"{', '.join(fields[:-1])} and {fields[-1]} are missing; add them to the request, as the example at /docs does."
    )


def _problem_message(problem: Mapping[str, Any]) -> str:
    if problem["type"] == "refused":  # our own validators, which know best (`app.api.field_types.field_error`)
        field = field_name(problem)
        return f'"{field}" {problem["msg"]}' if field else f"The body {problem['msg']}"
    field = field_name(problem) or "body"
    words = {
        "field": field,
        "thing": f'"{field}" is {describe_value(problem.get("input"))}',
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


_MAX_NAME_CHARACTERS = 200
_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


def field_error(predicate: str) -> PydanticCustomError:
    """A validation error in a sentence of its own, whose subject is the field: "prompt" + `predicate`."""
    # Handed over as a value: braces in quoted text would be read as a template.
    return PydanticCustomError("refused", "{predicate}", {"predicate": predicate})


def check_encodable(text: str) -> str:
    """`text` if it has neither half characters, which no encoding can write, nor NUL, which ends texts elsewhere."""
    if "\0" in text:
        raise field_error("holds the character NUL (\\u0000); leave it out.")
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            half = f"\\u{ord(text[error.start]):04x}"
            raise field_error(f"holds half a character ({half}, a lone surrogate); send whole ones.") from None
    return text


def _model_name(text: str) -> str:
    """Checked before it is looked up, so that no message has to quote a megabyte."""
    if not 1 <= len(text) <= _MAX_NAME_CHARACTERS:
        raise field_error(
            f"has {len(text):,} characters; names of models (GET /models) have 1 to {_MAX_NAME_CHARACTERS}."
        )
    return text


EncodableText = Annotated[str, AfterValidator(check_encodable)]
ModelName = Annotated[EncodableText, AfterValidator(_model_name)]
KeyField = Annotated[
    Any,  # what it holds is the gate's to judge
    Field(
        description="Your key, where this server asks for one; it may come as a header as well.",
        examples=["plk_9hK2mQ7xTzE4bWc1"],
    ),
]
PathName = Annotated[ModelName, Path(description="Name of a folder among the checkpoints.", examples=["tiny-de-en"])]


def check_texts(value: Any) -> Any:
    """Before pydantic tries the union: its report on each branch says less than one sentence."""
    items = value if isinstance(value, list) else [value]
    for item in items:
        if not isinstance(item, str):
            inside = "holds" if isinstance(value, list) else "is"
            raise field_error(f"{inside} {describe_value(item)}; it takes a text or a list of texts.")
        check_encodable(item)
    return value


def parse_number(value: Any) -> Any:
    """Forms and query parameters have no numbers, only their digits."""
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        return float(value) if "." in value else int(value)
    return value


def parse_bool(value: Any) -> Any:
    """Forms and query parameters have no booleans, only their names."""
    return {"true": True, "false": False}.get(value.lower(), value) if isinstance(value, str) else value


def check_not_blank(text: str) -> str:
    """`text` if it has more than white space."""
    if not text.strip():
        raise field_error("is empty; send at least one character that is not white space.")
    return text
