"""Merges stated options into a base configuration, or reports every problem in one list."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from models.networks.recurrent import RecurrentConfig
from models.networks.transformer import TransformerConfig
from training.config.run_config import Config, LyricsConfig, TranslatorConfig, raise_all
from training.errors import CannotStart

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

NETWORK_CONFIGS: dict[type, type[DataclassInstance]] = {
    TranslatorConfig: TransformerConfig,
    LyricsConfig: RecurrentConfig,
}
FROM_THE_DATA = {"vocabulary", "source_vocabulary", "target_vocabulary", "pad"}  # options set by the corpus
NONE = "none"  # TOML has no null


@dataclass(frozen=True, slots=True)
class Option:
    """A config option. annotation: resolved type. default: MISSING if required. formerly: the former key or empty."""

    annotation: object
    default: object
    help: str
    formerly: str


@dataclass(frozen=True, slots=True)
class Override:
    """A key with its value and origin: a file name or command-line option. is_text: the value is an unparsed string."""

    key: str
    value: object
    origin: str
    is_text: bool = False


def options_of(kind: type[DataclassInstance]) -> Mapping[str, Option]:
    """Options by dotted key, in field order; the options of nested configs follow."""
    hints, own, inner = get_type_hints(kind), dict[str, Option](), dict[str, Option]()
    for field in fields(kind):
        part = NETWORK_CONFIGS.get(kind) if field.name == "network" else hints[field.name]
        if isinstance(part, type) and is_dataclass(part):
            for name, option in options_of(part).items():
                if name not in FROM_THE_DATA:
                    formerly = option.formerly and f"{field.name}.{option.formerly}"
                    inner[f"{field.name}.{name}"] = replace(option, formerly=formerly)
        else:
            default = field.default if field.default_factory is MISSING else field.default_factory()
            known = (field.metadata.get(name, "") for name in ("help", "formerly"))
            own[field.name] = Option(hints[field.name], default, *known)
    return own | inner


def with_current_keys(kind: type[DataclassInstance], overrides: Sequence[Override]) -> tuple[list[Override], list[str]]:
    """The overrides under current keys, and a sentence for each former key."""
    current = {option.formerly: key for key, option in options_of(kind).items() if option.formerly}
    renamed = dict.fromkeys(override.key for override in overrides if override.key in current)
    stated = [replace(override, key=current.get(override.key, override.key)) for override in overrides]
    return stated, [f"{key} is now called {current[key]}" for key in renamed]


def allowed_values(annotation: object) -> str:
    """The values that a key of this type takes, to end "must be ..."."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return f"one of {', '.join(map(str, parts))}"
    if origin in (Union, UnionType):
        return f"{allowed_values(_type_where_given(annotation))} or {NONE}"
    if origin is tuple:
        return f"a list of {len(parts)}, each {allowed_values(parts[0])}"
    return {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}[cast(type, annotation)]


