"""A base configuration and the options stated over it -> a configuration, or every problem in one list."""

from __future__ import annotations

import ast
import difflib
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from models.networks.layers import TransformerConfig
from models.networks.recurrent import RecurrentConfig
from training.config.run_config import LyricsConfig, TranslatorConfig, raise_all
from training.errors import CannotStart

type_of_network: dict[type, type] = {TranslatorConfig: TransformerConfig, LyricsConfig: RecurrentConfig}
FROM_THE_DATA = {"vocabulary", "source_vocabulary", "target_vocabulary", "pad"}  # no user sets these


@dataclass(frozen=True, slots=True)
class Option:
    """annotation: the type, resolved; default: MISSING where there is none."""

    annotation: Any
    default: Any
    comment: str


def options_of(kind: type) -> Mapping[str, Option]:
    """Dotted names in the order of the fields, a part's behind those of the whole."""
    return dict(sorted(_options_of(kind), key=lambda item: item[0].count(".")))


def _options_of(kind: type) -> Iterator[tuple[str, Option]]:
    hints, said = get_type_hints(kind), option_help(kind)
    for field in fields(kind):
        part = type_of_network.get(kind) if field.name == "network" else hints[field.name]
        if part is not None and is_dataclass(part):
            assert isinstance(part, type)
            yield from ((f"{field.name}.{name}", key) for name, key in _options_of(part) if name not in FROM_THE_DATA)
        else:
            default = field.default if field.default_factory is MISSING else field.default_factory()
            yield field.name, Option(hints[field.name], default, said.get(field.name, ""))


def option_help(kind: type) -> Mapping[str, str]:
    """What the source says of each field: the comment on its line, or the docstring behind `name:`."""
    source = inspect.getsource(kind)
    names = [field.name for field in fields(kind)]
    paragraphs = [" ".join(part.split()) for part in (inspect.getdoc(kind) or "").split("\n\n")]
    mark = re.compile(rf"(?:^|(?<=[.;] ))(?=(?:{'|'.join(names)})(?:, \w+)*: )")
    said = {}
    for part in (part for paragraph in paragraphs for part in mark.split(paragraph)):
        heading, colon, text = part.partition(": ")
        if colon:
            said.update(dict.fromkeys(set(heading.split(", ")) & set(names), text.strip().rstrip(".;")))
    lines = source.splitlines()
    for node in ast.parse(source).body[0].body:  # type: ignore[attr-defined]
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            _, hash_, text = lines[(node.end_lineno or 1) - 1][node.end_col_offset or 0 :].partition("#")
            if hash_:
                said[node.target.id] = "; ".join(filter(None, [said.get(node.target.id), text.strip()]))
    return said


NONE = "none"  # TOML has no null


def allowed_values(annotation: Any) -> str:
    """What may stand for a key of this type, to end "must be ..."."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return f"one of {', '.join(map(str, parts))}"
    if origin in (Union, UnionType):
        return f"{allowed_values(_given(annotation))} or {NONE}"
    if origin is tuple:
        return f"a list of {len(parts)}, each {allowed_values(parts[0])}"
    return {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}[annotation]


def check_value(value: Any, annotation: Any) -> Any:
    """A value read from TOML. A whole number will do for a float; a truth value is no number."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return None if value == NONE or value is None else check_value(value, _given(annotation))
    if origin is Literal and isinstance(value, str) and value in parts:
        return value
    if origin is tuple and isinstance(value, list | tuple) and len(value) == len(parts):
        return tuple(check_value(v, part) for v, part in zip(value, parts, strict=True))
    if annotation is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if annotation in (int, bool, str) and type(value) is annotation:
        return value
    raise ValueError(f"must be {allowed_values(annotation)}, not {format_value(value)}")


def parse_value(text: str, annotation: Any) -> Any:
    """A value from the command line, where everything is text."""
    origin, parts = get_origin(annotation), get_args(annotation)
    try:
        if origin in (Union, UnionType):
            return None if text == NONE else parse_value(text, _given(annotation))
        if origin is tuple:
            items = text.strip("[]() ").split(",")
            return check_value([parse_value(item.strip(), parts[0]) for item in items], annotation)
        if annotation is bool:
            return {"true": True, "false": False}[text.lower()]
        if annotation in (int, float):
            return annotation(text)
        return check_value(text, annotation)
    except (ValueError, KeyError):
        raise ValueError(f"must be {allowed_values(annotation)}, not {format_value(text)}") from None


