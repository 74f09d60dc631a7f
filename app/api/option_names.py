"""The options of vLLM, CTranslate2, transformers, OpenAI, DeepL and LibreTranslate: this server's name for each option
that it has, and a sentence on what it has instead of each other option. They stand in option_names.toml.

An option that a route does not have is never ignored where it could change the answer: the error names our option for
it, or what there is instead. Values of an option that leave the answer as it is are accepted everywhere."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection, Iterator
from difflib import get_close_matches
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from models.decoding.options import ROW_PARAMETERS

_SIMILARITY = 0.8  # difflib's ratio of a misspelt name: "lenght_penalty" has 0.93, "format" and "from" 0.8
_FOREIGN_SIMILARITY = 0.9  # of names that this server does not have, of which there are ten times as many
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class ForeignOption(NamedTuple):
    """An option that a route does not have. neutral: its values that leave the answer as it is."""

    instead: str
    neutral: tuple[object, ...]

    def is_neutral(self, value: object) -> bool:
        """Also as a form's text; an empty one is a field that is left out."""
        if value in ("", [], {}):
            return True
        if isinstance(value, str) and value not in self.neutral:
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):  # thousands of digits or brackets
                return False
        return value in self.neutral


def _read(path: Path) -> tuple[dict[str, tuple[str, ...]], dict[str, ForeignOption], dict[str, ForeignOption]]:
    """Three tables of other programs' names: our fields for them; the options that a route without a temperature lacks;
    and the options that a route with one lacks."""
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    ours = {name: tuple(fields.split()) for fields, names in tables["ours"].items() for name in names.split()}
    draws = [name for name, row in ROW_PARAMETERS.items() if row.kind == "draw" and name != "seed"]
    lyrics = "POST /generate and POST /v1/completions"
    words = {
        "lyrics": lyrics,
        "decoding": f"POST /translate, {lyrics}",
        "draws": " and ".join([", ".join(draws[:-1]), draws[-1]]),
    }
    # what the table of options says of its own rows, unless the file says more
    sentences = {
        "draw": f"only {lyrics} draw tokens, and a translation is searched for",
        "penalty": f"{lyrics} take penalties",
    }
    instead = {
        name: ForeignOption(sentences[row.kind], (row.neutral,))
        for name, row in ROW_PARAMETERS.items()
        if row.kind in sentences and name != "seed"
    }

    def options(table: str) -> Iterator[tuple[str, ForeignOption]]:
        for sentence, entries in tables[table].items():
            for entry in entries.split():
                name, _, values = entry.partition("=")
                neutral = tuple(json.loads(value) for value in values.split("|") if value)
                yield name, ForeignOption(sentence.format(**words), neutral)

    instead |= options("instead")
    return ours, instead, instead | dict(options("instead_if_drawn"))


_OURS, _FOREIGN, _FOREIGN_IF_DRAWN = _read(Path(__file__).with_suffix(".toml"))
_FOREIGN_NAMES = frozenset({*_FOREIGN, *_OURS})
_BY_LETTER = {letter: list(names) for letter, names in groupby(sorted(_FOREIGN_NAMES), itemgetter(0))}


def is_listed(name: str) -> bool:
    """Whether some program has an option of this name."""
    return _spelt(name) in _FOREIGN_NAMES


def foreign_option(name: str, names: Collection[str]) -> ForeignOption | None:
    """The option of another program that `name` is, or misspells, of a route with the fields `names`."""
    options = _FOREIGN_IF_DRAWN if "temperature" in names else _FOREIGN
    spelt = _spelt(name)
    return options.get(spelt) or next((options[near] for near in _foreign_names_like(spelt) if near in options), None)


def suggested_name(name: str, names: Collection[str]) -> str | None:
    """The one of `names` that `name` is a misspelling of, or another program's word for; None where there is none."""
    spelt = _spelt(name)
    for candidate in (spelt, *_OURS.get(spelt, ())):
        if candidate in names:
            return candidate
    if is_listed(name):  # "min_new_tokens" is no misspelt "max_new_tokens"
        return None
    nearest = get_close_matches(spelt, [*names, *_foreign_names_like(spelt)], n=1, cutoff=_SIMILARITY)
    return next((ours for near in nearest for ours in (near, *_OURS.get(near, ())) if ours in names), None)


def _spelt(name: str) -> str:
    return _HUMP.sub("_", name[:100]).lower().replace("-", "_")


def _foreign_names_like(name: str) -> list[str]:
    """The nearest one. Compares a few, since each comparison takes 10 µs and a request may have many names."""
    few = [each for each in _BY_LETTER.get(name[:1], ()) if abs(len(each) - len(name)) <= 2]
    return get_close_matches(name, few, n=1, cutoff=_FOREIGN_SIMILARITY)
