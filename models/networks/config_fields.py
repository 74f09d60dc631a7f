"""Options of a configuration as dataclass fields."""

from __future__ import annotations

from dataclasses import field
from typing import TypeVar

T = TypeVar("T")


def option(default: T, help: str, *, formerly: str = "") -> T:  # noqa: A002 (what argparse calls it, too)
    """A dataclass field with its help text, and its former name if it was renamed."""
    value: T = field(default=default, metadata={"help": help, "formerly": formerly})
    return value