def format_value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value is None else repr(value)


def _given(annotation: Any) -> Any:
    """The type of an optional value where it is given."""
    (given,) = (part for part in get_args(annotation) if part is not NoneType)
    return given


Config = TypeVar("Config", bound=TranslatorConfig | LyricsConfig)


@dataclass(frozen=True, slots=True)
class Override:
    """A key, its value and where it stands: a file's name or an option. is_text: from the command line."""

    key: str
    value: Any
    origin: str
    is_text: bool = False


def statements(table: Mapping[str, Any], origin: str, prefix: str = "") -> Iterator[Override]:
    """Those of a TOML table, key by key."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from statements(value, origin, f"{prefix}{name}.")
        else:
            yield Override(prefix + name, value, origin)


def assemble(base: Config, stated: Iterable[Override], problems: Sequence[str] = ()) -> Config:
    """`base` with all that is stated; what stands later wins. CannotStart lists every problem there is, and
    `problems`, which were found before."""
    given, known = list(stated), options_of(type(base))
    found = [*problems, *_contradictions(given)]
    values: dict[str, Any] = {}
    for statement in given:
        try:
            values[statement.key] = _value(statement, known)
        except ValueError as error:
            found.append(f"{statement.key} {error} ({statement.origin})")
    found += _network_problems(type(base), {**base.network, **_part(values, "network")})
    try:
        config: Config = _changed(base, values)
    except CannotStart as error:
        raise CannotStart([*found, *error.problems]) from error
    raise_all(found)
    return config


def _value(statement: Override, known: Mapping[str, Option]) -> Any:
    if statement.key in known:
        read = parse_value if statement.is_text else check_value
        return read(statement.value, known[statement.key].annotation)
    parts = [key for key in known if key.startswith(f"{statement.key}.")]
    if parts:
        raise ValueError(f"is a group of options, such as {parts[0]}")
    last = statement.key.rpartition(".")[2]
    near = difflib.get_close_matches(statement.key, known, 1, 0.7) or [key for key in known if _last(key) == last]
    near = near or [key for key in known if difflib.get_close_matches(last, [_last(key)], 1, 0.75)]
    raise ValueError("is no option" + (f", did you mean {near[0]}?" if near else ""))


def _last(key: str) -> str:
    return key.rpartition(".")[2]


def _contradictions(stated: Sequence[Override]) -> Iterator[str]:
    """One key with two values on the command line; a file's value may be overruled there."""
    seen: dict[str, Override] = {}
    for statement in stated:
        if statement.is_text:
            earlier = seen.setdefault(statement.key, statement)
            if earlier.value != statement.value:
                yield (
                    f"{statement.key} is given twice: {earlier.value} ({earlier.origin}) and"
                    f" {statement.value} ({statement.origin})"
                )


def _part(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key.partition(".")[2]: value for key, value in values.items() if key.startswith(f"{name}.")}


def _network_problems(kind: type, network: Mapping[str, Any]) -> Iterator[str]:
    """What the network's own config says of these numbers, before any data is read."""
    known = options_of(kind)
    fitting = {name: value for name, value in network.items() if f"network.{name}" in known}
    yield from (f"network.{name} is no option" for name in network if name not in fitting)
    sizes = {field.name: 8 for field in fields(type_of_network[kind]) if field.name in FROM_THE_DATA - {"pad"}}
    try:
        type_of_network[kind](**fitting, **sizes)
    except ValueError as error:
        yield from (f"network.{problem}" for problem in str(error).removesuffix(".").split("; "))


def _changed(base: Any, values: Mapping[str, Any]) -> Any:
    changes = {key: value for key, value in values.items() if "." not in key}
    for name in dict.fromkeys(key.partition(".")[0] for key in values if "." in key):
        part, inner = getattr(base, name), _part(values, name)
        changes[name] = _changed(part, inner) if is_dataclass(part) else {**part, **inner}
    return replace(base, **changes)
