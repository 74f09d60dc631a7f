"""What the last event of a stream adds to the answer."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, Field

from app.engine.jobs import Usage


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
