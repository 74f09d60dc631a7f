"""Request fields: the types that several families share, the sentences that say what is wrong with a field, and the
base of bodies: strict types, null as absent, and what happens to fields that a route does not have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache, partial
from typing import Annotated, Any, ClassVar, get_type_hints

from fastapi import Path
from msgspec import NODEFAULT, Meta, Struct, structs
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from app.api.option_names import ForeignOption, foreign_option, is_listed, suggested_name
from app.errors import InvalidRequest
from models.decoding.options import DecodingOptions, OptionError

_MAX_QUOTED_CHARACTERS = 40
_MAX_REPORTED = 10  # problems of one request that its answer names
_MAX_PRINTED_NUMBER = 10**19
_MAX_NAME_CHARACTERS = 200
_DIGITS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


def doc(description: str, *examples: object, **constraints: Any) -> Any:
    """A field of a schema, with the description and the examples that the OpenAPI document shows."""
    return Field(description=description, examples=list(examples), **constraints)


optional = partial(doc, default=None)  # of a field that may be left out


def fields_of(schema: type[Any]) -> dict[str, FieldInfo]:
    """The described fields of a model or an `Answer`, or of a struct or named tuple below the API, which msgspec's
    `Meta` describes."""
    if (own := getattr(schema, "model_fields", None)) is not None:
        return dict(own)
    defaults = {each.name: each.default for each in structs.fields(schema)} if issubclass(schema, Struct) else {}
    return {
        name: (optional if defaults.get(name, NODEFAULT) is None else doc)(meta.description or "", *meta.examples or ())
        for name, hint in get_type_hints(schema, include_extras=True).items()
        for meta in getattr(hint, "__metadata__", ())
        if isinstance(meta, Meta)
    }


def example_of(schema: type[Any], **changes: object) -> dict[str, object]:
    """The first example of each field of a model or an `Answer`, but for `changes`."""
    return {name: (field.examples or [None])[0] for name, field in fields_of(schema).items()} | changes


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
    if problem["type"] == "unknown_field":  # `RequestFields` made it, with a whole sentence
        return str(problem["msg"])
    if problem["type"] == "refused":  # a problem of `field_error`, whose message names the field
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
    """The validation error of one field: its sentence is the field's name, then `predicate`."""
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
PathName = Annotated[ModelName, Path(description="Name of a folder among the checkpoints.", examples=["everyday"])]


def check_texts(value: object, takes: str = "a text or a list of texts") -> str | list[str]:
    """One text or a list of texts. Checked here, because pydantic's error for a union has a part for each branch."""
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
        value = float(value) if "." in value else int(value)
    return whole_number(value)


