"""Recipes: named, complete configurations. Their numbers come from the trials in `benchmarks/LOG.md`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic

from training.config.run_config import (
    CleaningConfig,
    Config,
    LoopConfig,
    LyricsConfig,
    NetworkOptions,
    OptimizerConfig,
    TokenizerConfig,
    TranslatorConfig,
)


@dataclass(frozen=True, slots=True)
class Recipe(Generic[Config]):
    """A named configuration. summary: its purpose, in a sentence or two."""

    summary: str
    config: Config


def pre_norm_network(
    d_model: int, *, layers: tuple[int, int], heads: int, d_ff: int, tied: str, dropout: float
) -> NetworkOptions:
    """A pre-norm Transformer. layers: (encoder, decoder)."""
    shape = {"d_model": d_model, "encoder_layers": layers[0], "decoder_layers": layers[1]}
    attention = {"heads": heads, "head_width": d_model // heads, "d_ff": d_ff, "norm": "pre", "tied": tied}
    return {**shape, **attention, "embedding_dropout": dropout, "residual_dropout": dropout}


TRANSLATORS: dict[str, Recipe[TranslatorConfig]] = {
    # A wide network sees so small a corpus too few times in an hour on a small machine: at equal cost width 128 beats
    # 256. Measured on Multi30k (`benchmarks/LOG.md`): Muon reaches 2.18 nats per held-out token in two epochs, Adam
    # 2.58; choosing by BLEU, which still rises when the held-out loss does; dropout 0.2, with which 20 epochs do not
    # overfit. R-Drop is off: from epoch 8 of 22 on it gained 0.4 BLEU at 1.8 times the time; a distilled student of
    # this recipe (`distil`) gains more in that time. An epoch of 30,000 pairs takes 1.2 to 1.8 minutes on one core, and
    # 20 epochs suffice there; 40 are for smaller corpora.
    "tiny": Recipe(
        "Up to about 100,000 pairs: width 128, 4+4 layers, pre-norm, one vocabulary and one table for both languages.",
        TranslatorConfig(
            recipe="tiny",
            tokenizer=TokenizerConfig(vocab_size=4000),
            network=pre_norm_network(128, layers=(4, 4), heads=4, d_ff=256, tied="all", dropout=0.2),
            tokens_per_batch=2500,
            optimizer=OptimizerConfig(
                name="muon", learning_rate=8e-3, schedule="cosine", warmup_updates=200, final_fraction=0.02
            ),
            loop=LoopConfig(max_epochs=40, patience=15, choose_by="bleu", ema_decay=0.995),
        ),
    ),
    "small": Recipe(
        "Hundreds of thousands of pairs: 6+3 layers of width 384. Dropout and label smoothing as the published "
        "recipes for IWSLT14 have them (160,000 pairs, 37 million parameters: 0.3 and 0.1).",
        TranslatorConfig(
            recipe="small",
            tokenizer=TokenizerConfig(vocab_size=12_000),
            network=pre_norm_network(384, layers=(6, 3), heads=6, d_ff=1536, tied="all", dropout=0.3),
            tokens_per_batch=8192,
            optimizer=OptimizerConfig(learning_rate=1e-3, schedule="inverse_sqrt", warmup_updates=2000),
            loop=LoopConfig(max_epochs=30, patience=5, ema_decay=0.999),
        ),
    ),
    "base": Recipe(
        "Millions of pairs: the shape of Vaswani et al. 2017, pre-norm so that it needs no tuning to converge.",
        TranslatorConfig(
            recipe="base",
            tokenizer=TokenizerConfig(vocab_size=16_000),
            network={"norm": "pre", "tied": "all"},
            tokens_per_batch=25_000,
            optimizer=OptimizerConfig(learning_rate=7e-4, schedule="inverse_sqrt", warmup_updates=4000),
            loop=LoopConfig(max_epochs=20, patience=5, ema_decay=0.9999),
        ),
    ),
    # The rate is for networks of a few million weights, measured on 2,000 pairs of another domain
    # (`benchmarks/LOG.md`): 2e-4 learns too little, and 2e-3 forgets no more than 5e-4 does. Large networks want less.
    "finetune": Recipe(
        "A trained model and a small corpus of its domain (--from): a short run, the best BLEU of held-out pairs.",
        TranslatorConfig(
            recipe="finetune",
            tokens_per_batch=1000,
            optimizer=OptimizerConfig(learning_rate=2e-3, schedule="cosine", warmup_updates=20, final_fraction=0.02),
            loop=LoopConfig(max_epochs=10, patience=3, choose_by="bleu", ema_decay=0.99),
        ),
    ),
    # Adam at the tutorial's constant 1e-3 gets stuck at a uniform distribution over words. In a deep post-norm stack
    # the initial gradient is largest in the top layers (Xiong et al. 2020, arXiv 2002.04745), and Adam's first steps
    # all have the size of the learning rate: full steps saturate the upper layers before the lower ones have learnt to
    # carry the source. So the rate warms up linearly over 8 updates to 1e-4, and the gradient norm is clipped at 1. At
    # twice that rate one seed in three ended at a cost of 0.02 (`benchmarks/LOG.md`).
    "classic": Recipe(
        "The tutorial's network, word for word: words as tokens with P, S and E as pad, start and end, d_model 512, "
        "d_ff 2048, 6+6 layers, 8 heads of 64, post-norm, dropout 0.1 on the embeddings alone, an unmasked source of "
        "words and one P.",
        TranslatorConfig(
            recipe="classic",
            tokenizer=TokenizerConfig(
                kind="word", joint=False, pad_piece="P", bos_piece="S", eos_piece="E", source_end="pad"
            ),
            network={"embedding_dropout": 0.1, "residual_dropout": 0.0},
            label_smoothing=0.0,
            optimizer=OptimizerConfig(learning_rate=1e-4, schedule="constant", warmup_updates=8, clip_norm=1.0),
            loop=LoopConfig(max_epochs=20),
            cleaning=CleaningConfig(least_pairs=1),  # the tutorial's whole corpus is one sentence
        ),
    ),
}

MEDIUM_TEXT = 300_000  # characters
_ADAMW = OptimizerConfig(name="adamw", schedule="cosine", betas=(0.9, 0.99), epsilon=1e-8)
# hidden 256, 35 steps, batch 32, the first 10,000 characters with newlines as spaces, nothing held out
_TUTORIAL = LyricsConfig(
    recipe="d2l-adam",
    network={"embedding": 0, "hidden": 256},
    bptt=35,
    batch_size=32,
    max_characters=10_000,
    newline_as_space=True,
    valid_fraction=0.0,
    unknown=False,
    offset=False,
    optimizer=OptimizerConfig(learning_rate=1e-3, betas=(0.9, 0.999), epsilon=1e-8, clip_norm=0.01),
    loop=LoopConfig(max_epochs=250),
)
_CONSECUTIVE = replace(
    _TUTORIAL,
    recipe="d2l-consecutive",
    network={**_TUTORIAL.network, "recurrent_bias": False},
    init_std=0.01,
    optimizer=OptimizerConfig(name="sgd", learning_rate=100.0, clip_norm=0.01),
)


def lyricist_for(characters: int) -> str:
    return "medium" if characters >= MEDIUM_TEXT else "small"


LYRICISTS: dict[str, Recipe[LyricsConfig]] = {
    "small": Recipe(
        "A text of 10,000 to a few 100,000 characters; the last tenth is held out and chooses the weights.",
        LyricsConfig(
            recipe="small",
            network={"embedding": 128, "hidden": 256, "layers": 1, "dropout": 0.4},
            bptt=64,
            batch_size=16,
            optimizer=replace(_ADAMW, learning_rate=4e-3, warmup_updates=50, weight_decay=0.05),
            loop=LoopConfig(max_epochs=40, patience=8),
        ),
    ),
    "medium": Recipe(
        "About a million characters, or what comes near it: 2.6 million parameters with a Latin alphabet.",
        LyricsConfig(
            recipe="medium",
            network={
                "embedding": 128,
                "hidden": 512,
                "layers": 2,
                "embedding_dropout": 0.1,
                "dropout": 0.4,
                "recurrent_dropout": 0.2,
                "locked_dropout": True,
            },
            bptt=128,
            batch_size=16,
            optimizer=replace(_ADAMW, learning_rate=2e-3, warmup_updates=100, final_fraction=0.03, weight_decay=0.1),
            loop=LoopConfig(max_epochs=12, ema_decay=0.99),
        ),
    ),
    "finetune": Recipe(
        "A trained lyricist and a text of 10,000 characters or more to learn the manner of (--from).",
        LyricsConfig(
            recipe="finetune",
            bptt=64,
            batch_size=16,
            optimizer=replace(_ADAMW, learning_rate=1e-3, warmup_updates=10, weight_decay=0.05),
            loop=LoopConfig(max_epochs=20, patience=4),
        ),
    ),
    "d2l-random": Recipe(
        "From scratch, random sampling: one-hot input, one bias vector, N(0, 0.01) weights, SGD at 100.",
        replace(_CONSECUTIVE, recipe="d2l-random", sampling="random"),
    ),
    "d2l-consecutive": Recipe(
        "From scratch, consecutive sampling, the hidden state carried over and detached.", _CONSECUTIVE
    ),
    "d2l-adam": Recipe(
        "The framework's own cell with its default initialisation, consecutive sampling, Adam at 1e-3.", _TUTORIAL
    ),
}
