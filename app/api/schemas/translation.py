"""Fields that several ways to have something translated share."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from app.api.fields import SoundText, as_number, as_truth, refusal, sound, text_or_texts
from app.api.wording import shown, value_shown
from app.translation.job import TextFormat

MAX_GLOSSARY_TERMS = 1000
MAX_TERM_CHARACTERS = 200
_GLOSSARY_TAKES = 'it takes an object of source terms and what each becomes, such as {"Bier": "ale"}.'


class Texts(BaseModel):
    """One text, or several at once."""

    model_config = ConfigDict(strict=True)

    q: Annotated[str | list[str], BeforeValidator(text_or_texts)] = Field(
        description="The text, or a list of texts.", examples=["Ich möchte ein Bier"]
    )

    @field_validator("q")
    @classmethod
    def _something(cls, value: str | list[str]) -> str | list[str]:
        if not value:
            raise refusal("is empty; send a text or a list of texts.")
        return value

    @property
    def texts(self) -> list[str]:
        return [self.q] if isinstance(self.q, str) else self.q


class TranslationOptions(BaseModel):
    """Between which languages, by which model, and how it searches. In forms and query parameters numbers are their
    digits, true and false their names, and an object its JSON."""

    model_config = ConfigDict(strict=True)

    source: SoundText = Field(
        description='Language code of the text, in any case, or "auto" to detect it among the languages that have'
        " a model for this target.",
        examples=["de"],
    )
    target: SoundText = Field(description="Language code to translate to, in any case.", examples=["en"])
    format: TextFormat = Field(
        default="text",
        description='"text", or "html": tags stay as they are, and what stands between them is translated.',
        examples=["text"],
    )
    model: SoundText | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="Name of the translator, where several have this pair; by default the first by name.",
        examples=["demo-de-en"],
    )
    glossary: dict[str, str] | None = Field(
        default=None,
        description="Source terms, and what each becomes in the translation: at most 1,000, of 200 characters each.",
        examples=[{"Bier": "ale"}],
    )
    beam_size: Annotated[int | None, BeforeValidator(as_number)] = Field(
        default=None,
        ge=1,
        description="Hypotheses that the beam search keeps; 1 is greedy. By default the server's own number.",
        examples=[4],
    )
    length_penalty: Annotated[float | None, BeforeValidator(as_number)] = Field(
        default=None,
        ge=0,
        le=5,
        allow_inf_nan=False,
        description="Exponent of the length by which the beam search divides scores: above 1 favours long"
        " translations, 0 short ones. By default the server's own.",
        examples=[1.0],
    )
    max_new_tokens: Annotated[int | None, BeforeValidator(as_number)] = Field(
        default=None,
        ge=1,
        description="Tokens at most in the translation of one sentence; what this cuts has the `finishReason`"
        ' "length". By default as many as the model takes.',
        examples=[256],
    )
    no_repeat_ngram_size: Annotated[int, BeforeValidator(as_number)] = Field(
        default=0,
        ge=0,
        le=100,
        description="No run of so many tokens comes twice in the translation of one sentence; 0: off.",
        examples=[0],
    )
    split: Annotated[bool, BeforeValidator(as_truth)] = Field(
        default=True,
        description="Translate sentence by sentence; false: only what is too long for the model is split.",
        examples=[True],
    )

    @field_validator("source", "target")
    @classmethod
    def _code(cls, value: str) -> str:
        if not value.strip():
            raise refusal("is empty; send a language code as GET /languages lists them.")
        return value.strip()

    @field_validator("glossary", mode="before")
    @classmethod
    def _terms(cls, value: object) -> object:
        if isinstance(value, str):
            value = _object(value)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise refusal(f"is {value_shown(value)}; {_GLOSSARY_TAKES}")
        if len(value) > MAX_GLOSSARY_TERMS:
            raise refusal(f"has {len(value):,} terms; one request takes {MAX_GLOSSARY_TERMS:,}.")
        for source, target in value.items():
            _check_term(source)
            if not isinstance(target, str):
                raise refusal(f'has {value_shown(target)} for "{shown(source)}"; {_GLOSSARY_TAKES}')
            _check_term(target)
        return value


def _object(text: str) -> Any:
    """As forms write it; whatever is no JSON is refused as the text that it is."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text or None  # an empty field of a form is one that nobody filled in
    return found if isinstance(found, dict) else text


def _check_term(term: str) -> None:
    sound(term)
    if not term.strip():
        raise refusal("has an empty term; each takes at least one character that is not white space.")
    if len(term) > MAX_TERM_CHARACTERS:
        raise refusal(f"has a term of {len(term):,} characters; each may have {MAX_TERM_CHARACTERS}.")
