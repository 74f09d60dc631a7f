"""What a model card says, whatever the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from training.memorisation import Overlap


@dataclass(frozen=True, slots=True)
class CardFacts:
    """left_out: of the training data, as a table, or "". languages: codes. memorised: what samples have in common with
    the training text, and what held-out text has."""

    title: str
    summary: str
    data: str
    recipe: str
    command: str
    configuration: Mapping[str, Any]
    scores: Mapping[str, Mapping[str, Any]]
    parameters: int
    training: str  # what ended it, after how long
    device: str
    limits: str
    use: str = ""
    left_out: str = ""
    licence: str | None = None
    languages: Sequence[str] = ()
    task: str = ""  # as the Hub names it
    memorised: tuple[Overlap, Overlap | None] | None = None
    samples: Sequence[tuple[str, str, str]] = field(default=())
