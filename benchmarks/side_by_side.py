"""Trained translators side by side in one network of opus-mt's size: 6+6 layers, 512 wide, 58,101 entries.

Real opus-mt weights are not in the repository, and random weights say little about a trained model's logits: the
hidden states of a trained model fill few directions, and its best token is far ahead. `widened` copies one small model,
so its states would span 128 of 512 directions. Here four models of width 128 (several seeds of one recipe, with one
vocabulary) fill the width: every matrix has one block of each, the logits are the mean of theirs, and the states
span as many directions as the models differ. What is not theirs: layer norm is over all four, positions of the
second to fourth block run slower by 3.5, 7 and 10 % (a wider network's sinusoids), the feed-forward numbers are there
twice, two layers of six hand on what they get, and the entries beyond the models' vocabulary are drawn from the normal
distribution (mean and covariance) of the rarer half of the trained rows, since most of opus-mt's entries are rare ones
and those of the other language.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from benchmarks.widened import write_transformer
from models import checkpoint as checkpoints
from models.networks.transformer import TransformerConfig

VOCABULARY, LAYERS, INNER, BLOCKS = 58_101, 6, 2048, 4
ADDS = ("attention.output", "cross_attention.output", "feed_forward.narrow")
Tensors = dict[str, Tensor]


def side_by_side_config(old: TransformerConfig) -> TransformerConfig:
    """ValueError for a network of another kind than the recipe `tiny` makes."""
    plain = (old.norm, old.positions, old.tied, old.scale_embedding) == ("pre", "interleaved", "all", True)
    if not plain or old.output_bias or old.attention_scale is not None or INNER % (BLOCKS * old.d_ff):
        raise ValueError("Only networks of the kind that the recipe `tiny` trains can stand side by side.")
    return replace(
        old,
        source_vocabulary=VOCABULARY,
        target_vocabulary=VOCABULARY,
        d_model=BLOCKS * old.d_model,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        heads=BLOCKS * old.heads,
        d_ff=INNER,
    )


def positions_of(block: int, width: int) -> Tensor:
    """[width]: where the numbers of a block stand in the wide stream. Pairs of sine and cosine stay together, and the
    pairs of all blocks with about the same frequency are neighbours."""
    pairs = torch.arange(width // 2) * BLOCKS + block
    return (2 * pairs[:, None] + torch.arange(2)).flatten()


def joined(models: Sequence[Tensors], old: TransformerConfig) -> tuple[Tensors, TransformerConfig]:
    """The weights and the shape of four models as one. models: `BLOCKS` of them."""
    new = side_by_side_config(old)
    stream = [positions_of(block, old.d_model) for block in range(BLOCKS)]
    result: Tensors = {}
    for side, own in (("encoder", old.encoder_layers), ("decoder", old.decoder_layers)):
        for number in range(LAYERS):
            first = f"{side}.{number % own}."
            for name in (name for name in models[0] if name.startswith(first)):
                rest = name.removeprefix(first)
                whole = _joined_tensor(rest, [tensors[name] for tensors in models], stream, new)
                silent = number >= own and rest.startswith(ADDS)
                result[f"{side}.{number}.{rest}"] = torch.zeros_like(whole) if silent else whole
    # the network multiplies embeddings by the root of its width, which is twice that of a block
    root = BLOCKS**0.5
    table = _interleaved([tensors["source_embedding.weight"] / root for tensors in models], stream)
    result["source_embedding.weight"] = with_drawn_rows(table, VOCABULARY)
    for end in ("encoder_norm", "decoder_norm"):
        for kind in ("weight", "bias"):
            share = root / BLOCKS if end == "decoder_norm" else 1.0
            vectors = [tensors[f"{end}.{kind}"][None] * share for tensors in models]
            result[f"{end}.{kind}"] = _interleaved(vectors, stream)[0]
    return result, new


def _interleaved(parts: Sequence[Tensor], stream: Sequence[Tensor]) -> Tensor:
    """[rows, width] of each block -> [rows, 4 · width]."""
    whole = parts[0].new_zeros(len(parts[0]), sum(part.size(1) for part in parts))
    for part, places in zip(parts, stream, strict=True):
        whole[:, places] = part
    return whole


def _joined_tensor(name: str, parts: Sequence[Tensor], stream: Sequence[Tensor], new: TransformerConfig) -> Tensor:
    if ".norm." in name:
        return _interleaved([part[None] for part in parts], stream)[0]
    if "attention.projection" in name:  # queries of all blocks, then keys, then values
        thirds = [part.chunk(3) for part in parts]
        return torch.cat([_blocks([third[i] for third in thirds], stream) for i in range(3)])
    if "widen" in name:
        times = new.d_ff // sum(len(part) for part in parts)
        return _blocks([part.repeat_interleave(times, dim=0) for part in parts], stream)
    if parts[0].dim() == 1:
        return _interleaved([part[None] for part in parts], stream)[0]
    times = 1 if "attention.output" in name else new.d_ff // sum(part.size(1) for part in parts)
    # [width, inner] of each block: the transpose reads the stream
    wide = [part.repeat_interleave(times, dim=1).T / times for part in parts]
    return _blocks(wide, stream).T.contiguous()


def _blocks(parts: Sequence[Tensor], stream: Sequence[Tensor]) -> Tensor:
    """[rows, width] of each block -> all rows, each reading the numbers of its block; vectors one after the other."""
    if parts[0].dim() == 1:
        return torch.cat(list(parts))
    width = sum(len(places) for places in stream)
    rows = []
    for part, places in zip(parts, stream, strict=True):
        wide = part.new_zeros(len(part), width)
        wide[:, places] = part
        rows.append(wide)
    return torch.cat(rows)


def with_drawn_rows(table: Tensor, size: int, seed: int = 0) -> Tensor:
    """table [V, C], the rarer tokens last -> [size, C]."""
    rare = table[len(table) // 2 :].double()
    covariance = torch.cov(rare.T)
    values, vectors = torch.linalg.eigh(covariance)
    noise = torch.randn(size - len(table), table.size(1), generator=torch.Generator().manual_seed(seed)).double()
    drawn = noise * values.clamp(min=0).sqrt() @ vectors.T + rare.mean(dim=0)
    return torch.cat([table, drawn.to(table.dtype)])


def write_side_by_side(folders: Sequence[Path], folder: Path) -> Path:
    """`folder`, now a checkpoint of the models as one; fewer than four are repeated. ValueError if their tokens
    differ."""
    models = [checkpoints.read(folders[block % len(folders)]) for block in range(BLOCKS)]
    first = models[0]
    if len({model.config.files["target.model"] for model in models}) > 1:
        raise ValueError("Translators can stand side by side only with one vocabulary.")
    fields = {key: value for key, value in first.config.architecture.items() if key != "name"}
    weights = [load_file(model.weights) for model in models]
    return write_transformer(first, *joined(weights, TransformerConfig(**fields)), folder)
