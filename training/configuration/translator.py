"""The whole configuration of a translator's run."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from training.configuration.cleaning import CleaningConfig
from training.configuration.loop import LoopConfig
from training.configuration.optimizer import OptimizerConfig
from training.configuration.problems import problems_of_parts, raise_all
from training.configuration.tokenizer import TokenizerConfig

LANGUAGE = r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*"


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslatorConfig:
    """network: the fields of `models.transformer_config.TransformerConfig` but its vocabulary sizes.

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
