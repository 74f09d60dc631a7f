"""Texts of any length, layout and format, translated sentence by sentence; nothing of them is lost on the way.

`prepare` cuts a text into sentences, `text_translator` takes them through `cached_engine` and `repair`, `assemble`
joins their translations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from app.engine.interface import TranslationOptions

TextFormat = Literal["text", "html"]


@dataclass(frozen=True, slots=True)
class TextRequest:
    """options: of all its sentences; the languages are codes of a loaded pair, and the translation of the first
    sentence begins with the prefix. glossary: source terms, and what each becomes. split: whether the text is cut into
    sentences; without it, only where it is too long for the model."""

    text: str
    options: TranslationOptions
    format: TextFormat = "text"
    glossary: Mapping[str, str] = field(default_factory=dict)
    split: bool = True
