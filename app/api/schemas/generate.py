"""The fields of POST /generate."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, Field, field_validator

from app.api.fields import ModelName, SoundText, refusal, text_or_texts
from app.api.schemas.sampling import LARGEST_SEED, Sampling
from app.api.schemas.streaming import TimingAnswer
from app.engine.jobs import FinishReason


class GenerateRequest(Sampling):
    """How to continue a text."""

    prompt: SoundText = Field(description="The text to continue.", examples=["分开"])
    max_new_tokens: int = Field(default=100, ge=1, description="Most tokens to write.", examples=[100])
    temperature: float = Field(
        default=0.8,
        ge=0,
        le=10,
        description="0 always takes the likeliest token (greedy); 1 samples the model's own distribution.",
        examples=[0.8],
    )
    top_k: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="Sample among the k likeliest tokens; 0 is off.",
        examples=[40],
    )
    top_p: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="Sample among the likeliest tokens that together have this probability; 1 is off.",
        examples=[1.0],
    )
    seed: int | None = Field(
        default=None,
        ge=0,
        le=LARGEST_SEED,
        description="The same seed, prompt, model and options write the same text; null draws one.",
        examples=[7],
    )
    n: int = Field(default=1, ge=1, description="Continuations to write; number i (from 0) has seed + i.", examples=[1])
    stop: Annotated[str | list[str], BeforeValidator(text_or_texts)] = Field(
        default=[],
        description="A text, or up to 16, before which writing stops; it is not part of the answer.",
        examples=["\n\n"],
    )
    model: ModelName | None = Field(
        default=None,
        description="Name of the model (GET /models); null takes the only one.",
        examples=["lyrics-zh"],
    )

    logprobs: bool = Field(
        default=False,
        description="Tell with each token that is written how probable the model found it: of its own distribution, at"
        " temperature 1 and without top_k and top_p, over the tokens that it may choose, as POST /score with"
        ' "distribution": "decoding" and POST /gates say of the same text. The text is the same with it and without.'
        " A server that decodes in another precision than fp32 tells what that precision gave.",
        examples=[False],
    )
    stream: bool = Field(
        default=False,
        description="Send the text as server-sent events while it is written; with n above 1 each says its `index`.",
        examples=[False],
    )

    @field_validator("prompt")
    @classmethod
    def _begun(cls, value: str) -> str:
        if not value:
            raise refusal("is empty; begin the text with at least one character.")
        return value


class WrittenTokenAnswer(BaseModel):
    """One token that was written."""

    id: int = Field(description="Its number in the vocabulary.", examples=[17])
    text: str = Field(
        description='What it added to the text. A character of several tokens stands with the last of them: "" for the'
        " others. A token that a stop text begins in keeps the part before it.",
        examples=["后"],
    )
    logprob: float = Field(description="Natural logarithm of its probability, rounded to 7 decimals.", examples=[-1.25])


class ContinuationAnswer(BaseModel):
    """One continuation."""

    text: str = Field(description="What follows the prompt, without the prompt.", examples=["后的街道下着旧雨"])
    finish_reason: FinishReason = Field(
        description='"stop": the text ended or met a stop text; "length": it ran into max_new_tokens; "repetition": it'
        " did so while it went round in circles, its end being the same few tokens again and again.",
        examples=["length"],
    )
    seed: int = Field(description="The seed that writes this text again.", examples=[7])
    tokens: list[WrittenTokenAnswer] | None = Field(
        default=None,
        description="Only with `logprobs`: the tokens of the text, whose texts join to it, without an end token. With"
        " `stream` each event `token` has those of its own text.",
        examples=[[{"id": 17, "text": "后", "logprob": -1.25}]],
    )


class GenerateAnswer(ContinuationAnswer):
    """The first continuation, and the others where n asked for them."""

    model: str = Field(description="Name of the model that wrote it.", examples=["lyrics-zh"])
    alternatives: list[ContinuationAnswer] | None = Field(
        default=None,
        description="Only for n above 1: the other n - 1 continuations.",
        examples=[[{"text": "以后我们各自走", "finish_reason": "stop", "seed": 8}]],
    )


class GenerateUsage(BaseModel):
    prompt_tokens: int = Field(description="Tokens of the prompt.", examples=[2])
    new_tokens: int = Field(description="Tokens written, of all continuations together.", examples=[100])


class GenerateDone(GenerateAnswer):
    """The last event of a streamed generation."""

    usage: GenerateUsage
    timing: TimingAnswer
