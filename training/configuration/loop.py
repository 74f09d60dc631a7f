"""How long a run goes on, what it validates and what it keeps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopConfig:
    """A run ends at the first of its limits, or when `patience` validations in a row have brought nothing. Where the
    rate has not fallen by then, it does so first, in a cool-down from the best weights: those of a high rate are not
    the best to be had."""

    max_epochs: int = 100  # passes over the corpus
    max_minutes: float | None = None  # of training, those before a resume included
    accumulate: int = 1  # batches per update
    patience: int = 0  # validations in a row without a gain that end the run; 0: off
    cooldown: float = 0.2  # of the updates until patience ended, for rates that fall; 0: stop at once
    validate_every_epochs: int = 1  # 0: by updates alone
    validate_every_updates: int = 0  # 0: by epochs alone
    validate_sentences: int = 2000  # at most, of a translator
    validate_characters: int = 200_000  # at most, of a lyricist
    choose_by: Literal["loss", "bleu"] = "loss"  # bleu: of greedy translations, at every validation
    sample_translations: int = 3  # so many held-out sentences go into the report with every validation
    average_decay: float = 0.0  # of the weights' exponential moving average, per update; 0: off
    average_best: int = 0  # the mean of so many best validated weights is a candidate too; 0: off
    seed: int = 1  # of weights, order, dropout and held-out pairs
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"  # auto: what the device trains fastest with
    compile: Literal["auto", "on", "off"] = "auto"  # a translator's step; auto: on CUDA (a CPU has kernels)

    def problems(self) -> Iterable[str]:
        yield f"max_epochs must be at least 1, not {self.max_epochs}" if self.max_epochs < 1 else ""
        if self.max_minutes is not None and not self.max_minutes > 0:  # nan is not, either
            yield f"max_minutes must be more than 0, not {self.max_minutes:g}"
        for name in ("accumulate", "validate_sentences", "validate_characters"):
            yield f"{name} must be at least 1, not {getattr(self, name)}" if getattr(self, name) < 1 else ""
        for name in ("patience", "validate_every_epochs", "validate_every_updates", "sample_translations"):
            yield f"{name} must be at least 0, not {getattr(self, name)}" if getattr(self, name) < 0 else ""
        if not self.validate_every_epochs and not self.validate_every_updates:
            yield "validate_every_epochs must be at least 1, not 0, where validate_every_updates is 0"
        if not 0 <= self.cooldown <= 1:
            yield f"cooldown must lie in [0, 1], not {self.cooldown:g}"
        if not 0 <= self.seed < 2**63:
            yield f"seed must lie in 0..2^63-1, not {self.seed}"
        if not 0 <= self.average_decay < 1:
            yield f"average_decay must lie in [0, 1), not {self.average_decay}"
        if not 0 <= self.average_best <= 100:
            yield f"average_best must lie in 0..100, not {self.average_best}"
