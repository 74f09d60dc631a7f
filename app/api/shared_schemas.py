"""Schemas that several families share: tokens, predictions and timings."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, Field

from app.engine.interface import Usage

TOP = [{"id": 21, "piece": "开", "text": "开", "logprob": -0.21}]


class Likely(BaseModel):
    """A token that might have come."""

    id: int = Field(description="Number in the vocabulary.", examples=[21])
    piece: str = Field(description="How the vocabulary writes it.", examples=["开"])
    text: str = Field(description="How it reads by itself.", examples=["开"])
    logprob: float = Field(description="Its log-probability in nats.", examples=[-0.21])


class Step(BaseModel):
    """What was expected at one place."""

    logprob: float | None = Field(
        description="Log-probability in nats of the token that came; null where none came.", examples=[-0.21]
    )
    rank: int | None = Field(
        description="1 and the number of likelier tokens: 1 is the likeliest. Null where none came.",
        examples=[1],
    )
    entropy: float | None = Field(description="Entropy in nats of all that might have come.", examples=[1.74])
    top: list[Likely] | None = Field(description="The `top_k` likeliest tokens, best first.", examples=[TOP])


class Token(BaseModel):
    """One token of the model's vocabulary."""

    id: int = Field(description="Number in the vocabulary.", examples=[17])
    piece: str = Field(description="How the vocabulary writes it.", examples=["▁bier"])
    text: str = Field(description="How it reads.", examples=["bier"])
    start: int | None = Field(
        description="First character (code point) in the text, from 0; null for special tokens.",
        examples=[15],
    )
    end: int | None = Field(
        description="Character after the last; text[start:end] is the token. Null for special tokens.",
        examples=[19],
    )
    word: int | None = Field(
        description="Which word of the text it belongs to, from 0; null for special tokens.", examples=[3]
    )
    special: bool = Field(description="Whether it stands for no text (begin, end, unknown).", examples=[False])


class Source(BaseModel):
    """What the encoder read."""

    text: str = Field(description="The text that the offsets count in.", examples=["ich möchte ein bier"])
    tokens: list[Token] = Field(
        description="Its tokens, as the encoder read them: the keys of `encoder` and `cross`.",
        examples=[[{"id": 17, "piece": "▁bier", "text": "bier", "start": 15, "end": 19, "word": 3, "special": False}]],
    )


class Target(BaseModel):
    """What the decoder wrote. Row t of `decoder` and `cross` read input token t to predict output token t."""

    text: str = Field(description="The text that the offsets count in.", examples=["i want a beer"])
    forced: bool = Field(description="Whether the request gave it.", examples=[False])
    logprob_sum: float | None = Field(
        description="Log-probability of the output tokens, in nats, from one teacher-forced pass; null (minus infinity)"
        " where one of them is never chosen.",
        examples=[-0.41],
    )
    finished: bool = Field(description="Whether it ends with the end token.", examples=[True])
    input_tokens: list[Token] = Field(
        description="What the decoder read at each step, beginning with its start token.",
        examples=[[{"id": 2, "piece": "<s>", "text": "", "start": None, "end": None, "word": None, "special": True}]],
    )
    output_tokens: list[Token] = Field(
        description="What it predicted at each step, ending with its end token.",
        examples=[[{"id": 5, "piece": "▁i", "text": "i", "start": 0, "end": 1, "word": 0, "special": False}]],
    )


class TimingAnswer(BaseModel):
    """Milliseconds since the request was admitted."""

    queued_ms: float | None = Field(description="Until a device began to read it.", examples=[0.4])
    first_token_ms: float | None = Field(description="Until its first token.", examples=[9.1])
    total_ms: float = Field(description="Until its end.", examples=[41.7])

    @classmethod
    def of(cls, usage: Usage) -> Self:
        return cls(
            queued_ms=_ms(usage.queued_s), first_token_ms=_ms(usage.first_token_s), total_ms=_ms(usage.total_s) or 0.0
        )


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)
