"""A configuration as TOML. tomllib reads and writes nothing; flat tables of plain values need little."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, asdict
from typing import Any, Literal, get_args, get_origin

from training.configuration.fields import Key, keys
from training.configuration.lyrics import LyricsConfig
from training.configuration.translator import TranslatorConfig
from training.configuration.values import NONE


def literal(value: Any) -> str:
    """A TOML value. None is the text "none"."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(literal, value))}]"
    text = json.dumps(NONE if value is None else value, ensure_ascii=False)
    return text.replace("\x7f", "\\u007f")  # which JSON may hold as it is and TOML may not


def name_of(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else literal(key)


def table(values: Mapping[str, Any], comments: Mapping[str, str] | None = None, prefix: str = "") -> Iterator[str]:
    """Lines: a table's own values first, then its tables."""
    for name, value in values.items():
        if not isinstance(value, Mapping):
            comment = (comments or {}).get(prefix + name, "")
            yield f"{name_of(name)} = {literal(value)}" + (f"  # {comment}" if comment else "")
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield f"\n[{'.'.join(name_of(part) for part in [*filter(None, prefix.split('.')), name])}]"
            yield from table(value, comments, f"{prefix}{name}.")


def explained(config: TranslatorConfig | LyricsConfig) -> str:
    """Every option of a config with what it means, those of the network that keep their default too."""
    known = keys(type(config))
    values = asdict(config)
    values["network"] = {**_network_defaults(known), **values["network"]}
    return "\n".join(table(values, {name: _comment(key) for name, key in known.items()})) + "\n"


def _comment(key: Key) -> str:
    """The choices, where there is a choice, and what the source says."""
    choices = " | ".join(map(str, get_args(key.annotation))) if get_origin(key.annotation) is Literal else ""
    return "; ".join(filter(None, [choices, key.comment]))


def _network_defaults(known: Mapping[str, Key]) -> dict[str, Any]:
    inside = ((name.removeprefix("network."), key) for name, key in known.items() if name.startswith("network."))
    return {name: key.default for name, key in inside if key.default is not MISSING}
