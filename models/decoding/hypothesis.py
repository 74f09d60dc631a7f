"""What decoding gives: hypotheses, and the tokens of one step. Importable without torch."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

Key = TypeVar("Key", bound=Hashable)  # of a request inside a decoder
TopTokens = tuple[tuple[int, float], ...]  # tokens and their log-probabilities in nats, the likeliest first


class Hypothesis(NamedTuple):
    """tokens: without the prefix and without the end token. log_probability: nats, the end token included. score: that
    over length**length_penalty. Both are NaN where scores were not wanted. finished: False if the limit came before the
    end token. token_log_probabilities, top: of each of the tokens, the likeliest tokens at its place, where options
    want them. unmet: how many of the required terms are missing; 0 of a hypothesis that is finished."""

    tokens: tuple[int, ...]
    log_probability: float
    score: float
    finished: bool
    token_log_probabilities: tuple[float, ...] | None = None
    top: tuple[TopTokens, ...] | None = None
    unmet: int = 0


@dataclass(slots=True)
class StepResult(Generic[Key]):
    """What one step brought: the new tokens of streamed requests (of a beam those on which all hypotheses that may
    still win agree), with log-probabilities in nats and the likeliest tokens at their places where options want them;
    and the requests that are done."""

    tokens: list[tuple[Key, int]] = field(default_factory=list)
    log_probabilities: dict[Key, float] = field(default_factory=dict)
    top: dict[Key, TopTokens] = field(default_factory=dict)
    finished: list[tuple[Key, list[Hypothesis]]] = field(default_factory=list)
