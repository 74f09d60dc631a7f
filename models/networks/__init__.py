"""The networks that are trained, decoded and inspected, and the options of their configurations as dataclass fields. To
change a network, edit its module here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import TypeVar

T = TypeVar("T")
MOST_LAYERS, MOST_SIZE = 1000, 10_000_000  # beyond, no machine holds a network, and building it would never end


def option(default: T, help: str) -> T:  # noqa: A002 (what argparse calls it, too)
    """A dataclass field with its help text."""
    value: T = field(default=default, metadata={"help": help})
    return value


def size_problems(config: object, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        size, most = getattr(config, name), MOST_LAYERS if name.endswith("layers") else MOST_SIZE
        if not isinstance(size, int) or size < 1:
            yield f"{name} must be a whole number of at least 1, not {size!r}"
        elif size > most:
            yield f"{name} must be at most {most:,}, not {size:,}"


def rate_problems(config: object, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        if not 0 <= (rate := getattr(config, name)) < 1:
            yield f"{name} must lie in [0, 1), not {rate}"
