"""Translates texts of any length, layout and format, sentence by sentence. `pipeline` is the way of a text from top to
bottom, `sentence` that of a sentence, and `driver` runs them with the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from app.engine.interface import Notice, TranslationOptions
from app.text.page_parser import NO_RULES, TagRules

TextFormat = Literal["text", "html", "xml"]  # "xml": well-formed

# Called once for a plain text, in a thread, with all its sentences in order and its options; about 0.3 ms a sentence.
# Returns for each sentence the options that it is translated with (the given ones, or those of another language pair),
# a notice with which it stays as it is, or None if it stays without one. `mixed_languages.MixedText.of` is the caller.
SentenceLanguages = Callable[[Sequence[str], TranslationOptions], Sequence[TranslationOptions | Notice | None]]


@dataclass(frozen=True, slots=True)
class TextRequest:
    """A text to translate. options: of all sentences; the prefix applies to the first. glossary: source term -> target
    term. split: whether to split into sentences; else only text too long for the model is split. unchanged: a notice
    with which the text is returned untranslated. languages: of the sentences of a text that may have several; None:
    `options` are those of all sentences. tags: what the client says about a page's elements."""

    text: str
    options: TranslationOptions
    format: TextFormat = "text"
    glossary: Mapping[str, str] = field(default_factory=dict)
    split: bool = True
    unchanged: Notice | None = None
    languages: SentenceLanguages | None = None
    tags: TagRules = NO_RULES
