"""A request inside the decoding loop, and the result of one step of the loop."""

from __future__ import annotations

from dataclasses import dataclass, field

from models.decoding.constrained_beam import BeamConstraints
from models.decoding.options import DecodingOptions, Hypothesis, TopTokens
from models.interface import Prompt


@dataclass(slots=True, eq=False)
class ActiveRequest:
    """key: the caller's id of the request. rows: the batch rows it occupies, one per hypothesis."""

    key: int
    prompt: Prompt
    options: DecodingOptions
    constraints: BeamConstraints | None = None
    rows: list[int] = field(default_factory=list)


@dataclass(slots=True)
class StepResult:
    """The output of `steps` steps: new tokens of streamed requests (of a beam, the tokens on which all hypotheses that
    can still win agree), log-probabilities in nats and top tokens where the options want them, finished requests. late:
    whether the results are those of the previous step, which requests that have joined since were not part of."""

    tokens: list[tuple[int, int]] = field(default_factory=list)
    log_probabilities: dict[int, float] = field(default_factory=dict)
    top: dict[int, TopTokens] = field(default_factory=dict)
    finished: list[tuple[int, list[Hypothesis]]] = field(default_factory=list)
    late: bool = False
    steps: int = 1
