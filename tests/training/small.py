"""Networks and corpora small enough for a test."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import torch

from training.config.run_config import LoopConfig, LyricsConfig, OptimizerConfig, TokenizerConfig, TranslatorConfig
from training.data.sentence_pairs import Pairs

CPU = torch.device("cpu")


def translator(**changes: Any) -> TranslatorConfig:
    """One layer of width 16 on words, with dropout and averaging."""
    config = TranslatorConfig(
        recipe="small",
        source_language="aa",
        target_language="bb",
        tokenizer=TokenizerConfig(kind="word", joint=False),
        network={
            "d_model": 16,
            "encoder_layers": 1,
            "decoder_layers": 1,
            "heads": 2,
            "head_width": 8,
            "d_ff": 32,
            "norm": "pre",
            "tied": "output",
            "embedding_dropout": 0.1,
            "residual_dropout": 0.1,
        },
        tokens_per_batch=40,
        optimizer=OptimizerConfig(learning_rate=1e-2, schedule="inverse_sqrt", warmup_updates=3),
        loop=LoopConfig(max_epochs=4, ema_decay=0.9),
    )
    return replace(config, **changes)


def lyricist(**changes: Any) -> LyricsConfig:
    config = LyricsConfig(
        recipe="small",
        network={"embedding": 8, "hidden": 8, "dropout": 0.1},
        bptt=5,
        batch_size=4,
        optimizer=OptimizerConfig(learning_rate=1e-2),
        loop=LoopConfig(max_epochs=4),
    )
    return replace(config, **changes)


def pairs(count: int, seed: int = 0) -> Pairs:
    """Made-up sentences of three to six words; the target says them backwards, in capitals."""
    generator = random.Random(seed)
    sources = [" ".join(generator.choices("abcdefgh", k=generator.randint(3, 6))) for _ in range(count)]
    return Pairs(sources, [source[::-1].upper() for source in sources], "made up")


def text(length: int, seed: int = 0) -> str:
    return "".join(random.Random(seed).choices("abcdef\n", k=length))
