"""The demo models: two translators of the phrasebook and a lyricist of our own songs, in a few minutes."""

from __future__ import annotations

from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import torch

from models import checkpoint as checkpoints
from training.config import LoopConfig, LyricsConfig, OptimizerConfig, TokenizerConfig, TranslatorConfig
from training.corpus import Pairs
from training.demo import phrasebook
from training.recipes import lyrics_small
from training.run import train_lyricist, train_translator

TRANSLATORS = (("de", "en"), ("en", "es"))
LYRICIST = "lyrics-zh"


def demo_translator(source: str, target: str) -> TranslatorConfig:
    """Small enough for a minute and a half on two cores. The source is read without regard to case, and both
    languages have their own pieces."""
    return TranslatorConfig(
        recipe="demo",
        source_language=source,
        target_language=target,
        tokenizer=TokenizerConfig(size=800, joint=False, casefold_source=True),
        network={
            "d_model": 128,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "heads": 4,
            "head_width": 32,
            "d_ff": 256,
            "norm": "pre",
            "tied": "output",
            "embedding_dropout": 0.05,
            "residual_dropout": 0.05,
        },
        label_smoothing=0.0,
        tokens_per_batch=1500,
        max_tokens=128,
        optimizer=OptimizerConfig(rate=4e-3, schedule="cosine", warmup_updates=100, final_fraction=0.02),
        loop=LoopConfig(max_epochs=6, average_decay=0.99),
    )


def demo_lyricist() -> LyricsConfig:
    return replace(lyrics_small(), recipe="demo", network={**lyrics_small().network, "cell": "gru"})


def lyrics() -> str:
    return resources.files("training.demo").joinpath("lyrics_zh.txt").read_text(encoding="utf-8")


def phrase_pairs(source: str, target: str, *, held_out: bool) -> Pairs:
    pairs = phrasebook.pairs(source, target, held_out=held_out)
    part = "the held-out tenth" if held_out else "nine tenths"
    return Pairs([s for s, _ in pairs], [t for _, t in pairs], 0, f"{part} of the phrasebook")


def train_demo(out: Path, device: torch.device) -> dict[str, Any]:
    """Train what is not there yet under `out`; the scores of each model on what it has not seen."""
    scores: dict[str, Any] = {}
    for source, target in TRANSLATORS:
        name = f"demo-{source}-{target}"
        if not checkpoints.is_checkpoint(out / name):
            train = phrase_pairs(source, target, held_out=False)
            test = phrase_pairs(source, target, held_out=True)
            config = demo_translator(source, target)
            scores[name] = train_translator(config, train, None, test=test, out=out / name, device=device)
    if not checkpoints.is_checkpoint(out / LYRICIST):
        config_zh = demo_lyricist()
        scores[LYRICIST] = train_lyricist(
            config_zh, lyrics(), origin="our own lyrics", out=out / LYRICIST, device=device
        )
    return scores
