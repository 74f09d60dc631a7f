"""What holds for every way to continue a text."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator

from app.api.fields import refusal
from app.api.wording import value_shown

LARGEST_SEED = 2**63 - 1
_LOWEST_TEMPERATURE = 0.01  # below it logits / temperature leaves the range of the narrower number formats
_MAX_STOPS, _MAX_STOP_CHARACTERS = 16, 256


class Sampling(BaseModel):
    """For requests with the fields `temperature`, `seed`, `n` and `stop`, each with them in an order of its own, in
    which problems are told."""

    model_config = ConfigDict(strict=True)

    @property
    def stops(self) -> tuple[str, ...]:
        stop: str | list[str] = getattr(self, "stop", [])
        return (stop,) if isinstance(stop, str) else tuple(stop)

    @field_validator("temperature", check_fields=False)
    @classmethod
    def _not_almost_zero(cls, value: float) -> float:
        if 0 < value < _LOWEST_TEMPERATURE:
            raise refusal(f"is {value:g}; it takes 0 (greedy) or {_LOWEST_TEMPERATURE} to 10.")
        return value

    @field_validator("stop", check_fields=False)
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
        if seed is not None and seed + value - 1 > LARGEST_SEED:
            raise refusal(f"is {value_shown(value)}: seed + n - 1 may be at most {LARGEST_SEED}, so lower one of them.")
        return value
