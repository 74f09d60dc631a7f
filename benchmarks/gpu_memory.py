"""Memory of a model and of its slots on a GPU, as the server computes it when it chooses the slots; needs no GPU.

python -m benchmarks.gpu_memory [--json] [--out FILE]

Networks of random weights with the shapes of the recipes, of Vaswani et al.'s big Transformer and of OPUS-MT. Weights:
fp32, which inspections use, and bf16, which decoding uses. A slot: caches of the longest source and output that the
model takes, the arrays of a step on the device, and logits (app/engine/worker/slot_budget.py). Slots: on an empty GPU
with this model alone. Graphs, cuBLAS's workspaces and CUDA's context come out of the reserve, and only a GPU can show
their size (tests/gpu/test_devices.py).
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from app.engine.worker.model_runner import slot_bytes
from app.engine.worker.slot_budget import GIB, MIB, NoRoom, choose_slots
from benchmarks.report import finish
from models.backends.select import decodable
from models.backends.torch.cuda_graph import Graphed, Recordable, Recorder
from models.checkpoint import CheckpointConfig
from models.networks.recurrent import RecurrentConfig, RecurrentLanguageModel
from models.networks.transformer import Transformer, TransformerConfig
from training.config import recipes
from training.data.tokenizer_training import BOS, EOS

GPUS = {"8 GiB": 8, "24 GiB": 24, "80 GiB": 80}
CONTEXT_BYTES = 512 * MIB  # of a process on an empty GPU: CUDA's context and its libraries' code


@dataclass(frozen=True, slots=True)
class Shape:
    """tokens: the longest source, and the longest output."""

    name: str
    network: Transformer | RecurrentLanguageModel
    vocabulary: int
    tokens: int


def translator(name: str, vocabulary: int, tokens: int = 256, **options: Any) -> Shape:
    config = TransformerConfig(source_vocabulary=vocabulary, target_vocabulary=vocabulary, **options)
    return Shape(name, Transformer(config).eval(), vocabulary, tokens)


def shapes(names: set[str] | None = None) -> list[Shape]:
    made = []
    for name in ("tiny", "small", "base"):
        if names is None or name in names:
            recipe = recipes.TRANSLATORS[name].config
            made.append(translator(name, recipe.tokenizer.vocab_size, recipe.max_tokens, **recipe.network))
    if names is None or "big" in names:
        big = {"d_model": 1024, "heads": 16, "head_width": 64, "d_ff": 4096, "norm": "pre", "tied": "all"}
        made.append(translator("big (Vaswani et al. 2017)", 32_000, **big))
    if names is None or "opus" in names:
        marian = {"positions": "marian", "tied": "all", "output_bias": True}
        made.append(translator("OPUS-MT (opus-mt-de-en)", 58_101, 512, **marian))
    if names is None or "lyrics" in names:
        config = RecurrentConfig(vocabulary=5_000, cell="gru", hidden=512, layers=2)
        made.append(Shape("lyricist, GRU 2 × 512", RecurrentLanguageModel(config).eval(), 5_000, 0))
    return made


def row(shape: Shape) -> dict[str, Any]:
    config = CheckpointConfig(
        kind="translator" if shape.tokens else "lyrics",
        architecture={},
        target_prefix=(BOS,) if shape.tokens else (),
        eos=EOS,
        max_source_tokens=shape.tokens,
        max_new_tokens=shape.tokens or 1024,
    )
    numbers = sum(parameter.numel() for parameter in shape.network.parameters())
    weights = numbers * 6
    network = cast(Recordable, decodable(shape.network, "bf16"))
    size = slot_bytes(Graphed(network, lambda device: cast(Recorder, None)), config, shape.vocabulary)
    result = {"model": shape.name, "parameters": numbers, "weights_mib": round(weights / MIB)}
    result |= {"slot_mib": round(size / MIB, 2)}
    for name, gib in GPUS.items():
        free = gib * GIB - CONTEXT_BYTES - weights
        try:
            slots = choose_slots("", "", slot_bytes=size, free_bytes=free, total_bytes=gib * GIB).slots
        except NoRoom:
            slots = 0
        result |= {f"slots on {name}": slots}
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--out", type=Path, help="also write the object of --json to this file")
    options = parser.parse_args()
    finish("gpu_memory", [row(shape) for shape in shapes()], [], as_json=options.json, out=options.out)


if __name__ == "__main__":
    main()
