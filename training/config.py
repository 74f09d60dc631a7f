"""The whole configuration of a run. Frozen, recorded in the checkpoint, and checked in one go: every problem is
named in one message."""

from __future__ import annotations

import math
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
    """joint: one vocabulary for both languages. casefold_source: read "Bier" and "bier" alike.

    source_sampling and target_sampling cut the words of each epoch anew; what is served cuts them the one best way.
    They are the share of merges left out of bpe (BPE-dropout, Provilkov et al. 2020, arXiv 1910.13267), or how
    sharply a unigram model prefers likely cuts (alpha of Kudo 2018, arXiv 1804.10959: small is wild). 0: off.
    """

    kind: Literal["sentencepiece", "word", "character"] = "sentencepiece"
    algorithm: Literal["bpe", "unigram"] = "bpe"  # of sentencepiece only
    size: int = 8000  # at most; of sentencepiece only
    source_sampling: float = 0.0
    target_sampling: float = 0.0
    joint: bool = True
    casefold_source: bool = False
    pad_piece: str = "<pad>"  # of word vocabularies
    bos_piece: str = "<s>"
    eos_piece: str = "</s>"
    source_end: Literal["eos", "pad"] = "eos"  # what stands behind every source

    def problems(self) -> Iterable[str]:
        if self.algorithm not in ("bpe", "unigram"):
            yield f"algorithm must be bpe or unigram, not {self.algorithm!r}"
        for name in ("source_sampling", "target_sampling"):
            share = getattr(self, name)
            if not 0 <= share < 1:
                yield f"{name} must lie in [0, 1), not {share}"
            elif share and self.kind != "sentencepiece":
                yield f"{name} needs a sentencepiece vocabulary, not one of kind {self.kind}"


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
class TranslatorConfig:
    """network: the fields of `models.transformer_config.TransformerConfig` but its vocabulary sizes.

    r_drop: alpha of Liang et al. 2021 (arXiv 2106.14448): every batch twice under different dropout, and a pull
    between the two predictions; it doubles the cost of an update. source_word_dropout, target_word_dropout: the
    share of tokens read as the unknown one, on either side. bidirectional_epochs: in the first so many epochs each
    pair is turned around with probability 1/2, and the network learns both directions (Ding et al. 2021,
    arXiv 2109.07780). All four are 0 where they are off.
    """

    recipe: str
    source_language: str = "src"
    target_language: str = "tgt"
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    network: Mapping[str, Any] = field(default_factory=dict)
    label_smoothing: float = 0.1
    r_drop: float = 0.0
    source_word_dropout: float = 0.0
    target_word_dropout: float = 0.0
    bidirectional_epochs: int = 0
    tokens_per_batch: int = 4096  # padded, of the longer side
    max_tokens: int = 256  # longer training pairs are left out, and said so; also the served model's limit
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    loop: LoopConfig = field(default_factory=LoopConfig)

    def __post_init__(self) -> None:
        raise_all([*self.loop.problems(), *self.tokenizer.problems(), *self.problems()])

    def problems(self) -> Iterable[str]:
        """Its own, not those of its parts."""
        for name in ("label_smoothing", "source_word_dropout", "target_word_dropout"):
            if not 0 <= getattr(self, name) < 1:
                yield f"{name} must lie in [0, 1), not {getattr(self, name)}"
        yield f"r_drop must be at least 0, not {self.r_drop}" if not 0 <= self.r_drop < math.inf else ""
        if self.bidirectional_epochs < 0:
            yield f"bidirectional_epochs must be at least 0, not {self.bidirectional_epochs}"
        if self.bidirectional_epochs and not self.tokenizer.joint:
            yield "bidirectional_epochs needs one vocabulary for both languages (joint)"
        if self.bidirectional_epochs and self.tokenizer.source_end != "eos":
            yield "bidirectional_epochs needs sources that end as targets do (source_end eos)"


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
