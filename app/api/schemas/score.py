"""The fields of POST /score."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator

from app.api.fields import ModelName, SoundText, filled, refusal
from app.api.schemas.attention.tokens import Token
from app.api.schemas.expectations import Step

Distribution = Literal["decoding", "network"]
_TOKEN = {"id": 5, "piece": "▁i", "text": "i", "start": 0, "end": 1, "special": False}
_SCORED = {**_TOKEN, "logprob": -0.12, "rank": 1, "entropy": 0.43, "top": []}


class ScoreRequest(BaseModel):
    """A source and its translation for a translator, or a text for a lyricist."""

    model_config = ConfigDict(strict=True)

    source: Annotated[SoundText, AfterValidator(filled)] | None = Field(
        default=None, description="What is translated; with `target`.", examples=["ich möchte ein bier"]
    )
    target: Annotated[SoundText, AfterValidator(filled)] | None = Field(
        default=None, description="The translation to be scored.", examples=["i want a beer"]
    )
    text: SoundText | None = Field(
        default=None,
        description="For a lyricist: the text to be scored, alone. Its first character is given, not predicted.",
        examples=[None, "分开后的街道"],
    )
    distribution: Distribution = Field(
        default="decoding",
        description='"decoding": the probabilities by which texts are written, in which what is never written (padding,'
        ' unknown) has none; "network": those of the whole vocabulary, as `training evaluate` counts.',
        examples=["decoding"],
    )
    top_k: int = Field(default=0, ge=0, le=10, description="Likeliest tokens of each place.", examples=[3])
    model: ModelName | None = Field(
        default=None,
        description="Name of the model (GET /models); null takes the only one of its kind.",
        examples=["tiny-de-en"],
    )

    @field_validator("text")
    @classmethod
    def _begun(cls, value: str | None) -> str | None:
        if value is not None and not value:
            raise refusal("is empty; give at least two characters.")
        return value


class ScoredToken(Token, Step):
    """A token and what was expected in its place; all of that is null for the first token of a lyricist's text."""


class Counted(BaseModel):
    """What was predicted, over which the means are taken."""

    tokens: int = Field(description="Tokens; a translation's end token is one.", examples=[5])
    characters: int = Field(
        description="Characters (code points) of the text, spaces included; an end token has none, and neither has what"
        " was given.",
        examples=[13],
    )


class ScoreAnswer(BaseModel):
    """How probable the text is, token by token and as a whole. Computed in fp32."""

    model: str = Field(description="Name of the model.", examples=["tiny-de-en"])
    text: str = Field(description="The text that was scored, in which offsets count.", examples=["i want a beer"])
    distribution: Distribution = Field(description="As it was asked for.", examples=["decoding"])
    tokens: list[ScoredToken] = Field(
        description="Its tokens, with the end token of a translation.", examples=[[_SCORED]]
    )
    logprob: float = Field(description="The sum of all tokens' log-probabilities in nats.", examples=[-0.58])
    counted: Counted = Field(description="What was predicted.", examples=[{"tokens": 5, "characters": 13}])
    perplexity: float = Field(description="e to the power of the nats per token.", examples=[1.123])
    nats_per_token: float = Field(description="-logprob over the tokens counted.", examples=[0.116])
    bits_per_token: float = Field(description="The same over ln 2.", examples=[0.1674])
    nats_per_character: float | None = Field(
        description="-logprob over the characters counted; null if there are none.", examples=[0.0446]
    )
    bits_per_character: float | None = Field(description="The same over ln 2.", examples=[0.0644])
