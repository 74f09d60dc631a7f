"""What every way to continue a text takes."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator

from app.api.fields import refusal, text_or_texts
from app.api.wording import value_shown

_LARGEST_SEED = 2**63 - 1
_LOWEST_TEMPERATURE = 0.01  # below it logits / temperature leaves the range of the narrower number formats
_MAX_STOPS, _MAX_STOP_CHARACTERS = 16, 256


class Sampling(BaseModel):
    """A request that has these fields, and its own `temperature` and `n`."""

    model_config = ConfigDict(strict=True)

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
        le=_LARGEST_SEED,
        description="The same seed, prompt, model and options write the same text; null draws one.",
        examples=[7],
    )
    stop: Annotated[str | list[str], BeforeValidator(text_or_texts)] = Field(
        default=[],
        description="A text, or up to 16, before which writing stops; it is not part of the answer.",
        examples=["\n\n"],
    )

    @property
    def stops(self) -> tuple[str, ...]:
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    @field_validator("temperature", check_fields=False)
    @classmethod
    def _not_almost_zero(cls, value: float) -> float:
        if 0 < value < _LOWEST_TEMPERATURE:
            raise refusal(f"is {value:g}; it takes 0 (greedy) or {_LOWEST_TEMPERATURE} to 10.")
        return value

    @field_validator("stop")
    @classmethod
    def _few_and_short(cls, value: str | list[str]) -> str | list[str]:
        stops = [value] if isinstance(value, str) else value
        if len(stops) > _MAX_STOPS:
            raise refusal(f"has {len(stops)} texts; it takes at most {_MAX_STOPS}.")
        if any(not 1 <= len(stop) <= _MAX_STOP_CHARACTERS for stop in stops):
            raise refusal(f"holds a text that is empty or too long; each takes 1 to {_MAX_STOP_CHARACTERS} characters.")
        return value

    @field_validator("n", check_fields=False)
    @classmethod
    def _seeds_in_range(cls, value: int, info: ValidationInfo) -> int:
        seed = info.data.get("seed")
        if seed is not None and seed + value - 1 > _LARGEST_SEED:
            raise refusal(
                f"is {value_shown(value)}: seed + n - 1 may be at most {_LARGEST_SEED}, so lower one of them."
            )
        return value
