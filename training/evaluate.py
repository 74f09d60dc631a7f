"""Scores through `models.decoding`, so that what is measured is what is served."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sacrebleu
import torch

from models import checkpoint as checkpoints
from models.checkpoint import Checkpoint, new_token_limit
from models.decoding import DecodingOptions, TokenRules, decode
from models.interface import Network, Prompt
from models.networks import load_network
from training.corpora.pairs import Pairs
from training.corpora.reading import read_pairs
from training.corpora.texts import read_text
from training.corpora.tsv import Columns
from training.errors import TrainingError
from training.lyrics import negative_log_likelihood


def translate(
    checkpoint: Checkpoint, network: Network, sources: Sequence[str], *, beam: int = 1, slots: int = 64
) -> list[str]:
    """The best translation of each source."""
    config = checkpoint.config
    prompts = [Prompt(checkpoint.source_ids(text), tuple(config.target_prefix)) for text in sources]
    options = [DecodingOptions(max_new_tokens=new_token_limit(len(p.source), 1 << 16), beam=beam) for p in prompts]
    rules = TokenRules(config.eos, tuple(config.suppressed), config.renormalise, config.forced_end)
    results = decode(network, rules, prompts, options, slots=slots)
    return [checkpoint.decode(hypotheses[0].tokens) if hypotheses else "" for hypotheses in results]


def score_translator(checkpoint: Checkpoint, network: Network, pairs: Pairs, *, beam: int = 1) -> dict[str, Any]:
    """sacreBLEU's BLEU and chrF of detokenised, cased output, with BLEU's signature."""
    started = time.monotonic()
    outputs = translate(checkpoint, network, pairs.sources, beam=beam)
    seconds = time.monotonic() - started
    bleu, chrf = sacrebleu.BLEU(), sacrebleu.CHRF()
    exact = sum(a == b for a, b in zip(outputs, pairs.targets, strict=True))
    return {
        "bleu": round(bleu.corpus_score(outputs, [pairs.targets]).score, 2),
        "chrf": round(chrf.corpus_score(outputs, [pairs.targets]).score, 2),
        "signature": str(bleu.get_signature()),
        "exact_match": round(exact / len(pairs), 4),
        "beam": beam,
        "sentences": len(pairs),
        "seconds": round(seconds, 2),
    }


def score_lyricist(checkpoint: Checkpoint, network: Any, text: str) -> dict[str, Any]:
    """How well the model predicts a text, character by character."""
    tokenizer = checkpoint.tokenizers["target"]
    unknown = set(tokenizer.unknown(text))
    if unknown and tokenizer.special.unknown is None:
        raise TrainingError(f"The model has no character {sorted(unknown)[0]!r}, and no token for unknown ones.")
    if len(text) < 2:
        raise TrainingError("A text of fewer than two characters cannot be scored: the first is given, not predicted.")
    nats, characters = negative_log_likelihood(network, torch.tensor(tokenizer.encode(text)))
    mean = nats / characters
    return {
        "nats_per_character": round(mean, 4),
        "bits_per_character": round(mean / math.log(2), 4),
        "perplexity": round(math.exp(min(mean, 700.0)), 4),
        "characters": characters,
        "unknown_characters": sum(text.count(character) for character in unknown),
    }


def evaluate(
    folder: Path,
    *,
    test: str | None,
    corpus: Path | None,
    beam: int,
    device: torch.device,
    columns: Columns | None = None,
) -> dict[str, Any]:
    """The `evaluate` command: score a checkpoint on pairs (translators) or on a text (lyricists)."""
    try:
        checkpoint = checkpoints.read(folder)
        network = load_network(checkpoint, device)
    except checkpoints.CheckpointError as error:
        raise TrainingError(str(error)) from error
    if checkpoint.config.kind == "translator":
        if test is None:
            raise TrainingError(f"{folder} is a translator: give --test SOURCE,TARGET.")
        config = checkpoint.config
        languages = (config.source_language or "source", config.target_language or "target")
        return score_translator(checkpoint, network, read_pairs(test, languages, columns), beam=beam)
    if corpus is None:
        raise TrainingError(f"{folder} is a lyricist: give --corpus FILE.")
    text = read_text(corpus)
    if checkpoint.config.training.get("newline_as_space"):
        text = text.replace("\n", " ").replace("\r", " ")
    return score_lyricist(checkpoint, network, text)
