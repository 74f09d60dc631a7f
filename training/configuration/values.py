"""Values as a key's type has them, from TOML and from texts. ValueError says what is allowed."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

NONE = "none"  # TOML has no null


def allowed(annotation: Any) -> str:
    """What may stand for a key of this type, to end "must be ..."."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return f"one of {', '.join(map(str, parts))}"
    if origin in (Union, UnionType):
        return f"{allowed(_given(annotation))} or {NONE}"
    if origin is tuple:
        return f"a list of {len(parts)}, each {allowed(parts[0])}"
    return {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}[annotation]


def checked(value: Any, annotation: Any) -> Any:
    """A value read from TOML. A whole number will do for a float; a truth value is no number."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return None if value == NONE or value is None else checked(value, _given(annotation))
    if origin is Literal and isinstance(value, str) and value in parts:
        return value
    if origin is tuple and isinstance(value, list | tuple) and len(value) == len(parts):
        return tuple(checked(v, part) for v, part in zip(value, parts, strict=True))
    if annotation is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if annotation in (int, bool, str) and type(value) is annotation:
        return value
    raise ValueError(f"must be {allowed(annotation)}, not {shown(value)}")


def parsed(text: str, annotation: Any) -> Any:
    """A value from the command line, where everything is text."""
    origin, parts = get_origin(annotation), get_args(annotation)
    try:
        if origin in (Union, UnionType):
            return None if text == NONE else parsed(text, _given(annotation))
        if origin is tuple:
            items = text.strip("[]() ").split(",")
            return checked([parsed(item.strip(), parts[0]) for item in items], annotation)
        if annotation is bool:
            return {"true": True, "false": False}[text.lower()]
        if annotation in (int, float):
            return annotation(text)
        return checked(text, annotation)
    except (ValueError, KeyError):
        raise ValueError(f"must be {allowed(annotation)}, not {shown(text)}") from None


def shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value is None else repr(value)


def _given(annotation: Any) -> Any:
    """The type of an optional value where it is given."""
    (given,) = (part for part in get_args(annotation) if part is not NoneType)
    return given
