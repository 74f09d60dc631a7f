"""Merges stated options into a base configuration, or reports every problem in one list."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, cast, get_type_hints

from pydantic import Field
from pydantic.fields import FieldInfo

from models.networks.recurrent import RecurrentConfig
from models.networks.transformer import TransformerConfig
from training.config.options import OutOfRange, checked_value
from training.config.run_config import Config, LyricsConfig, TranslatorConfig
from training.errors import CannotStart, raise_all

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

NETWORK_CONFIGS: dict[type, type[DataclassInstance]] = {
    TranslatorConfig: TransformerConfig,
    LyricsConfig: RecurrentConfig,
}
FROM_THE_DATA = {"vocabulary", "source_vocabulary", "target_vocabulary", "pad"}  # options set by the corpus


@dataclass(frozen=True, slots=True)
class Override:
    """A key with its value and origin: a file name or command-line option. is_text: the value is an unparsed string."""

    key: str
    value: object
    origin: str
    is_text: bool = False


def options_of(kind: type[DataclassInstance]) -> Mapping[str, FieldInfo]:
    """Options by dotted key, in field order; the options of nested configs follow."""
    own, inner = dict[str, FieldInfo](), dict[str, FieldInfo]()
    for name, option in _fields_of(kind).items():
        part = NETWORK_CONFIGS.get(kind) if name == "network" else option.annotation
        if isinstance(part, type) and is_dataclass(part):
            inner |= {f"{name}.{key}": one for key, one in options_of(part).items() if key not in FROM_THE_DATA}
        else:
            own[name] = option
    return own | inner


@cache
def _fields_of(kind: type[DataclassInstance]) -> Mapping[str, FieldInfo]:
    """Of a class of this package, or of a network's config, which is a dataclass without pydantic."""
    if kind not in NETWORK_CONFIGS.values():
        return cast(Any, kind).__pydantic_fields__  # type: ignore[no-any-return]
    hints, options = get_type_hints(kind), dict[str, FieldInfo]()
    for field in fields(kind):
        default = ... if field.default is MISSING else field.default
        described = Field(default, description=field.metadata.get("help"))
        options[field.name] = FieldInfo.from_annotated_attribute(hints[field.name], described)
    return options


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
    values, outside = dict[str, object](), dict[str, str]()
    for override in overrides:
        key = override.key
        values.pop(key, None)
        outside.pop(key, None)
        try:
            values[key] = _value(override, known)
        except OutOfRange as error:
            outside[key] = f"{key} {error}"
        except ValueError as error:
            problems.append(f"{key} {error} ({override.origin})")
    problems += [outside[key] for key in known if key in outside]
    problems += _network_problems(type(base), {**base.network, **_part(values, "network")})
    try:
        config = _with_values(base, values)
    except CannotStart as error:
        raise CannotStart([*problems, *error.problems]) from error
    raise_all(problems)
    return config


def _value(override: Override, known: Mapping[str, FieldInfo]) -> object:
    if override.key in known:
        return checked_value(known[override.key], override.value, is_text=override.is_text)
    parts = [key for key in known if key.startswith(f"{override.key}.")]
    if parts:
        raise ValueError(f"is a group of options, such as {parts[0]}")
    raise ValueError(f"is no option{did_you_mean(_nearest_key(override.key, known))}")


def _nearest_key(key: str, known: Iterable[str]) -> list[str]:
    """The closest key by the name after its last dot or a word of it, in the group of the key if there is one."""
    group, _, name = key.rpartition(".")
    groups = difflib.get_close_matches(group, {other.rpartition(".")[0] for other in known}, 1, 0.7)
    for candidates in ([other for other in known if other.rpartition(".")[0] in groups], known):
        names = {other.rpartition(".")[2]: other for other in candidates}
        words = {word: other for last, other in names.items() for word in last.split("_")}
        spellings = words | names
        if near := difflib.get_close_matches(name, spellings, 1, 0.75):
            return [spellings[near[0]]]
    return []


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


def with_table(base: Config, table: Mapping[str, object]) -> Config:
    """`base` with the options of nested tables, whose values are known to be right."""
    known = options_of(type(base))
    stated = ((override.key, override.value) for override in table_overrides(table, ""))
    return _with_values(base, {key: checked_value(known[key], value) for key, value in stated})


def _with_values(base: Config, values: Mapping[str, object]) -> Config:
    changes: dict[str, Any] = {key: value for key, value in values.items() if "." not in key}
    for name in dict.fromkeys(key.partition(".")[0] for key in values if "." in key):
        part, inner = getattr(base, name), _part(values, name)
        changes[name] = {**part, **inner} if name == "network" else replace(part, **inner)
    return replace(base, **changes)
