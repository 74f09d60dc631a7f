"""Small real networks with numbers far from zero, so that a wrong row or mask shows."""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from models.inspection.selection import KINDS
from models.networks.cells import CELLS
from models.networks.recurrent import FUSED, RecurrentConfig, RecurrentLanguageModel
from models.networks.transformer import Capture, Transformer, TransformerConfig

N = TypeVar("N", bound=nn.Module)
SOURCE, TARGET = 17, 19
ALL_CELLS = tuple(CELLS)
FUSED_CELLS = tuple(FUSED)  # those that PyTorch and our kernels compute, too
OPTIONS: dict[str, dict[str, Any]] = {
    "post": {},
    "pre": {"norm": "pre"},
    "tied": {"tied": "output"},
    "tied 3-way": {"tied": "all", "source_vocabulary": TARGET},
    "marian": {
        "tied": "all",
        "source_vocabulary": TARGET,
        "positions": "marian",
        "output_bias": True,
        "activation": "silu",
        "pad": 18,
    },
    "gelu": {"activation": "gelu", "norm": "pre", "scale_embedding": False},
    "unequal depths": {"encoder_layers": 1, "decoder_layers": 3},
    "deep encoder": {"encoder_layers": 3, "decoder_layers": 1, "norm": "pre"},
    "wide heads": {"heads": 3, "head_width": 8},
    "narrow heads": {"heads": 2, "head_width": 3, "attention_scale": 0.3},
    "no attention bias": {"attention_bias": False, "norm_epsilon": 1e-6},
}
QUICK = ("post", "marian", "gelu", "unequal depths", "narrow heads")
"""Options that between them take each way through the network: what checks many steps of each network checks the
others in the slow tests."""


def transformer_config(**options: Any) -> TransformerConfig:
    return TransformerConfig(
        **{
            "source_vocabulary": SOURCE,
            "target_vocabulary": TARGET,
            "d_model": 16,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "heads": 4,
            "head_width": 4,
            "d_ff": 24,
            **options,
        }
    )


def transformer(seed: int = 0, **options: Any) -> Transformer:
    torch.default_generator.manual_seed(seed)  # of CPUs alone: for GPUs `torch.manual_seed` keeps the stack
    return lively(Transformer(transformer_config(**options)).eval())


def recurrent(seed: int = 0, **options: Any) -> RecurrentLanguageModel:
    torch.default_generator.manual_seed(seed)  # of CPUs alone: for GPUs `torch.manual_seed` keeps the stack
    config = RecurrentConfig(**{"vocabulary": TARGET, "embedding": 6, "hidden": 10, "layers": 2, **options})
    return lively(RecurrentLanguageModel(config).eval())


def lively(network: N) -> N:
    """Biases and norms away from 0 and 1, where a forgotten one would not show."""
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if parameter.requires_grad and (parameter.dim() == 1 or "output" in name):
                parameter.add_(torch.randn_like(parameter) * 0.3)
    return network


@torch.inference_mode()
def attention(network: Transformer, source: Tensor, target: Tensor) -> dict[str, list[Tensor]]:
    """Of one teacher-forced pass: kind -> one [B, H, Q, K] a layer."""
    captures = {kind: Capture() for kind in KINDS}
    memory, readable = network.encode(source, captures["encoder"])
    network.decode(target, memory, readable, (captures["decoder"], captures["cross"]))
    return {kind: list(capture.weights.values()) for kind, capture in captures.items()}


def ids(shape: tuple[int, ...], seed: int, low: int = 1, high: int = SOURCE) -> Tensor:
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(seed))
