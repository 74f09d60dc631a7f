"""A trained translator at the size of those that LibreTranslate ships (6+6 layers, 512 wide, 2,048 inside): what it
says stays much the same, what it costs is theirs.

Net2Net (Chen et al. 2016): every number of the residual stream, every head and every number inside the feed-forward
layers is there several times; what reads them reads one, or a share of each, and layers that are added hand on what
they get. Each product is as large as in a network that was trained at that size, and neither server looks for zeros.
Only the positions differ: a wider network's sinusoids have more frequencies, so that a number's other copies are not
quite the first one.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from benchmarks.shapes import write
from models import checkpoint as checkpoints
from models.checkpoint import Checkpoint
from models.networks import loading
from models.networks.transformer import TransformerConfig

SIZES = ("base", "as it is")
WIDTH, LAYERS, HEADS, INNER = 512, 6, 8, 2048  # base of Vaswani et al. 2017, which Argos' packages are


@dataclass(frozen=True, slots=True)
class Wider:
    """From a network of size `old` to one of size `new`: how many copies each number has."""

    old: TransformerConfig
    new: TransformerConfig

    @property
    def copies(self) -> int:
        return self.new.d_model // self.old.d_model

    def stream(self) -> Tensor:
        """[new width]: which old number each new one is. Pairs of sine and cosine stay together, and the first copy of
        a pair has the old frequency."""
        pairs = torch.arange(self.new.d_model // 2) // self.copies
        return (2 * pairs[:, None] + torch.arange(2)).flatten()

    def first(self) -> Tensor:
        """[new width]: 1 for the first copy of each old number, 0 for the others."""
        return ((torch.arange(self.new.d_model) // 2) % self.copies == 0).float()

    def heads(self) -> Tensor:
        """[new inner width of attention]: which old number each new one is; a head's copies lie side by side."""
        inner = torch.arange(self.old.heads * self.old.head_width).view(self.old.heads, 1, 1, self.old.head_width)
        return inner.expand(
            -1, self.new.heads // self.old.heads, self.new.head_width // self.old.head_width, -1
        ).flatten()

    def reads(self, weight: Tensor) -> Tensor:
        """[rows, old width] -> [rows, new width], of the first copies alone."""
        return weight[:, self.stream()] * self.first()


def wider_config(old: TransformerConfig) -> TransformerConfig:
    """ValueError where copies do not go in evenly."""
    new = replace(
        old,
        d_model=WIDTH,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        heads=HEADS,
        head_width=WIDTH // HEADS,
        d_ff=INNER,
    )
    pairs = [(new.d_model, old.d_model), (new.heads, old.heads), (new.head_width, old.head_width), (new.d_ff, old.d_ff)]
    deep = new.encoder_layers >= old.encoder_layers and new.decoder_layers >= old.decoder_layers
    plain = (old.norm, old.positions, old.tied, old.scale_embedding) == ("pre", "interleaved", "all", True)
    if not deep or any(a % b for a, b in pairs) or not plain or old.output_bias or old.attention_scale is not None:
        raise ValueError("Only a smaller network of the kind that `tiny` is can be made this one.")
    return new


def widened(tensors: dict[str, Tensor], old: TransformerConfig) -> tuple[dict[str, Tensor], TransformerConfig]:
    """The weights and the shape of the wide network."""
    by = Wider(old, wider_config(old))
    result: dict[str, Tensor] = {}
    for side, layers, least in (
        ("encoder", by.new.encoder_layers, old.encoder_layers),
        ("decoder", by.new.decoder_layers, old.decoder_layers),
    ):
        for number in range(layers):
            one = {name: each for name, each in tensors.items() if name.startswith(f"{side}.{number % least}.")}
            for name, tensor in one.items():
                rest = name.split(".", 2)[2]
                grown = _grown(rest, tensor, by)
                adds = rest.startswith(("attention.output", "cross_attention.output", "feed_forward.narrow"))
                result[f"{side}.{number}.{rest}"] = torch.zeros_like(grown) if adds and number >= least else grown
    # the output is read off the same table as the input: both ends and the last norm share out the copies
    root = by.copies**0.5  # the network multiplies embeddings by the root of its width
    result["source_embedding.weight"] = tensors["source_embedding.weight"][:, by.stream()] / root
    for end in ("encoder_norm", "decoder_norm"):
        for kind in ("weight", "bias"):
            share = root / by.copies if end == "decoder_norm" else 1.0
            result[f"{end}.{kind}"] = tensors[f"{end}.{kind}"][by.stream()] * share
    return result, by.new


def _grown(name: str, tensor: Tensor, by: Wider) -> Tensor:
    if ".norm." in name:
        return tensor[by.stream()]
    if "attention.projection" in name:
        return _projection(tensor, by)
    if "attention.output" in name:
        copies = by.heads().numel() // (by.old.heads * by.old.head_width)
        return tensor[by.stream()] if tensor.dim() == 1 else tensor[by.stream()][:, by.heads()] / copies
    inner = torch.arange(by.old.d_ff).repeat_interleave(by.new.d_ff // by.old.d_ff)
    if "widen" in name:
        return tensor[inner] if tensor.dim() == 1 else by.reads(tensor)[inner]
    times = by.new.d_ff // by.old.d_ff
    return tensor[by.stream()] if tensor.dim() == 1 else tensor[by.stream()][:, inner] / times


def _projection(tensor: Tensor, by: Wider) -> Tensor:
    """Queries, keys and values; the queries so that q·k over more numbers, scaled by their root, is what it was."""
    query, key, value = tensor.chunk(3)
    times = by.new.head_width // by.old.head_width
    parts = [part[by.heads()] for part in (query * times**-0.5, key, value)]
    return torch.cat(parts if tensor.dim() == 1 else [by.reads(part) for part in parts])


def write_wider(checkpoint: Checkpoint, folder: Path) -> Path:
    """`folder`, now a checkpoint of the wide network with the same vocabulary."""
    fields = {key: value for key, value in checkpoint.config.architecture.items() if key != "name"}
    tensors, config = widened(load_file(checkpoint.weights), TransformerConfig(**fields))
    architecture = loading.architecture("transformer", config)
    network = loading.build(architecture)
    loading.load_weights(network, tensors)
    draft = replace(checkpoint.config, architecture=architecture, alignment=None, files={})
    return write(folder, network, draft, checkpoint.tokenizers)


def sized(size: str, checkpoint: Path, folder: Path) -> Path:
    """The checkpoint in `folder`, as it is or at the size of base."""
    if size == "base":
        return write_wider(checkpoints.read(checkpoint), folder)
    return Path(shutil.copytree(checkpoint, folder, ignore=shutil.ignore_patterns("resume")))
