"""What is wrong with a configuration, told in one message.

`problems` of a part yields sentences that begin with the name of the field ("" is none).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import TYPE_CHECKING

from training.errors import CannotStart

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def raise_all(problems: Iterable[str]) -> None:
    found = [problem for problem in problems if problem]
    if found:
        raise CannotStart(found)


def problems_of_parts(config: DataclassInstance) -> Iterator[str]:
    """Those of every part that can say them, each with its whole key."""
    for part in fields(config):
        for problem in getattr(getattr(config, part.name), "problems", tuple)():
            yield f"{part.name}.{problem}" if problem else ""
