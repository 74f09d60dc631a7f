"""Recipes: named, complete configurations. `recipes.toml` holds them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, Generic

from training.config.overrides import with_table
from training.config.run_config import Config, LyricsConfig, TranslatorConfig

MEDIUM_TEXT = 300_000  # characters


@dataclass(frozen=True, slots=True)
class Recipe(Generic[Config]):
    """A named configuration. summary: its purpose, in a sentence or two."""

    summary: str
    config: Config


def lyricist_for(characters: int) -> str:
    return "medium" if characters >= MEDIUM_TEXT else "small"


def _recipes(kind: type[Config], tables: Mapping[str, Mapping[str, Any]]) -> dict[str, Recipe[Config]]:
    def config_of(name: str) -> Config:
        options = {key: value for key, value in tables[name].items() if key not in ("summary", "base")}
        base = config_of(tables[name]["base"]) if "base" in tables[name] else kind(recipe=name)
        return with_table(base, {**options, "recipe": name})

    return {name: Recipe(table["summary"], config_of(name)) for name, table in tables.items()}


_TABLES = tomllib.loads((resources.files(__package__) / "recipes.toml").read_text("utf-8"))
TRANSLATORS = _recipes(TranslatorConfig, _TABLES["translator"])
LYRICISTS = _recipes(LyricsConfig, _TABLES["lyrics"])