def whole_number(value: object) -> object:
    """3 for 3.0: JSON has one kind of numbers, and some clients write each with a point."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def parse_bool(value: object) -> object:
    """The boolean of a form's or query's "true" or "false"."""
    return {"true": True, "false": False}.get(value.lower(), value) if isinstance(value, str) else value


_MAX_UNKNOWN = 5  # of them that an answer names
_MAX_COMPARED = 20  # names that no program has, for which a similar one is looked for: each look takes 0.2 ms
_KEY_FIELDS = {"api_key"}  # never suggested: npm libretranslate sends "apiKey", LibreTranslate's page "secret"

Examples = Mapping[str, Mapping[str, object]]


class RequestFields(BaseModel):
    """Base of request bodies: strict (no number is a text, 1 is not true). null is the same as a field that is left
    out, at any depth, for every family: JavaScript and the SDKs generated from OpenAPI documents send it."""

    model_config = ConfigDict(strict=True, json_schema_extra=lambda schema, model: model.describe_nulls(schema))

    # Whether a name that no program in `option_names` has is refused. Routes of other protocols ignore it, since their
    # clients send fields of their own.
    refuses_unknown_names: ClassVar[bool] = False
    examples: ClassVar[Examples] = {}  # whole bodies for the OpenAPI document, by a summary
    takes_files: ClassVar[bool] = False  # whether it is a form with a file, an `Upload`
    starts_work: ClassVar[bool] = True  # whether a full engine refuses it before it is parsed
    # optional fields that a form leaves empty where nothing was chosen
    blank_fields: ClassVar[frozenset[str]] = frozenset()
    charged_fields: ClassVar[tuple[str, ...]] = ("q", "text", "texts", "text_list", "prompt")

    def charged_texts(self) -> Iterator[str]:
        """Every text of the request that counts towards rate limits and quotas."""
        for field in self.charged_fields:
            value = getattr(self, field, None)
            for text in value if isinstance(value, list) else [value]:
                if isinstance(text, str):
                    yield text

    def decoding_options(self, **changes: float | None) -> DecodingOptions:
        """Decoding options: this request's fields that `DecodingOptions` has by the same name, and `changes`. A field
        that is renamed on one side only is not copied. InvalidRequest for options that contradict one another."""
        options = {name: value for name, value in vars(self).items() if name in DecodingOptions.__dataclass_fields__}
        options.update(changes)
        try:
            return DecodingOptions(**options)
        except OptionError as error:
            raise InvalidRequest(str(error), field=error.field) from None

    @classmethod
    def describe_nulls(cls, schema: dict[str, Any]) -> None:
        """In the OpenAPI document a field that may be left out may be null. Forms have no null."""
        for name, field in schema.get("properties", {}).items():
            if cls.takes_files or name in schema.get("required", ()) or _may_be_null(field):
                continue
            kept = {key: field.pop(key) for key in ("default", "description", "examples", "title") if key in field}
            if isinstance(kept.get("default"), dict):  # the inner fields have theirs; generators of clients refuse it
                del kept["default"]
            schema["properties"][name] = {**kept, "anyOf": [*field.pop("anyOf", []), *([field] if field else [])]}
            schema["properties"][name]["anyOf"].append({"type": "null"})
        if required := schema.get("required"):  # come first: options of a base class would
            schema["properties"] = {name: schema["properties"][name] for name in (*required, *schema["properties"])}

    @model_validator(mode="before")
    @classmethod
    def _check_names_and_drop_nulls(cls, fields: object) -> object:
        if not isinstance(fields, dict):
            return fields
        given = {name: value for name, value in fields.items() if value is not None}
        return given if given.keys() <= _names_of(cls) else cls._without_neutral_options(given)

    @classmethod
    def _without_neutral_options(cls, fields: Mapping[str, object]) -> dict[str, object]:
        """`fields` without options of other programs at values that leave the answer as it is. Raises ValidationError
        for those that the route does not have, or names differently."""
        problems, neutral, compared = [], set(), 0
        for name in [name for name in fields if name not in _names_of(cls)]:
            if not is_listed(name):
                compared += 1
                if compared > _MAX_COMPARED:
                    continue
            meant, option = _meant(cls, name)
            if option is not None and option.is_neutral(fields[name]):
                neutral.add(name)
                continue
            if meant is not None and (cls.refuses_unknown_names or meant not in fields):
                way_out = f"did you mean {meant}?"
            elif option is not None:
                way_out = f"{option.instead}."
            elif cls.refuses_unknown_names:
                way_out = f"the fields are {', '.join(sorted(_names_of(cls) - _KEY_FIELDS))}."
            else:
                continue
            shown = quotable(name) or '""'
            sentence = f"There is no field {shown}; {way_out}"
            kind = PydanticCustomError("unknown_field", "{sentence}", {"sentence": sentence})
            problems.append(InitErrorDetails(type=kind, loc=(name,), input=fields[name]))
        if problems:
            problems.sort(key=lambda problem: str(problem["loc"]))
            raise ValidationError.from_exception_data(cls.__name__, problems[:_MAX_UNKNOWN])
        return {name: value for name, value in fields.items() if name not in neutral}


class OwnRequestFields(RequestFields):
    """Base of the bodies of our own routes: a field that a route does not have is refused with the nearest name."""

    model_config = ConfigDict(extra="forbid")

    refuses_unknown_names = True


@cache
def _names_of(model: type[BaseModel]) -> frozenset[str]:
    """As a request spells them."""
    return frozenset(field.alias or name for name, field in model.model_fields.items())


@lru_cache(maxsize=1024)  # some clients send the same fields of their own with every request
def _meant(model: type[BaseModel], name: str) -> tuple[str | None, ForeignOption | None]:
    """The field that a name stands for, or the option of another program that the model has no field for."""
    names = _names_of(model) - _KEY_FIELDS
    meant = suggested_name(name, names)
    return meant, foreign_option(name, names) if meant is None else None


def _may_be_null(field: Mapping[str, Any]) -> bool:
    kinds = [each.get("type") for each in field.get("anyOf", [field])]
    return "null" in kinds
