"""The whole configuration of a run. Frozen, recorded in the checkpoint, and checked in one go: every problem is
named in one message."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from training.errors import TrainingError


def raise_all(problems: Iterable[str]) -> None:
    found = [problem for problem in problems if problem]
    if found:
        raise TrainingError("This run cannot start: " + "; ".join(found) + ".")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerConfig:
    """joint: one vocabulary for both languages. casefold_source: read "Bier" and "bier" alike."""

    kind: Literal["sentencepiece", "word", "character"] = "sentencepiece"
    size: int = 8000  # at most; of sentencepiece only
    joint: bool = True
    casefold_source: bool = False
    pad_piece: str = "<pad>"  # of word vocabularies
    bos_piece: str = "<s>"
    eos_piece: str = "</s>"
    source_end: Literal["eos", "pad"] = "eos"  # what stands behind every source


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerConfig:
    """rate: the peak. Schedules warm up linearly, then: constant; inverse_sqrt falls with 1/sqrt(update); cosine and
    linear fall to final_fraction of the peak until the end of the run; trapezoid stays at the peak and falls linearly
    in the last fall_share of the run."""

    name: Literal["adam", "adamw", "sgd", "muon"] = "adam"  # muon: for hidden matrices, with adamw for the rest
    rate: float = 1e-3
    schedule: Literal["constant", "inverse_sqrt", "cosine", "linear", "trapezoid"] = "constant"
    warmup_updates: int = 0
    final_fraction: float = 0.05
    fall_share: float = 0.2  # of a trapezoid
    betas: tuple[float, float] = (0.9, 0.98)
    momentum: float = 0.95  # of muon's matrices
    epsilon: float = 1e-9
    weight_decay: float = 0.0
    clip_norm: float = 1.0  # of all gradients together; 0: off

    def problems(self) -> Iterable[str]:
        yield f"fall_share must lie in (0, 1], not {self.fall_share:g}" if not 0 < self.fall_share <= 1 else ""
        yield f"momentum must lie in [0, 1), not {self.momentum:g}" if not 0 <= self.momentum < 1 else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopConfig:
    """A run ends at the first of its limits, or when `patience` validations in a row have brought nothing. Where the
    rate has not fallen by then, it does so first, in a cool-down from the best weights: those of a high rate are not
    the best to be had."""

    max_epochs: int = 100
    max_minutes: float | None = None
    accumulate: int = 1  # batches per update
    patience: int = 0  # 0: off
    cooldown: float = 0.2  # of the updates until patience ended, for rates that fall; 0: stop at once
    validate_every_epochs: int = 1  # 0: by updates alone
    validate_every_updates: int = 0  # 0: by epochs alone
    validate_sentences: int = 2000  # at most, of a translator
    validate_characters: int = 200_000  # at most, of a lyricist
    choose_by: Literal["loss", "bleu"] = "loss"  # bleu: of greedy translations, at every validation
    sample_translations: int = 3  # so many held-out sentences go into the report with every validation
    average_decay: float = 0.0  # of the weights' exponential moving average, per update; 0: off
    average_best: int = 0  # the mean of so many best validated weights is a candidate too; 0: off
    seed: int = 1
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"  # auto: what the device multiplies fastest with

    def problems(self) -> Iterable[str]:
        yield f"max_epochs must be at least 1, not {self.max_epochs}" if self.max_epochs < 1 else ""
        if self.max_minutes is not None and not self.max_minutes > 0:  # nan is not, either
            yield f"max_minutes must be more than 0, not {self.max_minutes:g}"
        for name in ("accumulate", "validate_sentences", "validate_characters"):
            yield f"{name} must be at least 1, not {getattr(self, name)}" if getattr(self, name) < 1 else ""
        for name in ("patience", "validate_every_epochs", "validate_every_updates", "sample_translations"):
            yield f"{name} must be at least 0, not {getattr(self, name)}" if getattr(self, name) < 0 else ""
        if not self.validate_every_epochs and not self.validate_every_updates:
            yield "validate_every_epochs and validate_every_updates cannot both be 0"
        if not 0 <= self.cooldown <= 1:
            yield f"cooldown must lie in [0, 1], not {self.cooldown:g}"
        if not 0 <= self.seed < 2**63:
            yield f"seed must lie in 0..2^63-1, not {self.seed}"
        if not 0 <= self.average_decay < 1:
            yield f"average_decay must lie in [0, 1), not {self.average_decay}"
        if not 0 <= self.average_best <= 100:
            yield f"average_best must lie in 0..100, not {self.average_best}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslatorConfig:
    """network: the fields of `models.transformer_config.TransformerConfig` but its vocabulary sizes."""

    recipe: str
    source_language: str = "src"
    target_language: str = "tgt"
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    network: Mapping[str, Any] = field(default_factory=dict)
    label_smoothing: float = 0.1
    tokens_per_batch: int = 4096  # padded, of the longer side
    max_tokens: int = 256  # longer training pairs are left out, and said so; also the served model's limit
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    loop: LoopConfig = field(default_factory=LoopConfig)

    def __post_init__(self) -> None:
        raise_all([*self.optimizer.problems(), *self.loop.problems()])


@dataclass(frozen=True, slots=True, kw_only=True)
class LyricsConfig:
    """network: the fields of `models.recurrent.RecurrentConfig` but its vocabulary size.

    sampling: "consecutive" cuts the text into `rows` strands read on and on, the hidden state carried over;
    "random" draws windows anew, each from a zero state. offset: start each epoch at another character.
    valid_share: the end of the text that is held out for validation.
    """

    recipe: str
    network: Mapping[str, Any] = field(default_factory=dict)
    sampling: Literal["consecutive", "random"] = "consecutive"
    offset: bool = True
    steps: int = 128
    rows: int = 32
    characters: int | None = None  # use only so many from the start of the text
    newline_as_space: bool = False
    valid_share: float = 0.1
    unknown: bool = True  # a token for characters that training has not seen
    initial_deviation: float | None = None  # draw weights from N(0, this) and zero the biases; None: PyTorch's
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    loop: LoopConfig = field(default_factory=LoopConfig)

    def __post_init__(self) -> None:
        by_bleu = "choose_by must be loss for lyrics, not bleu" if self.loop.choose_by == "bleu" else ""
        raise_all([*self.optimizer.problems(), *self.loop.problems(), by_bleu])
