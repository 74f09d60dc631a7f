"""Tiny checkpoints with random weights, for tests that need real files, processes and HTTP but no training."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import torch

from models import checkpoint as checkpoints
from models.checkpoint import CheckpointConfig, LanguagePair
from models.networks import loading
from models.networks.recurrent import RecurrentConfig, RecurrentLanguageModel
from models.networks.transformer import Transformer, TransformerConfig
from training.config.run_config import TokenizerConfig
from training.data.tokenizer_training import (
    BOS,
    EOS,
    PAD,
    UNKNOWN,
    character_tokenizer,
    language_token,
    sentencepiece_tokenizer,
    word_tokenizer,
)

GERMAN = ["ich möchte ein bier", "der hund schläft", "wir sehen das haus", "guten morgen welt"]
ENGLISH = ["i want a beer", "the dog sleeps", "we see the house", "good morning world"]
LYRICS = "分开后的街道下着旧雨\n不分开的人走在一起\n我把灯留给夜里的你\n" * 3


METRICS = """\
{"update": 50, "epoch": 0, "rate": 0.002, "loss": 5.140670116638045}
{"update": 50, "valid_loss": 4.75, "valid_bleu": 1.25}
{"update": 100, "epoch": 0, "rate": 0.004, "loss": 2.25}
{"update": 150, "epoch": 1, "rate": 0.003, "loss": NaN}
{"update": 200, "epoch": 1, "rate": 0.002, "loss": 0.75}
{"update": 200, "valid_loss": 1.5, "valid_bleu": 38.5}
{"update": 250, "epoch": 2, "rate": 0.001, "loss": 0.0625}
"""


def write_translator(
    folder: Path,
    source: str | None,
    target: str | None,
    seed: int = 0,
    depths: tuple[int, int] = (2, 2),
    head_width: int = 8,
    *,
    backwards: bool = False,
) -> Path:
    """A word-level translator of 4 heads, of German words to English ones. depths: layers of encoder and decoder.
    backwards: of English words to German ones."""
    torch.manual_seed(seed)
    config = TokenizerConfig(kind="word", joint=False)
    texts = (ENGLISH, GERMAN) if backwards else (GERMAN, ENGLISH)
    tokenizers = {"source": word_tokenizer(config, texts[0]), "target": word_tokenizer(config, texts[1])}
    shape = TransformerConfig(
        source_vocabulary=tokenizers["source"].size,
        target_vocabulary=tokenizers["target"].size,
        d_model=32,
        heads=4,
        head_width=head_width,
        d_ff=64,
        encoder_layers=depths[0],
        decoder_layers=depths[1],
    )
    draft = CheckpointConfig(
        kind="translator",
        architecture=loading.architecture("transformer", shape),
        source_language=source,
        target_language=target,
        source_suffix=(EOS,),
        target_prefix=(BOS,),
        eos=EOS,
        suppressed=(PAD, UNKNOWN, BOS),
        max_source_tokens=32,
        max_new_tokens=32,
        scores={"validation": {"bleu": 12.3}},
    )
    return _write(folder, draft, tokenizers, Transformer(shape))


def write_multilingual(
    folder: Path, pairs: Sequence[tuple[str, str]], seed: int = 0, max_new_tokens: int = 200
) -> Path:
    """A translator of several pairs over one vocabulary of pieces, whose target tokens change what it writes."""
    targets = sorted({target for _, target in pairs})
    config = TokenizerConfig(kind="sentencepiece", vocab_size=90)
    tokenizer = sentencepiece_tokenizer([*GERMAN, *ENGLISH] * 5, config, targets=targets)
    torch.manual_seed(seed)
    size = tokenizer.size
    shape = TransformerConfig(
        source_vocabulary=size,
        target_vocabulary=size,
        d_model=32,
        heads=4,
        head_width=8,
        d_ff=64,
        encoder_layers=2,
        decoder_layers=2,
    )
    languages = {code: tokenizer.languages[language_token(code)] for code in targets}
    draft = CheckpointConfig(
        kind="translator",
        architecture=loading.architecture("transformer", shape),
        language_pairs=tuple(LanguagePair(source=s, target=t, source_prefix=(languages[t],)) for s, t in pairs),
        source_suffix=(EOS,),
        target_prefix=(BOS,),
        eos=EOS,
        suppressed=(PAD, UNKNOWN, BOS, *languages.values()),
        max_source_tokens=64,
        max_new_tokens=max_new_tokens,
    )
    return _write(folder, draft, {"source": tokenizer, "target": tokenizer}, Transformer(shape))


def write_lyricist(folder: Path, seed: int = 0, hidden: int = 32, text: str = LYRICS) -> Path:
    """A GRU over the characters of the text; a wide one takes its time over each token."""
    torch.manual_seed(seed)
    tokenizer = character_tokenizer(text, unknown=True)
    shape = RecurrentConfig(vocabulary=tokenizer.size, embedding=16, hidden=hidden)
    draft = CheckpointConfig(
        kind="lyrics",
        architecture=loading.architecture("recurrent", shape),
        suppressed=(0,),
        max_new_tokens=2000,
    )
    return _write(folder, draft, {"target": tokenizer}, RecurrentLanguageModel(shape))


def _write(folder: Path, draft: CheckpointConfig, tokenizers: dict, network: torch.nn.Module) -> Path:  # type: ignore[type-arg]
    staging = folder.parent / f".{folder.name}"
    staging.mkdir(parents=True)
    loading.save_weights(network, staging / checkpoints.WEIGHTS)
    checkpoints.write(staging, folder, draft, tokenizers)
    shutil.rmtree(staging)
    return folder


def write_all(root: Path) -> Path:
    (write_translator(root / "tiny-de-en", "de", "en") / "metrics.jsonl").write_text(METRICS)
    write_translator(root / "tiny-en-es", "en", "es", seed=1)
    write_lyricist(root / "tiny-lyrics")
    return root
