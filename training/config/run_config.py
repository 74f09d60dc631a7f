"""The frozen dataclasses of a run's configuration, validated together: every problem is named in one error."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

from training.errors import CannotStart

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def raise_all(problems: Iterable[str]) -> None:
    found = [problem for problem in problems if problem]
    if found:
        raise CannotStart(found)


def problems_of_parts(config: DataclassInstance) -> Iterator[str]:
    """Those of every part that can say them, each with its whole key."""
    for part in fields(config):
        for problem in getattr(getattr(config, part.name), "problems", tuple)():
            yield f"{part.name}.{problem}" if problem else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningConfig:
    """Which training pairs are left out (`training.data.cleaning`); None, False and "off" switch a rule off.

    A pair with an empty side is no pair and always left out; one over `TranslatorConfig.max_tokens` is, too.
    """

    broken: bool = True  # control characters, U+FFFD, UTF-8 decoded as Windows-1252
    max_characters: int | None = 5000  # of either side
    identical_from: int | None = 20  # characters; a copy teaches copying, but "Taxi" and "Berlin" are translations
    ratio: float | None = 4.0  # of the sides' lengths, as a factor to the corpus's own median ratio
    ratio_tolerance: int = 20  # characters beyond that: short sentences vary more
    duplicates: bool = True  # all but the first of equal pairs
    overlap: Literal["off", "pair", "source", "either"] = "source"  # what a pair must share with a held-out one
    least_pairs: int = 2  # that must be left; of a single one nothing but itself can be learnt

    def problems(self) -> Iterable[str]:
        for name in ("max_characters", "identical_from", "least_pairs"):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerConfig:
    """rate: the peak. Schedules warm up linearly, then: constant; inverse_sqrt falls with 1/sqrt(update); cosine and
    linear fall to final_fraction of the peak until the end of the run; trapezoid stays at the peak and falls linearly
    in the last fall_share of the run."""

    name: Literal["adam", "adamw", "sgd", "muon"] = "adam"  # muon: for hidden matrices, with adamw for the rest
    rate: float = 1e-3
    schedule: Literal["constant", "inverse_sqrt", "cosine", "linear", "trapezoid"] = "constant"  # of the rate
    warmup_updates: int = 0  # the rate rises from 0 to its peak over so many
    final_fraction: float = 0.05  # of the peak, where falling schedules end
    fall_share: float = 0.2  # of a trapezoid
    betas: tuple[float, float] = (0.9, 0.98)  # Adam's decay of the gradient's mean and of its square's
    momentum: float = 0.95  # of muon's matrices
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
        yield f"fall_share must lie in (0, 1], not {self.fall_share:g}" if not 0 < self.fall_share <= 1 else ""
        yield f"momentum must lie in [0, 1), not {self.momentum:g}" if not 0 <= self.momentum < 1 else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerConfig:
    """joint: one vocabulary for both languages. casefold_source: read "Bier" and "bier" alike.

    source_sampling and target_sampling cut the words of each epoch anew; what is served cuts them the one best way.
    They are the share of merges left out of bpe (BPE-dropout, Provilkov et al. 2020, arXiv 1910.13267), or how
    sharply a unigram model prefers likely cuts (alpha of Kudo 2018, arXiv 1804.10959: small is wild). 0: off.
    """

    kind: Literal["sentencepiece", "word", "character"] = "sentencepiece"  # pieces of words, words, or characters
    algorithm: Literal["bpe", "unigram"] = "bpe"  # of sentencepiece only
    size: int = 8000  # at most; of sentencepiece only
    source_sampling: float = 0.0
    target_sampling: float = 0.0
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
        if self.algorithm not in ("bpe", "unigram"):
            yield f"algorithm must be bpe or unigram, not {self.algorithm!r}"
        for name in ("source_sampling", "target_sampling"):
            share = getattr(self, name)
            if not 0 <= share < 1:
                yield f"{name} must lie in [0, 1), not {share}"
            elif share and self.kind != "sentencepiece":
                yield f"{name} needs a sentencepiece vocabulary, not one of kind {self.kind}"


LANGUAGE = r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*"


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslatorConfig:
    """network: the fields of `models.networks.layers.TransformerConfig` but its vocabulary sizes.

    r_drop: alpha of Liang et al. 2021 (arXiv 2106.14448): every batch twice under different dropout, and a pull
    between the two predictions; it doubles the cost of an update, and can be left out of the first
    r_drop_after_epochs, in which nothing is learnt by heart yet. source_word_dropout, target_word_dropout: the
    share of tokens read as the unknown one, on either side. bidirectional_epochs: in the first so many epochs each
    pair is turned around with probability 1/2, and the network learns both directions (Ding et al. 2021,
    arXiv 2109.07780). Each is 0 where it is off.
    """

    recipe: str  # the name of the base
    source_language: str = "src"  # the code that clients ask for
    target_language: str = "tgt"
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    network: Mapping[str, Any] = field(default_factory=dict)
    label_smoothing: float = 0.1  # so much of the probability goes to all tokens alike
    r_drop: float = 0.0
    r_drop_after_epochs: int = 0
    source_word_dropout: float = 0.0
    target_word_dropout: float = 0.0
    bidirectional_epochs: int = 0
    tokens_per_batch: int = 4096  # padded, of the longer side
    max_tokens: int = 256  # longer training pairs are left out, and said so; also the served model's limit
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    loop: LoopConfig = field(default_factory=LoopConfig)
    cleaning: CleaningConfig = field(default_factory=CleaningConfig)

    def __post_init__(self) -> None:
        raise_all([*problems_of_parts(self), *self.problems()])

    def problems(self) -> Iterable[str]:
        """Its own, not those of its parts."""
        for name in ("source_language", "target_language"):
            code = getattr(self, name)  # a model whose languages nobody can ask for would be trained for nothing
            if not re.fullmatch(LANGUAGE, code) or code.lower() == "auto":
                yield f"{name} must be a language code such as de or pt-BR, not {code!r}"
        for name in ("label_smoothing", "source_word_dropout", "target_word_dropout"):
            if not 0 <= getattr(self, name) < 1:
                yield f"{name} must lie in [0, 1), not {getattr(self, name)}"
        for name in ("tokens_per_batch", "max_tokens"):
            yield f"{name} must be at least 1, not {getattr(self, name)}" if getattr(self, name) < 1 else ""
        yield f"r_drop must be at least 0, not {self.r_drop}" if not 0 <= self.r_drop < math.inf else ""
        for name in ("r_drop_after_epochs", "bidirectional_epochs"):
            yield f"{name} must be at least 0, not {getattr(self, name)}" if getattr(self, name) < 0 else ""
        if self.bidirectional_epochs and not self.tokenizer.joint:
            yield "bidirectional_epochs needs one vocabulary for both languages (tokenizer.joint)"
        if self.bidirectional_epochs and self.tokenizer.source_end != "eos":
            yield "bidirectional_epochs needs sources that end as targets do (tokenizer.source_end eos)"
        if self.network.get("tied") == "all" and not self.tokenizer.joint:
            yield "network.tied = all needs tokenizer.joint = true: one table holds one vocabulary"


@dataclass(frozen=True, slots=True, kw_only=True)
class LyricsConfig:
    """network: the fields of `models.networks.recurrent.RecurrentConfig` but its vocabulary size.

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
