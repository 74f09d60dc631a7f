"""Steps and tokens of an answer, as the fields of JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from app.engine.insights import Step, TokenView
from app.engine.token_texts import WrittenToken

DECIMALS = 7  # of nats: 2,000 of them, rounded so, still add up to their sum within 1e-4


def step_fields(step: Step | None) -> dict[str, Any]:
    """All null where the token was given."""
    if step is None:
        return {"logprob": None, "rank": None, "entropy": None, "top": None}
    top = [
        {"id": each.id, "piece": each.piece, "text": each.text, "logprob": nats(each.log_probability)}
        for each in step.top
    ]
    return {
        "logprob": None if step.log_probability is None else nats(step.log_probability),
        "rank": step.rank,
        "entropy": nats(step.entropy),
        "top": top,
    }


def token_fields(token: TokenView) -> dict[str, Any]:
    return asdict(token)


def written_fields(token: WrittenToken) -> dict[str, Any]:
    return {"id": token.id, "text": token.text, "logprob": nats(token.log_probability)}


def nats(value: float) -> float:
    return round(value, DECIMALS) + 0.0  # no -0.0
