"""What makes a network that sees few pairs many times learn less by heart."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from training.configuration.translator import TranslatorConfig
from training.vocabulary import BOS, EOS, PAD, UNKNOWN

SPECIAL = (PAD, UNKNOWN, BOS, EOS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Regularisers:
    """As `training.configuration.translator.TranslatorConfig` says."""

    r_drop: float = 0.0
    r_drop_after_epochs: int = 0
    source_word_dropout: float = 0.0
    target_word_dropout: float = 0.0

    @classmethod
    def of(cls, config: TranslatorConfig) -> Regularisers:
        return cls(**{name: getattr(config, name) for name in cls.__slots__})


def drop_words(ids: Tensor, share: float) -> Tensor:
    """ids [B, T] -> the same with `share` of its words read as the unknown one; special tokens stay. The draw comes
    from PyTorch's generator, as dropout's does: a snapshot holds its state."""
    if not share:
        return ids
    drawn = torch.rand(ids.shape, device=ids.device) < share
    return ids.masked_fill(drawn & (ids > max(SPECIAL)), UNKNOWN)
