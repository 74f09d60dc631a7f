"""What a published checkpoint says of itself: its config, and test scores kept from an earlier session of the same
weights."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from models import checkpoint as checkpoints
from models.checkpoint import CheckpointConfig
from models.networks import loading
from models.networks.recurrent import RecurrentLanguageModel
from models.networks.transformer import Transformer
from models.tokenizer import Tokenizer, VocabularyTokenizer
from training.config.run_config import LyricsConfig, TranslatorConfig
from training.data.tokenizer_training import BOS, EOS, PAD, UNKNOWN
from training.evaluation.scores import Scores
from training.output_folder import STAGING_FOLDER
from training.training_run import TrainingRun


def translator_metadata(
    config: TranslatorConfig, network: Transformer, tokenizers: Mapping[str, Tokenizer]
) -> CheckpointConfig:
    """Without its scores, which end a run."""
    return CheckpointConfig(
        kind="translator",
        architecture=loading.architecture("transformer", network.config),
        source_language=config.source_language,
        target_language=config.target_language,
        source_suffix=(EOS if config.tokenizer.source_end == "eos" else PAD,),
        target_prefix=(BOS,),
        eos=EOS,
        suppressed=(PAD, UNKNOWN, BOS),
        max_source_tokens=config.max_tokens,
        max_new_tokens=config.max_tokens,
        parameters=sum(p.numel() for p in network.parameters()),
        tokenizers={side: tokenizer.kind for side, tokenizer in tokenizers.items()},
        training=asdict(config),
    )


def lyricist_metadata(
    config: LyricsConfig, network: RecurrentLanguageModel, tokenizer: VocabularyTokenizer
) -> CheckpointConfig:
    return CheckpointConfig(
        kind="lyrics",
        architecture=loading.architecture("recurrent", network.config),
        suppressed=tuple(sorted(tokenizer.special.ids())),
        parameters=sum(p.numel() for p in network.parameters()),
        tokenizers={"target": tokenizer.kind},
        training=asdict(config),
    )


def with_earlier_scores(scores: Scores, network: nn.Module, run: TrainingRun) -> Scores:
    """`scores`, and the published scores of `run.out` on other texts where the weights are still the same; where they
    are not, a note names the scores that are gone."""
    config = _published_config(run.out)
    others = [name for name in config.scores if name not in scores] if config else []
    if config is None or not others:
        return scores
    for path in (run.out / checkpoints.WEIGHTS, run.out / STAGING_FOLDER / checkpoints.WEIGHTS):
        with contextlib.suppress(OSError, SafetensorError):
            if checkpoints.sha256(path) == config.files[checkpoints.WEIGHTS]:
                saved, own = load_file(path), loading.unique_tensors(network)
                if saved.keys() == own.keys() and all(torch.equal(saved[name], own[name]) for name in own):
                    return {**config.scores, **scores}
                break
    run.workers.note(f"The scores of {', '.join(others)} were other weights': give --test again to have them.")
    return scores


def _published_config(out: Path) -> CheckpointConfig | None:
    """Of `out`, or where a kill came between the files of a model the staged one, which is published last."""
    for folder in (out, out / STAGING_FOLDER):
        with contextlib.suppress(checkpoints.CheckpointError):
            return checkpoints.read_config(folder)
    return None
