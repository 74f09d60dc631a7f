"""Types of request fields that several families share, and the sentences that say what is wrong with a field."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

from fastapi import Path
from pydantic import AfterValidator, BaseModel, Field
from pydantic_core import ErrorDetails, PydanticCustomError

_MAX_QUOTED_CHARACTERS = 40
_MAX_REPORTED = 10  # problems of one request that its answer names
_MAX_PRINTED_NUMBER = 10**19
_MAX_NAME_CHARACTERS = 200
_DIGITS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


def doc(description: str, *examples: object, **constraints: Any) -> Any:
    """A field of a schema, with the description and the examples that the OpenAPI document shows."""
    return Field(description=description, examples=list(examples), **constraints)


optional = partial(doc, default=None)  # of a field that may be left out


def example_of(schema: type[BaseModel], **changes: object) -> dict[str, object]:
    """The first example of each field of a schema, but for `changes`."""
    return {name: (field.examples or [None])[0] for name, field in schema.model_fields.items()} | changes


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


def validation_message(problems: Sequence[ErrorDetails]) -> str:
    """One message for the first of pydantic's `problems`, with the number of all."""
    shown = problems[:_MAX_REPORTED]
    missing = [f'"{field_name(problem)}"' for problem in shown if problem["type"] == "missing"]
    sentences = [_problem_message(problem) for problem in shown if problem["type"] != "missing"]
    if missing:
        *others, last = missing
        what = f"{', '.join(others)} and {last} are missing; add them" if others else f"{last} is missing; add it"
        sentences.insert(0, f"{what} to the request, as the example at /docs does.")
    more = len(problems) - len(shown)
    if len(sentences) == 1 and not more:
        return sentences[0]
    joined = "; ".join(each.rstrip(".").replace("; ", ", ") for each in sentences)
    if more:
        return f"{len(sentences) + more:,} problems: {joined}; and {more:,} more."
    return f"{len(sentences)} problems: {joined}{'' if joined.endswith('?') else '.'}"


def field_name(problem: ErrorDetails) -> str | None:
    """The path of the input at fault, as in `layers[2]`; None for the body as a whole."""
    name = ""
    for part in problem["loc"][1:]:
        name += f"[{part}]" if isinstance(part, int) else f".{part}" if name else str(part)
    return quotable(name) or None


def quotable(text: str) -> str:
    """A client's text, fit to be quoted in a sentence: short, printable, encodable."""
    printable = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
    return printable if len(printable) <= _MAX_QUOTED_CHARACTERS else f"{printable[:_MAX_QUOTED_CHARACTERS]}…"


def describe_value(value: object) -> str:
    """A JSON value, or a form's `Upload`, as a sentence names it: scalars by their value, others by their kind."""
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
        case dict():
            return "an object"
        case _:
            return "a file"


def _problem_message(problem: ErrorDetails) -> str:
    if problem["type"] == "unknown_field":  # by `RequestFields`
        return str(problem["msg"])
    if problem["type"] == "refused":  # by `field_error`, whose message is the sentence
        field = field_name(problem)
        return f'"{field}" {problem["msg"]}' if field else f"The body {problem['msg']}"
    field = field_name(problem) or "body"
    words = {
        "field": field,
        "thing": f'"{field}" is {describe_value(problem.get("input"))}',
        **{name: _limit(value) for name, value in problem.get("ctx", {}).items()},
    }
    if template := _SENTENCES.get(problem["type"]):
        return template.format(**words)
    return f"{words['thing']}: {problem['msg']}."


def _number(value: float) -> str:
    """Whole numbers in groups of three digits; Python refuses to print integers of thousands of digits."""
    if abs(value) > _MAX_PRINTED_NUMBER:
        return "a very large number"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:g}"


def _limit(value: object) -> str:
    """A number, or pydantic's list of the values allowed, in double quotes as JSON has them."""
    if isinstance(value, int | float):
        return f"{value:,}" if isinstance(value, int) else f"{value:g}"
    return re.sub(r"'([^']*)'", r'"\1"', str(value))


def field_error(predicate: str) -> PydanticCustomError:
    """A validation error whose sentence is the field's name and `predicate`."""
    # `predicate` is passed as a value: braces in quoted text would be read as a template.
    return PydanticCustomError("refused", "{predicate}", {"predicate": predicate})


def check_encodable(text: str) -> str:
    """`text` without lone surrogates, which no encoding can write, and without NUL, which ends strings in C."""
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
    """Checks the length before the lookup, so that no message has to quote a megabyte."""
    if not 1 <= len(text) <= _MAX_NAME_CHARACTERS:
        takes = f"names of models (GET /models) have 1 to {_MAX_NAME_CHARACTERS}."
        raise field_error(f"has {len(text):,} characters; {takes}")
    return text


def not_empty(advice: str, *, blank: bool = False) -> AfterValidator:
    """Refuses a text of no characters. blank: also one of white space alone."""

    def check(text: str) -> str:
        if not (text.strip() if blank else text):
            raise field_error(f"is empty; {advice}")
        return text

    return AfterValidator(check)


def unsupported(sentence: str) -> AfterValidator:
    """Refuses any value but an empty one (null, "", [], false, 0). sentence: may name the {value}."""

    def check(value: object) -> object:
        if value:
            raise field_error(sentence.format(value=value))
        return value

    return AfterValidator(check)


EncodableText = Annotated[str, AfterValidator(check_encodable)]
NonBlankText = Annotated[EncodableText, not_empty("send at least one character that is not white space.", blank=True)]
ModelName = Annotated[EncodableText, AfterValidator(_model_name)]
KeyField = Annotated[
    object,  # of any type: `app.api.access_control` checks it
    doc("Your key, where this server asks for one; it may come as a header as well.", "plk_9hK2mQ7xTzE4bWc1"),
]
PathName = Annotated[ModelName, Path(description="Name of a folder among the checkpoints.", examples=["demo-de-en"])]


def check_texts(value: object, takes: str = "a text or a list of texts") -> str | list[str]:
    """One text or a list of texts, checked before pydantic tries the union, whose errors name each branch."""
    if isinstance(value, str):
        return check_encodable(value)
    if not isinstance(value, list):
        raise field_error(f"is {describe_value(value)}; it takes {takes}.")
    for item in value:
        if not isinstance(item, str):
            raise field_error(f"holds {describe_value(item)}; it takes {takes}.")
        check_encodable(item)
    return value


def parse_number(value: object) -> object:
    """The number of a form's or query's digits."""
    if isinstance(value, str) and _DIGITS.fullmatch(value.strip()):
        return float(value) if "." in value else int(value)
    return value


def parse_bool(value: object) -> object:
    """The boolean of a form's or query's "true" or "false"."""
    return {"true": True, "false": False}.get(value.lower(), value) if isinstance(value, str) else value
