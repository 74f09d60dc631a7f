"""LibreTranslate's fields: its names, its shapes. Ours beside them are optional, and answered only when asked for."""

from __future__ import annotations

from typing import Annotated, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator

from app.api.fields import KeyField, SoundText, as_number, as_truth, refusal
from app.api.schemas.generate import WrittenTokenAnswer
from app.api.schemas.streaming import TimingAnswer
from app.api.schemas.translation import Texts, TranslationOptions
from app.api.wording import value_shown
from app.engine.jobs import FinishReason, Wanted

_WANTED = get_args(Wanted)
_ALIGNED = {"target_start": 7, "target_end": 11, "source_start": 15, "source_end": 19, "weight": 0.91}
_TOKENS = [{"id": 41, "text": "I want", "logprob": -0.12}, {"id": 7, "text": " a beer", "logprob": -0.05}]


class TranslateRequest(TranslationOptions, Texts):
    """One text, or several at once; each is translated, and its language detected, on its own."""

    alternatives: Annotated[int, BeforeValidator(as_number)] = Field(
        default=0, ge=0, description="How many further translations of each text to return.", examples=[0]
    )
    prefix: SoundText = Field(
        default="",
        description="What the translation begins with, word for word; for a single text.",
        examples=["I would like"],
    )
    stream: Annotated[bool, BeforeValidator(as_truth)] = Field(
        default=False,
        description="Send the translation as server-sent events while it is found; for a single text.",
        examples=[False],
    )
    wanted: frozenset[Wanted] = Field(
        default=frozenset(),
        alias="return",
        description='What to tell beside the text: any of "scores", "tokens" and "alignment", as a list, or with'
        " commas between them.",
        examples=[["scores", "tokens", "alignment"]],
    )
    api_key: KeyField = None

    @field_validator("wanted", mode="before")
    @classmethod
    def _known(cls, value: object) -> object:
        names = [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value
        if not isinstance(names, list):
            raise refusal(f'is {value_shown(names)}; it takes a list of "scores", "tokens" and "alignment".')
        for name in names:
            if name not in _WANTED:
                raise refusal(f'holds {value_shown(name)}; it takes "scores", "tokens" and "alignment".')
        return frozenset(names)

    @field_validator("prefix")
    @classmethod
    def _of_one_text(cls, value: str, info: ValidationInfo) -> str:
        if value and isinstance(info.data.get("q"), list):
            raise refusal('begins a translation, but "q" is a list; send its texts one at a time, or leave it out.')
        return value

    @field_validator("stream")
    @classmethod
    def _one_text(cls, value: bool, info: ValidationInfo) -> bool:
        if value and isinstance(info.data.get("q"), list):
            raise refusal('is true, but "q" is a list; stream one text at a time, or leave "stream" out.')
        return value


class DetectedLanguage(BaseModel):
    """What a text was taken for."""

    confidence: float = Field(
        ge=0, le=100, description="0 to 100; 0 means that the text shows no language at all.", examples=[99.9]
    )
    language: str = Field(description="Code of the language.", examples=["de"])


class AlignedWordAnswer(BaseModel):
    """A word of the translation, and the source word that the model read most while it wrote it. Places count code
    points of the two texts from 0; ends are exclusive."""

    model_config = ConfigDict(from_attributes=True)

    target_start: int = Field(description="Where the word begins in the translation.", examples=[7])
    target_end: int = Field(description="Where it ends there.", examples=[11])
    source_start: int = Field(description="Where the source word begins in the text.", examples=[15])
    source_end: int = Field(description="Where it ends there.", examples=[19])
    weight: float = Field(description="The share of the model's attention that it had, 0 to 1.", examples=[0.91])


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
        description='Only where a translation did not end by itself: "length" ran into its token limit,'
        ' "repetition" goes round in circles.',
        examples=["length"],
    )
    scores: list[float] | list[list[float]] | None = Field(
        default=None,
        description='Only for "scores" in `return`: of the translation and of each alternative, its log-probability'
        " in nats over its length to the power of the length penalty, the mean of its sentences.",
        examples=[[-0.17]],
    )
    tokens: list[WrittenTokenAnswer] | list[list[WrittenTokenAnswer]] | None = Field(
        default=None,
        description='Only for "tokens" in `return`: the tokens of the translation.',
        examples=[_TOKENS],
    )
    alignment: list[AlignedWordAnswer] | list[list[AlignedWordAnswer]] | None = Field(
        default=None,
        description='Only for "alignment" in `return`: the words of the translation, with what each was read from.',
        examples=[[_ALIGNED]],
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
