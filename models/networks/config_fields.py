"""Options of a configuration as dataclass fields, and the checks of their values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import TypeVar

T = TypeVar("T")


def option(default: T, help: str, *, formerly: str = "") -> T:  # noqa: A002 (what argparse calls it, too)
    """A dataclass field with its help text, and its former name if it was renamed."""
    value: T = field(default=default, metadata={"help": help, "formerly": formerly})
    return value


def size_problems(config: object, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        if not isinstance(size := getattr(config, name), int) or size < 1:
            yield f"{name} must be a whole number of at least 1, not {size!r}"


def rate_problems(config: object, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        if not 0 <= (rate := getattr(config, name)) < 1:
            yield f"{name} must lie in [0, 1), not {rate}"
