"""Schemas that several families share: tokens, predictions and timings."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, Field

from app.engine.interface import TokenExpectation, Usage
from app.engine.output.text_stream import WrittenToken

NATS_DECIMALS = 7  # 2,000 numbers, rounded so, still add up to their sum within 1e-4

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

    @staticmethod
    def fields_of(step: TokenExpectation | None) -> dict[str, object]:
        """All null where the token was given. Of thousands of steps: a model of each would cost as much as the pass."""
        if step is None:
            return {"logprob": None, "rank": None, "entropy": None, "top": None}
        return {
            "logprob": None if step.log_probability is None else round_nats(step.log_probability),
            "rank": step.rank,
            "entropy": round_nats(step.entropy),
            "top": [
                {"id": each.id, "piece": each.piece, "text": each.text, "logprob": round_nats(each.log_probability)}
                for each in step.top
            ],
        }


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


class WrittenTokenAnswer(BaseModel):
    """One token that was written."""

    id: int = Field(description="Its number in the vocabulary.", examples=[17])
    text: str = Field(
        description='What it added to the text. A character of several tokens stands with the last of them: "" for the'
        " others. A token that a stop text begins in keeps the part before it.",
        examples=["后"],
    )
    logprob: float = Field(description="Natural logarithm of its probability, rounded to 7 decimals.", examples=[-1.25])

    @staticmethod
    def fields_of(token: WrittenToken) -> dict[str, object]:
        """Of answers that are too hot for a model of each token."""
        return {"id": token.id, "text": token.text, "logprob": round_nats(token.log_probability)}


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


def round_nats(value: float) -> float:
    return round(value, NATS_DECIMALS) + 0.0  # no -0.0


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)
