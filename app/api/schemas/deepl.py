"""DeepL's fields: texts, languages, usage, errors. As JSON or as a form, whose numbers and booleans are digits."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from app.api.fields import SoundText, filled, refusal, sound
from app.api.wording import value_shown

_TAGS_HELP = "is not empty, and this server cannot honour it: the translation would not be what you ask for; leave it"
_FLAGS = {"1": True, "true": True, "0": False, "false": False, 1: True, 0: False}


def texts(value: Any) -> Any:
    """A form with one text, and clients older than the list."""
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list):
        raise refusal(f"is {value_shown(value)}; it takes a list of texts.")
    for item in items:
        if not isinstance(item, str):
            raise refusal(f"holds {value_shown(item)}; it takes a list of texts.")
        sound(item)
    return items


def _names(value: Any) -> Any:
    """A list, or one text with commas as forms have it, or several such."""
    if value is None:
        return []
    return [name.strip() for item in texts(value) for name in item.split(",") if name.strip()]


def _flag(value: Any) -> Any:
    key = value.strip().lower() if isinstance(value, str) else value
    return _FLAGS.get(key, value) if isinstance(key, str | int) else value


def word(value: Any) -> Any:
    """One of a few words, in any case; an empty field of a form is one that is left out."""
    return value.strip().lower() or None if isinstance(value, str) else value


def _code(value: Any) -> Any:
    return value.strip() or None if isinstance(value, str) else value


Flag = Annotated[bool, BeforeValidator(_flag)]
Names = Annotated[list[SoundText], BeforeValidator(_names)]
Code = Annotated[SoundText | None, BeforeValidator(_code)]  # an empty field of a form is one that is left out


class DeepLTranslateRequest(BaseModel):
    """Texts of one target language. What this server cannot do and what would change the translation is refused."""

    model_config = ConfigDict(strict=True)

    text: Annotated[list[str], BeforeValidator(texts)] = Field(
        min_length=1,
        description="Texts to translate, each on its own. In a form the field is there once for each.",
        examples=[["Ich möchte ein Bier"]],
    )
    target_lang: Annotated[SoundText, AfterValidator(filled)] = Field(
        description="Language to translate to; EN-GB and EN-US are EN here.", examples=["EN-GB"]
    )
    source_lang: Code = Field(
        default=None, description="Language of the texts; without it that of each is detected.", examples=["DE"]
    )
    context: SoundText | None = Field(
        default=None,
        description="Text around the texts. Accepted and not used: these models read a sentence at a time.",
        examples=["In a pub."],
    )
    split_sentences: Annotated[Literal["0", "1", "nonewlines"] | None, BeforeValidator(lambda v: _split(v))] = Field(
        default=None,
        description='"0" translates each text as one sentence, as far as it fits the model; all else splits it. Line'
        " ends stay in any case.",
        examples=["1"],
    )
    preserve_formatting: Flag = Field(
        default=False, description="Accepted: the layout around sentences stays as it is anyway.", examples=[False]
    )
    formality: Annotated[
        Literal["default", "more", "less", "prefer_more", "prefer_less"] | None, BeforeValidator(word)
    ] = Field(
        default=None,
        description="These models have no formality: default, prefer_more and prefer_less are accepted.",
        examples=["default"],
    )
    glossary_id: Code = Field(
        default=None,
        description="A stored glossary of yours (POST /v3/glossaries); needs source_lang.",
        examples=[None],
    )
    glossary_ids: Names = Field(
        default_factory=list,
        max_length=5,
        description="Several of them; where two have a term, the earlier wins.",
        examples=[[]],
    )
    tag_handling: Annotated[Literal["html", "xml"] | None, BeforeValidator(word)] = Field(
        default=None, description="Texts hold tags, which stay in their place.", examples=[None]
    )
    tag_handling_version: Annotated[Literal["v1", "v2"] | None, BeforeValidator(word)] = Field(
        default=None, description="Accepted; this server has one way to handle tags.", examples=["v2"]
    )
    outline_detection: Flag = Field(
        default=True, description="Only true: where a sentence may end is found from the tags.", examples=[True]
    )
    splitting_tags: Names = Field(default_factory=list, description="Refused unless it is empty.", examples=[[]])
    non_splitting_tags: Names = Field(default_factory=list, description="Refused unless it is empty.", examples=[[]])
    ignore_tags: Names = Field(default_factory=list, description="Refused unless it is empty.", examples=[[]])
    model_type: Annotated[
        Literal["quality_optimized", "latency_optimized", "prefer_quality_optimized"] | None, BeforeValidator(word)
    ] = Field(
        default=None,
        description="Accepted: a pair has one model here. `model_type_used` then repeats it.",
        examples=["quality_optimized"],
    )
    show_billed_characters: Flag = Field(default=True, description="Accepted: they are always shown.", examples=[True])
    style_id: Code = Field(default=None, description="Refused: there are no styles here.", examples=[None])
    translation_memory_id: Code = Field(
        default=None, description="Refused: there are no translation memories here.", examples=[None]
    )
    custom_instructions: Annotated[list[str], BeforeValidator(lambda v: [] if v is None else texts(v))] = Field(
        default_factory=list, description="Refused: these models follow no instructions.", examples=[[]]
    )

    @field_validator("formality")
    @classmethod
    def _only_preferred(cls, value: str | None) -> str | None:
        if value in ("more", "less"):
            raise refusal(f'is "{value}", but these models have no formality; send "prefer_{value}" or leave it out.')
        return value

    @field_validator("splitting_tags", "non_splitting_tags", "ignore_tags", "custom_instructions")
    @classmethod
    def _none(cls, value: list[str]) -> list[str]:
        if value:
            raise refusal(f"{_TAGS_HELP} out.")
        return value

    @field_validator("style_id", "translation_memory_id")
    @classmethod
    def _not_here(cls, value: str | None) -> str | None:
        if value:
            raise refusal("names something that this server does not have; leave it out.")
        return value

    @field_validator("outline_detection")
    @classmethod
    def _only_outlined(cls, value: bool) -> bool:
        if not value:
            raise refusal("is false, but this server finds sentences from the tags alone; leave it out.")
        return value

    @model_validator(mode="after")
    def _glossary_of_a_pair(self) -> DeepLTranslateRequest:
        if self.glossaries and self.source_lang is None:
            raise refusal("has a glossary without source_lang; say which language the texts are in.")
        return self

    @property
    def glossaries(self) -> list[str]:
        return [self.glossary_id, *self.glossary_ids] if self.glossary_id else self.glossary_ids


def _split(value: Any) -> Any:
    if isinstance(value, bool | int):
        return str(int(value))
    return word(value)


class DeepLTranslation(BaseModel):
    """One text, translated."""

    detected_source_language: str = Field(
        description="What the text was taken for, or source_lang: in capitals, without a region.", examples=["DE"]
    )
    text: str = Field(description="The translation.", examples=["I want a beer"])
    billed_characters: int = Field(description="Characters (code points) of the text.", examples=[19])
    model_type_used: str | None = Field(
        default=None, description="Only where `model_type` was sent.", examples=["quality_optimized"]
    )
    finish_reason: Literal["length", "repetition"] | None = Field(
        default=None,
        description="Only where a model's limit cut the translation, or it repeats itself. Not of DeepL's form.",
        examples=["length"],
    )


class DeepLTranslateAnswer(BaseModel):
    """In the order of the texts."""

    translations: list[DeepLTranslation] = Field(
        description="One for each text.",
        examples=[[{"detected_source_language": "DE", "text": "I want a beer", "billed_characters": 19}]],
    )


class DeepLLanguage(BaseModel):
    """One language that some loaded model reads (type=source) or writes (type=target)."""

    language: str = Field(description="Code, in capitals.", examples=["EN-GB"])
    name: str = Field(description="English name.", examples=["English (British)"])
    supports_formality: bool | None = Field(
        default=None, description="Only of targets: never, these models have no formality.", examples=[False]
    )


class DeepLUsage(BaseModel):
    """Of this key."""

    character_count: int = Field(description="Characters translated.", examples=[19])
    character_limit: int = Field(
        description="The quota; 1,000,000,000,000, as DeepL says it, where there is none.", examples=[1_000_000_000_000]
    )


class DeepLError(BaseModel):
    """The body of every error of this family."""

    message: str = Field(
        description="One sentence: what is wrong, where the limit is, and the way out.",
        examples=["There is no model for DE → FR here. Loaded pairs: de → en, en → es."],
    )
