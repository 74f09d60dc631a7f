"""A network that learns in seconds what everybody can align: sentences of distinct words, turned round."""

from __future__ import annotations

import random

import torch
from torch.nn import functional as F

from models.backends.torch.transformer_step import pad_rows
from models.inspection.forced_pass import forced_pass
from models.inspection.word_alignment import AlignmentExample, GoldLinks
from models.networks.transformer import Transformer, TransformerConfig

PAD, BOS, EOS, WORDS = 0, 1, 2, range(3, 15)


def sentence(rng: random.Random) -> list[int]:
    return rng.sample(WORDS, rng.randint(3, 7))


def trained(steps: int, seed: int) -> Transformer:
    """Two and two layers of four heads, after so many batches of 32 sentences."""
    torch.manual_seed(seed)
    config = TransformerConfig(
        source_vocabulary=15,
        target_vocabulary=15,
        d_model=64,
        encoder_layers=2,
        decoder_layers=2,
        heads=4,
        head_width=16,
        d_ff=128,
        embedding_dropout=0.0,
        residual_dropout=0.0,
    )
    network, rng = Transformer(config), random.Random(seed)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, betas=(0.9, 0.98))
    for _ in range(steps):
        sentences = [sentence(rng) for _ in range(32)]
        source, inputs, outputs = (
            pad_rows(rows, PAD, network.device)
            for rows in (
                [[*words, EOS] for words in sentences],
                [[BOS, *words[::-1]] for words in sentences],
                [[*words[::-1], EOS] for words in sentences],
            )
        )
        loss = F.cross_entropy(network(source, inputs).flatten(0, 1), outputs.flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return network.eval()


def examples(network: Transformer, count: int, seed: int) -> list[AlignmentExample]:
    """Other sentences, with the links that they must have."""
    rng, results = random.Random(f"held out {seed}"), list[AlignmentExample]()
    for _ in range(count):
        words = sentence(rng)
        maps = forced_pass(network, [*words, EOS], [BOS, *words[::-1]], ["cross"]).maps["cross"]
        links = frozenset((len(words) - 1 - j, j) for j in range(len(words)))
        units = [*range(len(words)), None]
        results.append(AlignmentExample(maps, units, units, GoldLinks(links, links)))
    return results
