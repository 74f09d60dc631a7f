"""A base and what is stated over it -> a config, or every problem in one list."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

from training.configuration.fields import FROM_THE_DATA, Key, keys, type_of_network
from training.configuration.lyrics import LyricsConfig
from training.configuration.problems import raise_all
from training.configuration.translator import TranslatorConfig
from training.configuration.values import checked, parsed
from training.errors import CannotStart

Config = TypeVar("Config", bound=TranslatorConfig | LyricsConfig)


@dataclass(frozen=True, slots=True)
class Statement:
    """A key, its value and where it stands: a file's name or an option. is_text: from the command line."""

    key: str
    value: Any
    origin: str
    is_text: bool = False


def statements(table: Mapping[str, Any], origin: str, prefix: str = "") -> Iterator[Statement]:
    """Those of a TOML table, key by key."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from statements(value, origin, f"{prefix}{name}.")
        else:
            yield Statement(prefix + name, value, origin)


def assemble(base: Config, stated: Iterable[Statement], problems: Sequence[str] = ()) -> Config:
    """`base` with all that is stated; what stands later wins. CannotStart lists every problem there is, and
    `problems`, which were found before."""
    given, known = list(stated), keys(type(base))
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


def _value(statement: Statement, known: Mapping[str, Key]) -> Any:
    if statement.key in known:
        read = parsed if statement.is_text else checked
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


def _contradictions(stated: Sequence[Statement]) -> Iterator[str]:
    """One key with two values on the command line; a file's value may be overruled there."""
    seen: dict[str, Statement] = {}
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
    known = keys(kind)
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
