"""Which networks the kernels in C compute: the classes, tensors and code that they were written for, and the options
and sizes that they know. `transformer_difference` and `recurrent_difference` say what keeps a network from being one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import NoneType

from torch import Tensor, nn
from torch.nn import functional as F

from models import source_fingerprints
from models.exactness import OURS, TORCH, Known, difference, fingerprint, methods
from models.networks.cells import CELLS
from models.networks.recurrent import CELLS_KNOWN, FUSED, RecurrentLanguageModel, cell_difference
from models.networks.transformer import (
    DecoderLayer,
    EncoderLayer,
    FeedForward,
    MultiHeadAttention,
    Projection,
    Residual,
    Transformer,
)

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}
LAYER = {"attention": (MultiHeadAttention,), "feed_forward": (FeedForward,)}
AROUND = ("around_attention", "around_cross", "around_feed_forward")
TRANSFORMER: dict[type[nn.Module], Known] = {
    **TORCH,
    Projection: Known(frozenset({"weight", "bias"})),
    MultiHeadAttention: Known(
        children={"projection": (Projection,), "output": (nn.Linear,)},
    ),
    FeedForward: Known(children={"widen": (nn.Linear,), "narrow": (nn.Linear,), "dropout": (nn.Dropout,)}),
    Residual: Known(children={"norm": (nn.LayerNorm,), "dropout": (nn.Dropout,)}),
    EncoderLayer: Known(children={**LAYER, **dict.fromkeys(AROUND[::2], (Residual,))}),
    DecoderLayer: Known(
        children={**LAYER, "cross_attention": (MultiHeadAttention,), **dict.fromkeys(AROUND, (Residual,))},
    ),
    Transformer: Known(
        frozenset({"output_bias", "position_table"}),
        children={
            **dict.fromkeys(("source_embedding", "target_embedding"), (nn.Embedding,)),
            "embedding_dropout": (nn.Dropout,),
            **dict.fromkeys(("encoder", "decoder"), (nn.ModuleList,)),
            **dict.fromkeys(("encoder_norm", "decoder_norm"), (nn.LayerNorm, nn.Identity)),
            "output": (nn.Linear, NoneType),
        },
    ),
}
RECURRENT: dict[type[nn.Module], Known] = {
    **TORCH,
    **CELLS_KNOWN,
    RecurrentLanguageModel: Known(
        children={
            "embedding": (nn.Embedding, NoneType),
            "recurrent": tuple(FUSED.values()),
            "output": (nn.Linear,),
            "cells": (nn.ModuleList,),
        },
    ),
}


def transformer_difference(network: Transformer) -> str | None:
    """What keeps a network from being the one that the kernels compute; None: nothing does."""
    return difference(network, TRANSFORMER) or next(_odd_sizes(network), None)


def _odd_sizes(network: Transformer) -> Iterator[str]:
    """Modules of known classes whose sizes or options are not those of the network's config."""
    config, inner = network.config, network.config.heads * network.config.head_width
    yield from _odd_tensors(network)
    if (len(network.encoder), len(network.decoder)) != (config.encoder_layers, config.decoder_layers):
        yield "its layers are not as many as its config says"
    sizes = {"source_embedding": config.source_vocabulary, "target_embedding": config.target_vocabulary}
    for name, rows in sizes.items():
        if network.get_submodule(name).weight.shape != (rows, config.d_model):
            yield f"{name} has rows for another vocabulary"
    if network.output_weight.shape != (config.target_vocabulary, config.d_model):
        yield "output has rows for another vocabulary"
    if network.output is not None and network.output.bias is not None:
        yield "output has a bias of its own"
    if network.output_bias is not None and network.output_bias.shape != (config.target_vocabulary,):
        yield "output_bias is for another vocabulary"
    if network.embedding_dropout.p != config.embedding_dropout:
        yield "embedding_dropout has a rate of its own"
    scale = network.decoder[0].attention.scale
    for name, module in network.named_modules():
        match module:
            case MultiHeadAttention():
                own = module.heads, module.head_width, module.inner, module.scale, module.dropout
                if own != (config.heads, config.head_width, inner, scale, config.attention_dropout):
                    yield f"{name} has heads of its own"
                if (module.projection.weight.shape, module.output.weight.shape) != (
                    (3 * inner, config.d_model),
                    (config.d_model, inner),
                ):
                    yield f"{name} has maps of other sizes"
            case FeedForward():
                if module.activation is not ACTIVATIONS.get(config.activation):
                    yield f"{name} has another activation"
                if (module.widen.weight.shape, module.narrow.weight.shape) != (
                    (config.d_ff, config.d_model),
                    (config.d_model, config.d_ff),
                ):
                    yield f"{name} has maps of other sizes"
                if module.dropout.p != config.activation_dropout:
                    yield f"{name} has a dropout of its own"
            case Residual():
                if module.dropout.p != config.residual_dropout or module.before != (config.norm == "pre"):
                    yield f"{name} has options of its own"
            case nn.LayerNorm():
                if module.normalized_shape != (config.d_model,) or module.weight is None or module.bias is None:
                    yield f"{name} is a norm of another form"
            case nn.Embedding():
                if _has_options(module):
                    yield f"{name} is an embedding with options"


def _odd_tensors(network: nn.Module) -> Iterator[str]:
    """The kernels read parameters in one piece and of one format."""
    dtype = next(network.parameters()).dtype
    for name, parameter in network.named_parameters():
        if not parameter.is_contiguous():
            yield f"{name} is not contiguous"
        if parameter.dtype != dtype:
            yield f"{name} has another number format"


def _has_options(embedding: nn.Embedding) -> bool:
    options = embedding.max_norm, embedding.padding_idx, embedding.scale_grad_by_freq, embedding.sparse
    return any(option is not None and option is not False for option in options)


def _odd_recurrent_sizes(network: RecurrentLanguageModel) -> Iterator[str]:
    """As `_odd_sizes`."""
    config = network.config
    yield from _odd_tensors(network)
    if (network.embedding is not None) != bool(config.embedding):
        yield "its embedding is not that of its config"
    if network.embedding is not None:
        if network.embedding.weight.shape != (config.vocabulary, config.embedding):
            yield "embedding has rows for another vocabulary"
        if _has_options(network.embedding):
            yield "embedding is an embedding with options"
    if network.output.weight.shape != (config.vocabulary, config.hidden) or network.output.bias is None:
        yield "output has rows for another vocabulary"


def recurrent_difference(network: RecurrentLanguageModel) -> str | None:
    """As `transformer_difference`."""
    return cell_difference(network) or difference(network, RECURRENT) or next(_odd_recurrent_sizes(network), None)


def current_code() -> dict[str, str]:
    """The fingerprints of the code as it is now, under the names of `models.source_fingerprints`."""
    kinds = [kind for kind in (*TRANSFORMER, *RECURRENT) if kind.__module__.startswith(OURS)]
    found = {f"{kind.__qualname__}.{name}": fingerprint(vars(kind)[name]) for kind in kinds for name in methods(kind)}
    return dict(sorted({**found, **{kind: fingerprint(CELLS[kind].step) for kind in FUSED}}.items()))


def main() -> int:
    """Writes them down."""
    path = Path(str(source_fingerprints.__file__))
    text, table = path.read_text(), "\n".join(f'    "{name}": "{code}",' for name, code in current_code().items())
    path.write_text(f"{text[: text.index('CODE: ')]}CODE: dict[str, str] = {{\n{table}\n}}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
