"""The whole configuration of a lyricist's run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from training.configuration.loop import LoopConfig
from training.configuration.optimizer import OptimizerConfig
from training.configuration.problems import problems_of_parts, raise_all


@dataclass(frozen=True, slots=True, kw_only=True)
class LyricsConfig:
    """network: the fields of `models.recurrent.RecurrentConfig` but its vocabulary size.

    sampling: "consecutive" cuts the text into `rows` strands read on and on, the hidden state carried over;
    "random" draws windows anew, each from a zero state. offset: start each epoch at another character.
    valid_share: the end of the text that is held out for validation.
    """

    recipe: str  # the name of the base
    network: Mapping[str, Any] = field(default_factory=dict)
    sampling: Literal["consecutive", "random"] = "consecutive"
    offset: bool = True
    steps: int = 128  # characters that the gradient reaches back
    rows: int = 32  # windows in a batch
    characters: int | None = None  # use only so many from the start of the text
    newline_as_space: bool = False  # the text is one line
    valid_share: float = 0.1
    unknown: bool = True  # a token for characters that training has not seen
    initial_deviation: float | None = None  # draw weights from N(0, this) and zero the biases; None: PyTorch's
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    loop: LoopConfig = field(default_factory=LoopConfig)

    def __post_init__(self) -> None:
        raise_all([*problems_of_parts(self), *self.problems()])

    def problems(self) -> Iterable[str]:
        for name in ("steps", "rows"):
            yield f"{name} must be at least 1, not {getattr(self, name)}" if getattr(self, name) < 1 else ""
        if self.characters is not None and self.characters < 1:
            yield f"characters must be at least 1, not {self.characters}"
        if not 0 <= self.valid_share < 1:
            yield f"valid_share must lie in [0, 1), not {self.valid_share:g}"
        if self.initial_deviation is not None and not 0 < self.initial_deviation < math.inf:
            yield f"initial_deviation must be more than 0, not {self.initial_deviation:g}"
        if self.loop.patience and self.valid_share == 0:
            yield f"loop.patience = {self.loop.patience} needs something held out: valid_share is 0"
        yield "loop.choose_by must be loss for lyrics, not bleu" if self.loop.choose_by == "bleu" else ""
