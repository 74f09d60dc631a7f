"""Steps and tokens of an answer, as the fields of JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from app.engine.interface import TokenExpectation, TokenView
from app.engine.output.token_texts import WrittenToken

NATS_DECIMALS = 7  # of nats: 2,000 of them, rounded so, still add up to their sum within 1e-4


def step_fields(step: TokenExpectation | None) -> dict[str, Any]:
    """All null where the token was given."""
    if step is None:
        return {"logprob": None, "rank": None, "entropy": None, "top": None}
    top = [
        {"id": each.id, "piece": each.piece, "text": each.text, "logprob": round_nats(each.log_probability)}
        for each in step.top
    ]
    return {
        "logprob": None if step.log_probability is None else round_nats(step.log_probability),
        "rank": step.rank,
        "entropy": round_nats(step.entropy),
        "top": top,
    }


def token_fields(token: TokenView) -> dict[str, Any]:
    return asdict(token)


def written_token_fields(token: WrittenToken) -> dict[str, Any]:
    return {"id": token.id, "text": token.text, "logprob": round_nats(token.log_probability)}


def round_nats(value: float) -> float:
    return round(value, NATS_DECIMALS) + 0.0  # no -0.0
