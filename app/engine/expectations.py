"""What a device says it expected of a text, as people see it."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from app.engine import messages as m
from app.engine.insights import Floats, Likely, Step
from models.tokenizer import Tokenizer

Names = Callable[[int], tuple[str, str]]  # of a token: its piece, and how it reads by itself


def array(part: m.Values) -> Floats:
    return np.frombuffer(part.data, dtype="<f4").reshape(part.shape)


def steps(tokenizer: Tokenizer, expected: m.Expected) -> tuple[Step, ...]:
    """One for each place; where nothing came, it has no rank."""
    came: list[float | None] = [float(each) for each in array(expected.log_probabilities)]
    ranks: list[int | None] = list(expected.ranks)
    entropies = array(expected.entropies).tolist()
    missing: list[None] = [None] * (len(entropies) - len(ranks))
    log_probabilities = array(expected.top_log_probabilities).tolist()
    names: Names = cache(lambda token: (tokenizer.piece(token), tokenizer.decode([token])))
    return tuple(
        Step(log_probability, rank, entropy, _likely(names, tokenizer.size, tokens, nats))
        for log_probability, rank, entropy, tokens, nats in zip(
            [*came, *missing], [*ranks, *missing], entropies, expected.tokens, log_probabilities, strict=True
        )
    )


def _likely(names: Names, size: int, tokens: list[int], nats: list[float]) -> tuple[Likely, ...]:
    """What can never come is left out, and so is what the vocabulary has no name for."""
    return tuple(
        Likely(token, *names(token), each)
        for token, each in zip(tokens, nats, strict=True)
        if each > -math.inf and token < size
    )
