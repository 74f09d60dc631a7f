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
    """rate: the peak. Schedules warm up linearly, then: constant; inverse_sqrt falls with 1/sqrt(update);
    cosine falls to final_fraction of the peak at the last update."""

    name: Literal["adam", "adamw", "sgd"] = "adam"
    rate: float = 1e-3
    schedule: Literal["constant", "inverse_sqrt", "cosine"] = "constant"
    warmup_updates: int = 0
    final_fraction: float = 0.05
    betas: tuple[float, float] = (0.9, 0.98)
    epsilon: float = 1e-9
    weight_decay: float = 0.0
    clip_norm: float = 1.0  # of all gradients together; 0: off


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopConfig:
    """A run ends at the first of its limits, or when `patience` validations in a row have brought nothing."""

    max_epochs: int = 100
    max_minutes: float | None = None
    patience: int = 0  # 0: off
    validate_every_epochs: int = 1
    average_decay: float = 0.0  # of the weights' exponential moving average, per update; 0: off
    seed: int = 1
    precision: Literal["auto", "fp32", "bf16"] = "auto"  # auto: bf16 on CUDA devices that have it, else fp32

    def problems(self) -> Iterable[str]:
        yield f"max_epochs must be at least 1, not {self.max_epochs}" if self.max_epochs < 1 else ""
        if self.max_minutes is not None and not self.max_minutes > 0:  # nan is not, either
            yield f"max_minutes must be more than 0, not {self.max_minutes:g}"
        yield f"patience must be at least 0, not {self.patience}" if self.patience < 0 else ""
        if self.validate_every_epochs < 1:
            yield f"validate_every_epochs must be at least 1, not {self.validate_every_epochs}"
        if not 0 <= self.seed < 2**63:
            yield f"seed must lie in 0..2^63-1, not {self.seed}"
        if not 0 <= self.average_decay < 1:
            yield f"average_decay must lie in [0, 1), not {self.average_decay}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningConfig:
    """Which training pairs are left out (`training.corpora.cleaning`); None, False and "off" switch a rule off.

    A pair with an empty side is no pair and always left out; one over `TranslatorConfig.max_tokens` is, too.
    """

    broken: bool = True  # control characters, U+FFFD, UTF-8 decoded as Windows-1252
    max_characters: int | None = 5000  # of either side
    identical_from: int | None = 20  # characters; a copy teaches copying, but "Taxi" and "Berlin" are translations
    ratio: float | None = 4.0  # of the sides' lengths, as a factor to the corpus's own median ratio
    ratio_tolerance: int = 20  # characters beyond that: short sentences vary more
    duplicates: bool = True  # all but the first of equal pairs
    overlap: Literal["off", "pair", "source", "either"] = "source"  # what a pair must share with a held-out one

    def problems(self) -> Iterable[str]:
        for name in ("max_characters", "identical_from"):
            value = getattr(self, name)
            yield f"{name} must be at least 1, not {value}" if value is not None and value < 1 else ""
        if self.ratio is not None and not self.ratio >= 1:
            yield f"ratio must be at least 1, not {self.ratio:g}"
        yield f"ratio_tolerance must be at least 0, not {self.ratio_tolerance}" if self.ratio_tolerance < 0 else ""
        if self.overlap not in ("off", "pair", "source", "either"):
            yield f"overlap must be off, pair, source or either, not {self.overlap!r}"


NO_CLEANING = CleaningConfig(
    broken=False, max_characters=None, identical_from=None, ratio=None, duplicates=False, overlap="off"
)


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
    cleaning: CleaningConfig = field(default_factory=CleaningConfig)

    def __post_init__(self) -> None:
        raise_all([*self.loop.problems(), *self.cleaning.problems()])


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
        raise_all(self.loop.problems())
