"""Every option of the encoder-decoder Transformer. It stands apart from the network because its layers read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from models.positions import PositionLayout


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformerConfig:
    """The classic form (Vaswani et al. 2017) is the default; the options are those that real checkpoints need."""

    source_vocabulary: int
    target_vocabulary: int
    pad: int = 0
    d_model: int = 512
    encoder_layers: int = 6
    decoder_layers: int = 6
    heads: int = 8
    head_width: int = 64
    d_ff: int = 2048
    norm: Literal["post", "pre"] = "post"
    norm_epsilon: float = 1e-5
    activation: Literal["relu", "gelu", "silu"] = "relu"
    positions: PositionLayout = "interleaved"
    scale_embedding: bool = True  # multiply embeddings by sqrt(d_model), as the paper does
    tied: Literal["none", "output", "all"] = "none"  # output: target table = output matrix; all: source too
    output_bias: bool = False
    attention_bias: bool = True
    attention_scale: float | None = None  # None: 1/sqrt(head_width)
    embedding_dropout: float = 0.1
    residual_dropout: float = 0.1
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0

    def __post_init__(self) -> None:
        problems = [
            f"{name} must be at least 1, not {getattr(self, name)}"
            for name in ("source_vocabulary", "target_vocabulary", "d_model", "heads", "head_width", "d_ff")
            if getattr(self, name) < 1
        ]
        if min(self.encoder_layers, self.decoder_layers) < 1:
            problems.append("encoder_layers and decoder_layers must be at least 1")
        if self.tied == "all" and self.source_vocabulary != self.target_vocabulary:
            problems.append("tied='all' needs one vocabulary for source and target")
        problems += [
            f"{name} must lie in [0, 1), not {getattr(self, name)}"
            for name in ("embedding_dropout", "residual_dropout", "attention_dropout", "activation_dropout")
            if not 0 <= getattr(self, name) < 1
        ]
        if problems:
            raise ValueError("; ".join(problems) + ".")
