"""Which networks the kernels in C compute: the classes, tensors and code that they were written for, and the options
and sizes that they know. `transformer_difference` and `recurrent_difference` say what keeps a network from being one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import NoneType

from torch import nn

from models import fingerprints
from models.exactness import TORCH, Known, difference, fingerprint
from models.networks.cells import CELLS
from models.networks.recurrent import CELLS_KNOWN, FUSED, LAYERS, RecurrentLanguageModel, cell_difference
from models.networks.transformer import (
    ACTIVATIONS,
    DecoderLayer,
    EncoderLayer,
    FeedForward,
    MultiHeadAttention,
    Projection,
    Residual,
    Transformer,
)

FORWARD = ("forward",)
LAYER = {"attention": (MultiHeadAttention,), "feed_forward": (FeedForward,)}
AROUND = ("around_attention", "around_cross", "around_feed_forward")
TRANSFORMER: dict[type[nn.Module], Known] = {
    **TORCH,
    Projection: Known(frozenset({"weight", "bias"}), methods=FORWARD),
    MultiHeadAttention: Known(
        children={"projection": (Projection,), "output": (nn.Linear,)},
        methods=("forward", "query_key_value", "key_value", "split", "attend"),
    ),
    FeedForward: Known(
        children={"widen": (nn.Linear,), "narrow": (nn.Linear,), "dropout": (nn.Dropout,)}, methods=FORWARD
    ),
    Residual: Known(children={"norm": (nn.LayerNorm,), "dropout": (nn.Dropout,)}, methods=FORWARD),
    EncoderLayer: Known(children={**LAYER, **dict.fromkeys(AROUND[::2], (Residual,))}, methods=FORWARD),
    DecoderLayer: Known(
        children={**LAYER, "cross_attention": (MultiHeadAttention,), **dict.fromkeys(AROUND, (Residual,))},
        methods=FORWARD,
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
        methods=("embed", "encode", "source_key_values", "decode", "decode_over", "project", "features"),
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
        methods=("forward", "sequence", "inputs", "project"),
    ),
}


def transformer_difference(network: Transformer) -> str | None:
    """What keeps a network from being the one that the kernels compute; None: nothing does."""
    return difference(network, TRANSFORMER) or next(_odd_sizes(network), None)


def _odd_sizes(network: Transformer) -> Iterator[str]:
    """Modules of known classes whose sizes or options are not those of the network's config."""
    config, inner = network.config, network.config.heads * network.config.head_width
    if (len(network.encoder), len(network.decoder)) != (config.encoder_layers, config.decoder_layers):
        yield "its layers are not as many as its config says"
    scale = network.decoder_layers[0].attention.scale
    for name, module in network.named_modules():
        match module:
            case MultiHeadAttention():
                sizes = module.heads, module.head_width, module.inner, module.scale, module.dropout
                if sizes != (config.heads, config.head_width, inner, scale, config.attention_dropout):
                    yield f"{name} has heads of its own"
                if module.projection.weight.shape != (3 * inner, config.d_model):
                    yield f"{name} has maps of other sizes"
            case FeedForward():
                if module.activation is not ACTIVATIONS.get(config.activation):
                    yield f"{name} has another activation"
                if module.widen.weight.shape != (config.d_ff, config.d_model):
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
                options = module.max_norm, module.padding_idx, module.scale_grad_by_freq, module.sparse
                if any(option not in (None, False) for option in options):
                    yield f"{name} is an embedding with options"


def recurrent_difference(network: RecurrentLanguageModel) -> str | None:
    """As `transformer_difference`."""
    return cell_difference(network) or difference(network, RECURRENT)


def current_code() -> dict[str, str]:
    """The fingerprints of the code as it is now, under the names of `models.fingerprints`."""
    methods = {
        (kind, name) for table in (TRANSFORMER, RECURRENT) for kind, known in table.items() for name in known.methods
    }
    methods |= {(RecurrentLanguageModel, name) for name in LAYERS}
    found = {f"{kind.__qualname__}.{name}": fingerprint(getattr(kind, name)) for kind, name in methods}
    return dict(sorted({**found, **{kind: fingerprint(CELLS[kind].step) for kind in FUSED}}.items()))


def main() -> int:
    """Writes them down."""
    path = Path(str(fingerprints.__file__))
    text, table = path.read_text(), "\n".join(f'    "{name}": "{code}",' for name, code in current_code().items())
    path.write_text(f"{text[: text.index('CODE: ')]}CODE: dict[str, str] = {{\n{table}\n}}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
