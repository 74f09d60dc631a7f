"""The whole configuration of a run. Frozen, recorded in the checkpoint, and checked in one go: every problem is
named in one message.

What `python -m training recipes` says of a field is its comment here, or what its class's docstring says behind its
name and a colon. `problems` yields sentences that begin with the name of the field ("" is none).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from training.errors import CannotStart

LANGUAGE = r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*"


def raise_all(problems: Iterable[str]) -> None:
    found = [problem for problem in problems if problem]
    if found:
        raise CannotStart(found)


def _parts_problems(config: TranslatorConfig | LyricsConfig) -> Iterator[str]:
    """Those of every part that can say them, each with its whole key."""
    for part in fields(config):
        for problem in getattr(getattr(config, part.name), "problems", tuple)():
            yield f"{part.name}.{problem}" if problem else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerConfig:
    """joint: one vocabulary for both languages. casefold_source: read "Bier" and "bier" alike."""

    kind: Literal["sentencepiece", "word", "character"] = "sentencepiece"  # pieces of words, words, or characters
    size: int = 8000  # at most; of sentencepiece only
    joint: bool = True
    casefold_source: bool = False
    pad_piece: str = "<pad>"  # of word vocabularies
    bos_piece: str = "<s>"  # of word vocabularies
    eos_piece: str = "</s>"  # of word vocabularies
    source_end: Literal["eos", "pad"] = "eos"  # what stands behind every source

    def problems(self) -> Iterable[str]:
        yield f"size must be at least 1, not {self.size}" if self.size < 1 else ""
        if self.casefold_source and self.joint:
            yield "casefold_source needs joint = false: one vocabulary cannot fold the case of one side alone"
        if self.casefold_source and self.kind != "sentencepiece":
            yield f"casefold_source needs kind = sentencepiece, not {self.kind}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerConfig:
    """rate: the peak. Schedules warm up linearly, then: constant; inverse_sqrt falls with 1/sqrt(update);
    cosine falls to final_fraction of the peak at the last update."""

    name: Literal["adam", "adamw", "sgd"] = "adam"  # adamw: with decoupled weight decay
    rate: float = 1e-3
    schedule: Literal["constant", "inverse_sqrt", "cosine"] = "constant"  # of the rate, behind the warm-up
    warmup_updates: int = 0  # the rate rises from 0 to its peak over so many
    final_fraction: float = 0.05  # of the peak, where cosine ends
    betas: tuple[float, float] = (0.9, 0.98)  # Adam's decay of the gradient's mean and of its square's
    epsilon: float = 1e-9  # Adam's, in the denominator
    weight_decay: float = 0.0  # of matrices alone; biases and norms are spared
    clip_norm: float = 1.0  # of all gradients together; 0: off

    def problems(self) -> Iterable[str]:
        if not 0 < self.rate < math.inf:
            yield f"rate must be more than 0, not {self.rate:g}"
        if self.warmup_updates < 0:
            yield f"warmup_updates must be at least 0, not {self.warmup_updates}"
        if not 0 <= self.final_fraction <= 1:
            yield f"final_fraction must lie in [0, 1], not {self.final_fraction:g}"
        if not all(0 <= beta < 1 for beta in self.betas):
            yield f"betas must lie in [0, 1), not {', '.join(f'{beta:g}' for beta in self.betas)}"
        yield f"epsilon must be more than 0, not {self.epsilon:g}" if not self.epsilon > 0 else ""
        for name in ("weight_decay", "clip_norm"):
            value = getattr(self, name)
            yield f"{name} must be at least 0, not {value:g}" if not 0 <= value < math.inf else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopConfig:
    """A run ends at the first of its limits, or when `patience` validations in a row have brought nothing."""

    max_epochs: int = 100  # passes over the corpus
    max_minutes: float | None = None  # of training, those before a resume included
    patience: int = 0  # validations in a row without a gain that end the run; 0: off
    validate_every_epochs: int = 1
    average_decay: float = 0.0  # of the weights' exponential moving average, per update; 0: off
    seed: int = 1  # of weights, order, dropout and held-out pairs
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
class TranslatorConfig:
    """network: the fields of `models.transformer_config.TransformerConfig` but its vocabulary sizes."""

    recipe: str  # the name of the base
    source_language: str = "src"  # the code that clients ask for
    target_language: str = "tgt"
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    network: Mapping[str, Any] = field(default_factory=dict)
    label_smoothing: float = 0.1  # so much of the probability goes to all tokens alike
    tokens_per_batch: int = 4096  # padded, of the longer side
    max_tokens: int = 256  # longer training pairs are left out, and said so; also the served model's limit
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    loop: LoopConfig = field(default_factory=LoopConfig)

    def __post_init__(self) -> None:
        raise_all([*_parts_problems(self), *self.problems()])

    def problems(self) -> Iterable[str]:
        for name in ("source_language", "target_language"):
            code = getattr(self, name)  # a model whose languages nobody can ask for would be trained for nothing
            if not re.fullmatch(LANGUAGE, code) or code.lower() == "auto":
                yield f"{name} must be a language code such as de or pt-BR, not {code!r}"
        if not 0 <= self.label_smoothing < 1:
            yield f"label_smoothing must lie in [0, 1), not {self.label_smoothing:g}"
        for name in ("tokens_per_batch", "max_tokens"):
            yield f"{name} must be at least 1, not {getattr(self, name)}" if getattr(self, name) < 1 else ""
        if self.network.get("tied") == "all" and not self.tokenizer.joint:
            yield "network.tied = all needs tokenizer.joint = true: one table holds one vocabulary"


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
        raise_all([*_parts_problems(self), *self.problems()])

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
