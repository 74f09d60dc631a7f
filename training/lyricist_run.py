"""A whole run of a lyricist: text -> characters -> windows -> loop -> scores -> checkpoint."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from models.checkpoint import Checkpoint
from models.networks.recurrent import RecurrentConfig, RecurrentLanguageModel
from training.checkpoint_metadata import lyricist_metadata
from training.config.run_config import LyricsConfig
from training.data.tokenizer_training import character_tokenizer, tokenizer_digest
from training.distributed.process_group import Workers
from training.errors import TrainingError, pluralize
from training.evaluation import memorisation
from training.evaluation.samples import validation_sample
from training.evaluation.scores import score_lyricist
from training.loop import snapshot
from training.loop.progress import Outcome, Quality
from training.loop.tasks import LyricsTask
from training.output_folder import publish
from training.report.card_facts import lyricist_facts
from training.training_run import NO_METADATA, RunMetadata, TrainingRun


def train_lyricist(
    config: LyricsConfig,
    text: str,
    *,
    origin: str,
    out: Path,
    device: torch.device,
    resume: bool = False,
    quiet: bool = False,
    workers: Workers | None = None,
    record: RunMetadata = NO_METADATA,
) -> dict[str, Any]:
    """Train and publish a lyricist; its scores. TrainingError for what the user can mend. workers: the processes
    that share the run; all of them call this, and the first alone publishes and has scores."""
    run = TrainingRun(out=out, device=device, resume=resume, quiet=quiet, workers=workers or Workers(), record=record)
    with run.claimed():
        return _train_and_publish(config, text, origin, run)


def _train_and_publish(config: LyricsConfig, text: str, origin: str, run: TrainingRun) -> dict[str, Any]:
    torch.manual_seed(config.loop.seed)
    train, valid = split_text(config, text)
    tokenizer = character_tokenizer(train, unknown=config.unknown)
    network = build_lyricist(config, tokenizer.size).to(run.device)
    ids = torch.tensor(tokenizer.encode(train))
    held_out = torch.tensor(tokenizer.encode(valid[: config.loop.validate_characters])) if valid else None
    task = LyricsTask(network, ids, held_out, config)
    print_of_run = snapshot.fingerprint(asdict(config), [[train, valid]])
    draft = lyricist_metadata(config, network, tokenizer)
    checkpoint = Checkpoint(run.out, draft, {"target": tokenizer})

    def judge() -> Quality:
        return Quality(None, validation_sample(checkpoint, network, train, config.loop.seed))

    title, vocabulary = f"lyrics ({network.config.cell})", tokenizer_digest(checkpoint.tokenizers)
    outcome = run.train(task, config, title, print_of_run, vocabulary, judge)
    if not run.workers.writes:
        return {}
    scores = _scores(checkpoint, network, outcome, valid)
    data = f"{origin}: {pluralize(len(train), 'character')}, {tokenizer.size:,} distinct; {len(valid):,} more held out"
    memorised = memorisation.measure_memorisation(checkpoint, network, train, valid, config.loop.seed)
    samples = judge().samples if valid else ()
    card = replace(
        lyricist_facts(config, scores, draft.parameters, outcome, run), data=data, memorised=memorised, samples=samples
    )
    publish(run.out, replace(draft, scores=scores), {"target": tokenizer}, network, card)
    return scores


def _scores(
    checkpoint: Checkpoint, network: RecurrentLanguageModel, outcome: Outcome, valid: str
) -> dict[str, dict[str, Any]]:
    scores: dict[str, dict[str, Any]] = {}
    if outcome.progress.epoch:
        loss = outcome.progress.last_epoch_loss
        scores["training text, last epoch"] = {"nats_per_character": round(loss, 4)}
    if valid and len(valid) > 1:
        scores["held-out end of the text"] = score_lyricist(checkpoint, network, valid)
    return scores


def split_text(config: LyricsConfig, text: str) -> tuple[str, str]:
    """The text to train on and the end held out. TrainingError if too little is left."""
    if config.newline_as_space:
        text = text.replace("\n", " ").replace("\r", " ")
    text = text[: config.characters]
    cut = len(text) - int(len(text) * config.valid_share)
    least = config.rows * 2 + 1
    if cut < least:
        has = pluralize(cut, "character")
        raise TrainingError(f"The text has {has} to train on; recipe {config.recipe} needs {least:,}.")
    return text[:cut], text[cut:]


def build_lyricist(config: LyricsConfig, vocabulary: int) -> RecurrentLanguageModel:
    try:
        network = RecurrentLanguageModel(RecurrentConfig(vocabulary=vocabulary, **config.network))
    except (TypeError, ValueError) as error:
        raise TrainingError(f"The network of recipe {config.recipe} cannot be built: {error}") from error
    if config.initial_deviation is not None:
        for parameter in network.parameters():
            if parameter.dim() >= 2:
                nn.init.normal_(parameter, 0, config.initial_deviation)
            else:
                nn.init.zeros_(parameter)
    return network