def check_value(value: object, annotation: object) -> object:
    """A TOML value as the type; int is accepted for float, bool is no number. ValueError names the allowed values."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return None if value == NONE or value is None else check_value(value, _type_where_given(annotation))
    if origin is Literal and isinstance(value, str) and value in parts:
        return value
    if origin is tuple and isinstance(value, list | tuple) and len(value) == len(parts):
        return tuple(check_value(v, part) for v, part in zip(value, parts, strict=True))
    if annotation is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if annotation in (int, bool, str) and type(value) is annotation:
        return value
    raise ValueError(f"must be {allowed_values(annotation)}, not {_format_value(value)}")


def parse_value(text: str, annotation: object) -> object:
    """Parses a command-line value. ValueError names the allowed values."""
    origin, parts = get_origin(annotation), get_args(annotation)
    try:
        if origin in (Union, UnionType):
            return None if text == NONE else parse_value(text, _type_where_given(annotation))
        if origin is tuple:
            items = text.strip("[]() ").split(",")
            return check_value([parse_value(item.strip(), parts[0]) for item in items], annotation)
        if annotation is bool:
            return {"true": True, "false": False}[text.lower()]
        if annotation is int or annotation is float:
            return int(text) if annotation is int else float(text)
        return check_value(text, annotation)
    except (ValueError, KeyError):
        raise ValueError(f"must be {allowed_values(annotation)}, not {_format_value(text)}") from None


def _format_value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return NONE if value is None else repr(value)


def _type_where_given(annotation: object) -> object:
    (given,) = (part for part in get_args(annotation) if part is not NoneType)
    return given


def table_overrides(table: Mapping[str, object], origin: str, prefix: str = "") -> Iterator[Override]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from table_overrides(value, origin, f"{prefix}{name}.")
        else:
            yield Override(prefix + name, value, origin)


def assemble(base: Config, overrides: Sequence[Override], earlier_problems: Sequence[str] = ()) -> Config:
    """`base` with all overrides; the last one of a key wins. CannotStart lists problems, `earlier_problems` first."""
    known = options_of(type(base))
    problems = [*earlier_problems, *_contradictions(overrides)]
    values: dict[str, object] = {}
    for override in overrides:
        try:
            values[override.key] = _value(override, known)
        except ValueError as error:
            problems.append(f"{override.key} {error} ({override.origin})")
    problems += _network_problems(type(base), {**base.network, **_part(values, "network")})
    try:
        config = _with_values(base, values)
    except CannotStart as error:
        raise CannotStart([*problems, *error.problems]) from error
    raise_all(problems)
    return config


def _value(override: Override, known: Mapping[str, Option]) -> object:
    if override.key in known:
        value, annotation = override.value, known[override.key].annotation
        return parse_value(str(value), annotation) if override.is_text else check_value(value, annotation)
    parts = [key for key in known if key.startswith(f"{override.key}.")]
    if parts:
        raise ValueError(f"is a group of options, such as {parts[0]}")
    raise ValueError(f"is no option{did_you_mean(_nearest_key(override.key, known))}")


def _nearest_key(key: str, known: Mapping[str, Option]) -> list[str]:
    """Closest keys by full spelling, former keys included, else by the name behind the last dot."""
    spellings = {**{option.formerly: name for name, option in known.items()}, **{name: name for name in known}}
    last_names = {spelling.rpartition(".")[2]: name for spelling, name in reversed(spellings.items())}
    near = [spellings[match] for match in difflib.get_close_matches(key, spellings, 1, 0.7)]
    last = key.rpartition(".")[2]
    return near or [last_names[match] for match in difflib.get_close_matches(last, last_names, 1, 0.75)]


def did_you_mean(suggestions: Sequence[str]) -> str:
    return f", did you mean {suggestions[0]}?" if suggestions else ""


def _contradictions(overrides: Sequence[Override]) -> Iterator[str]:
    """Keys with two values on the command line; overriding a value from a file is fine."""
    first: dict[str, Override] = {}
    for override in overrides:
        if override.is_text:
            earlier = first.setdefault(override.key, override)
            if earlier.value != override.value:
                values = f"{earlier.value} ({earlier.origin}) and {override.value} ({override.origin})"
                yield f"{override.key} is given twice: {values}"


def _part(values: Mapping[str, object], name: str) -> dict[str, object]:
    return {key.partition(".")[2]: value for key, value in values.items() if key.startswith(f"{name}.")}


def _network_problems(kind: type[DataclassInstance], network: Mapping[str, object]) -> Iterator[str]:
    """Problems that the network's own config reports for these values, before any data is read."""
    known, network_config = options_of(kind), NETWORK_CONFIGS[kind]
    fitting = {name: value for name, value in network.items() if f"network.{name}" in known}
    yield from (f"network.{name} is no option" for name in network if name not in fitting)
    sizes = {field.name: 8 for field in fields(network_config) if field.name in FROM_THE_DATA - {"pad"}}
    try:
        network_config(**fitting, **sizes)
    except ValueError as error:
        yield from (f"network.{problem}" for problem in str(error).removesuffix(".").split("; "))


def _with_values(base: Config, values: Mapping[str, object]) -> Config:
    changes: dict[str, Any] = {key: value for key, value in values.items() if "." not in key}
    for name in dict.fromkeys(key.partition(".")[0] for key in values if "." in key):
        part, inner = getattr(base, name), _part(values, name)
        changes[name] = {**part, **inner} if name == "network" else replace(part, **inner)
    return replace(base, **changes)
