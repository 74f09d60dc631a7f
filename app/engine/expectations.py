"""What a device says it expected of a text, as people see it."""

from __future__ import annotations

import math

import numpy as np

from app.engine import messages as m
from app.engine.jobs import Floats, Likely, Step
from models.tokenizer import Tokenizer


def array(part: m.Values) -> Floats:
    return np.frombuffer(part.data, dtype="<f4").reshape(part.shape)


def steps(tokenizer: Tokenizer, expected: m.Expected) -> tuple[Step, ...]:
    """One for each place; where nothing came, it has no rank."""
    came: list[float | None] = [float(each) for each in array(expected.log_probabilities)]
    ranks: list[int | None] = list(expected.ranks)
    entropies = array(expected.entropies).tolist()
    missing: list[None] = [None] * (len(entropies) - len(ranks))
    log_probabilities = array(expected.top_log_probabilities).tolist()
    return tuple(
        Step(log_probability, rank, entropy, _likely(tokenizer, tokens, nats))
        for log_probability, rank, entropy, tokens, nats in zip(
            [*came, *missing], [*ranks, *missing], entropies, expected.tokens, log_probabilities, strict=True
        )
    )


def _likely(tokenizer: Tokenizer, tokens: list[int], nats: list[float]) -> tuple[Likely, ...]:
    """What can never come is left out, and so is what the vocabulary has no name for."""
    return tuple(
        Likely(token, tokenizer.piece(token), tokenizer.decode([token]), each)
        for token, each in zip(tokens, nats, strict=True)
        if each > -math.inf and token < tokenizer.size
    )
