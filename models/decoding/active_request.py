"""A request inside the decoding loop, and what one step of the loop brings."""

from __future__ import annotations

from dataclasses import dataclass, field

from models.decoding.constrained_beam import BeamConstraints
from models.decoding.options import DecodingOptions, Hypothesis, TopTokens
from models.interface import Prompt


@dataclass(slots=True, eq=False)
class ActiveRequest:
    """key: the caller's number of the request. rows: those that it occupies. constraints: of a beam."""

    key: int
    prompt: Prompt
    options: DecodingOptions
    constraints: BeamConstraints | None = None
    rows: list[int] = field(default_factory=list)


@dataclass(slots=True)
class StepResult:
    """What one step brought: the new tokens of streamed requests (of a beam those on which all hypotheses that may
    still win agree), with log-probabilities in nats and the likeliest tokens at their places where options want them;
    and the requests that are done."""

    tokens: list[tuple[int, int]] = field(default_factory=list)
    log_probabilities: dict[int, float] = field(default_factory=dict)
    top: dict[int, TopTokens] = field(default_factory=dict)
    finished: list[tuple[int, list[Hypothesis]]] = field(default_factory=list)
