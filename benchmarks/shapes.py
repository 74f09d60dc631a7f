"""The shapes that are raced, with random weights: Marian-like, so that every peer can hold the same network.

Post-norm, ReLU, one table for source, target and output, a bias on the output, Marian's positions. The special tokens,
the end token among them, have an output bias that no logit outweighs: every sequence runs to its limit in every
system without an option for it, and no system pays for a rule.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from models import checkpoint as checkpoints
from models.checkpoint import CheckpointConfig
from models.networks import loading
from models.networks.transformer import FeedForward, Transformer, TransformerConfig
from models.tokenizer import SpecialTokens, Tokenizer, VocabularyTokenizer
from training.data.tokenizer_training import BOS, EOS, PAD, UNKNOWN

NEVER = -1e4  # within float16
SPECIAL = (PAD, UNKNOWN, BOS, EOS)
LONGEST = 128  # tokens of a source and of a target: what small models are served with


@dataclass(frozen=True, slots=True)
class Shape:
    name: str
    layers: int
    width: int
    heads: int
    inner: int
    vocabulary: int

    def config(self) -> TransformerConfig:
        return TransformerConfig(
            source_vocabulary=self.vocabulary,
            target_vocabulary=self.vocabulary,
            d_model=self.width,
            encoder_layers=self.layers,
            decoder_layers=self.layers,
            heads=self.heads,
            head_width=self.width // self.heads,
            d_ff=self.inner,
            positions="marian",
            tied="all",
            output_bias=True,
        )


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("base", 6, 512, 8, 2048, 16_000),
        Shape("opus", 6, 512, 8, 2048, 58_101),  # base with the vocabulary of opus-mt
        Shape("tiny", 4, 128, 4, 256, 8_000),
        Shape("smoke", 2, 32, 4, 64, 100),  # seconds on any machine: for tests
    )
}


def random_network(shape: Shape, seed: int = 0) -> Transformer:
    """Random, but no network that writes one token again and again, whatever it reads: then every conversion would
    agree. Strong feed-forward layers, free of the constant that ReLU adds, keep the output from following its input;
    biases and norms away from 0 and 1 show where one was forgotten."""
    torch.manual_seed(seed)
    network = Transformer(shape.config()).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.1)
        for module in network.modules():
            if isinstance(module, FeedForward):
                module.widen.weight.mul_(2)
                module.narrow.weight.mul_(2)
                module.narrow.weight.sub_(module.narrow.weight.mean(dim=1, keepdim=True))
        network.source_embedding.weight.mul_(2)
        assert network.output_bias is not None
        network.output_bias[list(SPECIAL)] = NEVER
    return network


def write_checkpoint(folder: Path, shape: Shape, seed: int = 0) -> Path:
    """`folder`, now a checkpoint that Parlance serves like any other."""
    specials = SpecialTokens(PAD, UNKNOWN, BOS, EOS)
    words = [f"w{number}" for number in range(shape.vocabulary)]
    tokenizers = {side: VocabularyTokenizer("word", words, specials) for side in ("source", "target")}
    draft = CheckpointConfig(
        kind="translator",
        architecture=loading.architecture("transformer", shape.config()),
        source_language="de",
        target_language="en",
        target_prefix=(BOS,),
        eos=EOS,
        max_source_tokens=LONGEST,
        max_new_tokens=LONGEST,
    )
    return write(folder, random_network(shape, seed), draft, tokenizers)


def write(folder: Path, network: nn.Module, draft: CheckpointConfig, tokenizers: Mapping[str, Tokenizer]) -> Path:
    """`folder`, now a checkpoint of this network."""
    staging = folder.with_name(f".{folder.name}")
    staging.mkdir(parents=True)
    loading.save_weights(network, staging / checkpoints.WEIGHTS)
    checkpoints.write(staging, folder, draft, dict(tokenizers))
    shutil.rmtree(staging)
    return folder


def random_sources(shape: Shape, count: int, length: int, seed: int = 1) -> list[list[int]]:
    rng = random.Random(seed)
    return [[rng.randrange(len(SPECIAL), shape.vocabulary) for _ in range(length)] for _ in range(count)]
