"""Options of a configuration as fields of pydantic dataclasses, and the sentences about their wrong values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import lru_cache
from itertools import chain
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, dataclass_transform, get_args, get_origin

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from training.errors import CannotStart

T = TypeVar("T")
NONE = "none"  # TOML has no null
OFF = "off"  # as people write it
MOST_INTEGER = 2**63 - 1
RANGE_ERRORS = ("greater_than", "greater_than_equal", "less_than", "less_than_equal")  # pydantic's names
CHECKED = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
Share = Annotated[float, Field(ge=0, le=1)]
Rate = Annotated[float, Field(ge=0, lt=1)]


def option(default: T, help: str, flag: str = "", **bounds: Any) -> T:  # noqa: A002 (what argparse calls it, too)
    """A field with its help text. flag: its option of the command line and what stands for its value there, such as
    "--seed SEED", where it has one beside --set. bounds: ge, gt, le or lt."""
    value: T = Field(default, description=help, json_schema_extra={"flag": flag} if flag else None, **bounds)
    return value


def explained(option: FieldInfo) -> str:
    """Its choices and its help text."""
    choices = " | ".join(map(str, get_args(option.annotation))) if get_origin(option.annotation) is Literal else ""
    return "; ".join(filter(None, [choices, option.description]))


class OutOfRange(ValueError):
    """A number of the option's type, outside its range."""


@dataclass_transform(kw_only_default=True, frozen_default=True)
def options(kind: type[T]) -> type[T]:
    """A class of options as a frozen pydantic dataclass. Its constructor raises CannotStart with every problem."""
    made: Any = dataclass(frozen=True, slots=True, kw_only=True, config=CHECKED)(kind)
    construct = made.__init__

    def construct_or_refuse(self: object, **values: object) -> None:
        try:
            construct(self, **values)
        except ValidationError as error:
            raise CannotStart(list(_problems_of(made.__pydantic_fields__, values, error))) from None

    made.__init__ = construct_or_refuse
    return cast(type[T], made)


def _problems_of(
    fields: Mapping[str, FieldInfo], values: Mapping[str, object], error: ValidationError
) -> Iterator[str]:
    for details in error.errors(include_url=False):
        if not details["loc"]:  # of __post_init__
            yield from details["ctx"]["error"].problems
        elif (name := str(details["loc"][0])) in fields:
            yield f"{name} {_problem(fields[name], values.get(name), details)}"
        else:
            yield f"{name} is no option"


def checked_value(option: FieldInfo, value: object, *, is_text: bool = False) -> object:
    """A value of a TOML file, or a text of the command line, as the option's type. ValueError (OutOfRange) says what
    the key must be."""
    given, annotation = value, option.annotation
    if NoneType in get_args(annotation) and value in (NONE, OFF):
        return None
    if get_origin(annotation) is tuple:  # TOML has lists
        if is_text and isinstance(value, str):
            value = [item.strip() for item in value.strip("[]() ").split(",")]
        value = tuple(value) if isinstance(value, list) else value
    _refuse_huge(value, option)
    try:
        checked = _adapter(option).validate_python(value, strict=False if is_text else None)
    except ValidationError as error:
        found = error.errors(include_url=False)  # of a list of another length, its length first
        details = next((each for each in found if each["type"] in ("missing", "too_long")), found[0])
        kind = OutOfRange if details["type"] in RANGE_ERRORS else ValueError
        raise kind(_problem(option, given, details)) from None
    _refuse_huge(checked, option)  # of a text
    return checked


def _refuse_huge(value: object, option: FieldInfo) -> None:
    """A TOML file holds no larger integer."""
    if isinstance(value, int) and abs(value) > MOST_INTEGER:
        raise ValueError(f"must be {allowed_values(option.annotation)}, not {_format_value(value)}")


@lru_cache(maxsize=256)
def _adapter(option: FieldInfo) -> TypeAdapter[object]:
    annotation: Any = option.annotation
    return TypeAdapter(Annotated[annotation, *option.metadata] if option.metadata else annotation, config=CHECKED)


def _problem(option: FieldInfo, value: object, details: ErrorDetails) -> str:
    """value: the whole one, of which `details` may name an item."""
    if details["type"] == "value_error":
        return str(details["ctx"]["error"])
    if details["type"] in RANGE_ERRORS:
        values = value if isinstance(value, list | tuple) else [details["input"]]
        return f"must {_allowed_range(option)}, not {', '.join(map(_format_number, values))}"
    annotation = option.annotation
    if get_origin(annotation) is tuple and details["type"] not in ("missing", "too_long", "tuple_type"):
        annotation, value = get_args(annotation)[0], details["input"]
    return f"must be {allowed_values(annotation)}, not {_format_value(value)}"


def _allowed_range(option: FieldInfo) -> str:
    """The range of a number, or of each number of a list, to end "must ..."."""
    items = [part.__metadata__[0].metadata for part in get_args(option.annotation) if hasattr(part, "__metadata__")]
    bounds: dict[str, Any] = {}
    for bound in [*option.metadata, *chain(*items)]:
        bounds |= asdict(bound)
    low, high = bounds.get("ge", bounds.get("gt")), bounds.get("le", bounds.get("lt"))
    if high is None:
        return f"be {'more than' if 'gt' in bounds else 'at least'} {low}"
    if option.annotation is int:
        return f"lie in {low}..{'2^63-1' if high == MOST_INTEGER else high}"
    return f"lie in {'(' if 'gt' in bounds else '['}{low}, {high}{')' if 'lt' in bounds else ']'}"


def allowed_values(annotation: object) -> str:
    """The values that an option of this type takes, to end "must be ..."."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return f"one of {', '.join(map(str, parts))}"
    if origin is Annotated:
        return allowed_values(parts[0])
    if origin in (Union, UnionType):
        (given,) = (part for part in parts if part is not NoneType)
        return f"{allowed_values(given)} or {NONE}"
    if origin is tuple:
        return f"a list of {len(parts)}, each {allowed_values(parts[0])}"
    return {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}[cast(type, annotation)]


def _format_number(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _format_value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and abs(value) > MOST_INTEGER:
        return f"one of {value.bit_length()} bits"
    return NONE if value is None else repr(value)
