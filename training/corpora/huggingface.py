"""hf:NAME[:CONFIG][:SPLIT] through the `datasets` library, which is no dependency of this project."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from training.corpora.jsonl import Languages, pair_of
from training.corpora.pairs import Row
from training.errors import TrainingError

PREFIX = "hf:"
SPLIT = re.compile(r"(train|validation|valid|val|dev|test)(\[.*\])?")


def read_huggingface(argument: str, languages: Languages | None) -> Iterator[Row]:
    """One row for each row of the data set, numbered from 1."""
    for number, record in rows(argument):
        yield number, *pair_of(record, languages, f"{argument} row {number}")


def rows(argument: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    name, config, split = named(argument)
    try:
        import datasets
    except ImportError:
        raise TrainingError(f"{argument} needs the datasets library: pip install datasets.") from None
    try:
        found = datasets.load_dataset(name, config, split=split)
    except Exception as error:  # the library raises errors of many kinds, its own and those of its file readers
        reason = str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
        raise TrainingError(f"{argument} cannot be loaded ({reason}).") from error
    yield from enumerate(found, start=1)


def named(argument: str) -> tuple[str, str | None, str]:
    """(name, config, split). A single word behind the name is a split if it is called like one, else a config;
    the split is "train" unless another is named, and may be sliced: hf:NAME:train[:1000]."""
    name, *rest = re.split(r":(?![^\[]*\])", argument.removeprefix(PREFIX))
    if not name or len(rest) > 2 or "" in rest:
        raise TrainingError(f"{argument} is no data set's name: write hf:NAME, hf:NAME:CONFIG or hf:NAME:CONFIG:SPLIT.")
    if len(rest) == 2:
        return name, rest[0], rest[1]
    if rest and SPLIT.fullmatch(rest[0]):
        return name, None, rest[0]
    return name, rest[0] if rest else None, "train"
