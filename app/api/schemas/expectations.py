"""What a model expected where, in answers."""

from __future__ import annotations

from pydantic import BaseModel, Field

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
