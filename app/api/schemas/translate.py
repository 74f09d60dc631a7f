"""LibreTranslate's fields: its names, its shapes."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator

from app.api.fields import SoundText, refusal, text_or_texts
from app.api.schemas.streaming import TimingAnswer
from app.api.wording import value_shown
from app.engine.jobs import FinishReason


class TranslateRequest(BaseModel):
    """One text, or several at once; each is translated, and its language detected, on its own."""

    model_config = ConfigDict(strict=True)

    q: Annotated[str | list[str], BeforeValidator(text_or_texts)] = Field(
        description="The text to translate, or a list of texts.", examples=["Ich möchte ein Bier"]
    )
    source: SoundText = Field(
        description='Language code of the text, in any case, or "auto" to detect it among the languages that have'
        " a model for this target.",
        examples=["de"],
    )
    target: SoundText = Field(description="Language code to translate to, in any case.", examples=["en"])
    format: SoundText = Field(default="text", description='"text"; "html" is not offered yet.', examples=["text"])
    alternatives: int = Field(
        default=0, ge=0, description="How many further translations of each text to return.", examples=[0]
    )
    model: SoundText | None = Field(
        default=None,
        max_length=200,
        description="Name of the translator, where several have this pair; by default the first by name.",
        examples=["demo-de-en"],
    )

    stream: bool = Field(
        default=False,
        description="Send the translation as server-sent events while it is found; for a single text.",
        examples=[False],
    )

    @field_validator("q")
    @classmethod
    def _something(cls, value: str | list[str]) -> str | list[str]:
        if not value:
            raise refusal("is empty; send a text or a list of texts.")
        return value

    @field_validator("source", "target")
    @classmethod
    def _code(cls, value: str) -> str:
        if not value.strip():
            raise refusal("is empty; send a language code as GET /languages lists them.")
        return value.strip()

    @field_validator("format")
    @classmethod
    def _only_text(cls, value: str) -> str:
        if value == "html":
            raise refusal('is "html", but only "text" is offered so far: its tags would be translated as words.')
        if value != "text":
            raise refusal(f'is {value_shown(value)}; it takes "text", which may be left out.')
        return value

    @field_validator("alternatives", mode="before")
    @classmethod
    def _digits(cls, value: object) -> object:
        """Forms and query parameters have no numbers, only their digits."""
        if isinstance(value, str) and value.isascii() and value.strip().isdigit() and len(value) < 10:
            return int(value)
        return value

    @field_validator("stream", mode="before")
    @classmethod
    def _words(cls, value: object) -> object:
        """Forms and query parameters have no booleans, only their names."""
        return {"true": True, "false": False}.get(value.lower(), value) if isinstance(value, str) else value

    @field_validator("stream")
    @classmethod
    def _one_text(cls, value: bool, info: ValidationInfo) -> bool:
        if value and isinstance(info.data.get("q"), list):
            raise refusal('is true, but "q" is a list; stream one text at a time, or leave "stream" out.')
        return value


class DetectedLanguage(BaseModel):
    """What `source` "auto" found."""

    confidence: float = Field(
        ge=0, le=100, description="0 to 100; 0 means that the text shows no language at all.", examples=[99.9]
    )
    language: str = Field(description="Code of the language.", examples=["de"])


class TranslateAnswer(BaseModel):
    """For a list in `q`, each member is a list of the same length and order."""

    translatedText: str | list[str] = Field(  # noqa: N815
        description="The translation; white space alone comes back as it is.", examples=["I want a beer"]
    )
    detectedLanguage: DetectedLanguage | list[DetectedLanguage] | None = Field(  # noqa: N815
        default=None,
        description='Only for `source` "auto": what each text was taken for.',
        examples=[{"confidence": 99.9, "language": "de"}],
    )
    alternatives: list[str] | list[list[str]] | None = Field(
        default=None,
        description="Only for `alternatives` above 0: further translations, best first, perhaps fewer than asked for.",
        examples=[["I would like a beer"]],
    )
    finishReason: FinishReason | list[FinishReason] | None = Field(  # noqa: N815
        default=None,
        description='Only where a translation is not sound: "length" if it ran into its limit of tokens before its end,'
        ' "repetition" if it goes round in circles, which its text does not; in a list, "stop" for the sound ones.',
        examples=["length"],
    )


class TranslateUsage(BaseModel):
    source_tokens: int = Field(description="Tokens that the model read.", examples=[6])
    new_tokens: int = Field(description="Tokens of the translation.", examples=[5])


class TranslateDone(TranslateAnswer):
    """The last event of a streamed translation."""

    usage: TranslateUsage
    timing: TimingAnswer


class Language(BaseModel):
    """One language that some loaded model reads or writes."""

    code: str = Field(description="Code to use in requests.", examples=["de"])
    name: str = Field(description="English name.", examples=["German"])
    targets: list[str] = Field(
        description="Codes of the languages it can be translated to; empty if it is a target only.",
        examples=[["en"]],
    )
