"""Every option of the encoder-decoder Transformer. It stands apart from the network because its layers read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from models.positions import PositionLayout

Norm = Literal["post", "pre"]
Activation = Literal["relu", "gelu", "silu"]
Tied = Literal["none", "output", "all"]
CHOICES: dict[str, tuple[str, ...]] = {
    "norm": get_args(Norm),
    "activation": get_args(Activation),
    "positions": get_args(PositionLayout),
    "tied": get_args(Tied),
}
SIZES = (
    *("source_vocabulary", "target_vocabulary", "d_model", "encoder_layers", "decoder_layers"),
    *("heads", "head_width", "d_ff"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformerConfig:
    """The classic form (Vaswani et al. 2017) is the default; the options are those that real checkpoints need."""

    source_vocabulary: int
    target_vocabulary: int
    pad: int = 0
    d_model: int = 512  # the width of every layer's input and output
    encoder_layers: int = 6
    decoder_layers: int = 6
    heads: int = 8
    head_width: int = 64
    d_ff: int = 2048  # the width inside the feed-forward layers
    norm: Norm = "post"  # layer norm behind each residual sum, as the paper has it, or before each layer
    norm_epsilon: float = 1e-5
    activation: Activation = "relu"
    positions: PositionLayout = "interleaved"
    scale_embedding: bool = True  # multiply embeddings by sqrt(d_model), as the paper does
    tied: Tied = "none"  # output: target table = output matrix; all: source too
    output_bias: bool = False
    attention_bias: bool = True
    attention_scale: float | None = None  # None: 1/sqrt(head_width)
    embedding_dropout: float = 0.1
    residual_dropout: float = 0.1  # on what each layer adds
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0

    def __post_init__(self) -> None:
        problems = [
            f"{name} must be a whole number of at least 1, not {getattr(self, name)!r}"
            for name in SIZES
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 1
        ]
        problems += [
            f"{name} must be one of {', '.join(allowed)}, not {getattr(self, name)!r}"
            for name, allowed in CHOICES.items()
            if getattr(self, name) not in allowed
        ]
        if self.tied == "all" and self.source_vocabulary != self.target_vocabulary:
            problems.append("tied='all' needs one vocabulary for source and target")
        problems += [
            f"{name} must lie in [0, 1), not {getattr(self, name)}"
            for name in ("embedding_dropout", "residual_dropout", "attention_dropout", "activation_dropout")
            if not 0 <= getattr(self, name) < 1
        ]
        if problems:
            raise ValueError("; ".join(problems) + ".")
