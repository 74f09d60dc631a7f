"""Translates texts of any length, layout and format, sentence by sentence. `prepare` splits a text into sentences,
`text_translator` translates them through `cached_engine` and `repair`, and `assemble` joins the translations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from app.engine.interface import Notice, TranslationOptions

TextFormat = Literal["text", "html"]


@dataclass(frozen=True, slots=True)
class TextRequest:
    """A text to translate. options: of all sentences; the prefix applies to the first. glossary: source term -> target
    term. split: whether to split into sentences; else only text too long for the model is split. unchanged: a notice
    with which the text is returned untranslated. foreign: returns a notice for a sentence in another language than the
    text's, which is left untranslated, and None for any other sentence."""

    text: str
    options: TranslationOptions
    format: TextFormat = "text"
    glossary: Mapping[str, str] = field(default_factory=dict)
    split: bool = True
    unchanged: Notice | None = None
    foreign: Callable[[str], Notice | None] | None = None
