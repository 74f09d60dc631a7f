"""What a run is told of itself, so that it can leave it behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """data: role (train, valid, test, corpus) -> the corpus as the command line named it, for run.toml.
    licence: of the model, for its card."""

    data: Mapping[str, str | list[str]] = field(default_factory=dict)
    licence: str | None = None
    tensorboard: bool = False


NOTHING_KNOWN = Record()
