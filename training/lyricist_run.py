"""A lyricist's run: text -> characters -> windows -> training -> scores -> checkpoint."""

from __future__ import annotations

from dataclasses import asdict, replace

import torch
from torch import nn

from models.checkpoint import Checkpoint, CheckpointConfig
from models.networks import loading
from models.networks.recurrent import RecurrentConfig, RecurrentLanguageModel
from training.config.run_config import LyricsConfig
from training.data.tokenizer_training import character_tokenizer
from training.errors import TrainingError, pluralize
from training.evaluation.bleu_validator import validation_sample
from training.evaluation.memorisation import measure_memorisation
from training.evaluation.scores import Scores, score_lyricist
from training.loop.progress import Sample
from training.loop.tasks import LyricsTask
from training.output_folder import publish
from training.report.card_writer import lyricist_card
from training.training_run import TrainingRun


def train_lyricist(config: LyricsConfig, text: str, run: TrainingRun, *, origin: str) -> Scores:
    """Trains and publishes a lyricist; returns its scores. All processes of `run` call this; ranks other than 0 return
    {}. origin: of the text, for the model card. TrainingError for problems that the user can fix."""
    with run.claimed():
        torch.manual_seed(config.loop.seed)
        train, valid = split_text(config, text)
        tokenizer = character_tokenizer(train, unknown=config.unknown)
        network = build_lyricist(config, tokenizer.size).to(run.device)
        metadata = CheckpointConfig(
            kind="lyrics",
            architecture=loading.architecture("recurrent", network.config),
            suppressed=tuple(sorted(tokenizer.special.ids())),
            parameters=sum(p.numel() for p in network.parameters()),
            training=asdict(config),
        )
        checkpoint = Checkpoint(run.out, metadata, {"target": tokenizer})
        train_ids = torch.tensor(tokenizer.encode(train))
        valid_ids = torch.tensor(tokenizer.encode(valid[: config.loop.validate_characters])) if valid else None

        def samples() -> tuple[Sample, ...]:
            return validation_sample(checkpoint, network, train, config.loop.seed)

        outcome = run.train(
            LyricsTask(network, train_ids, valid_ids, config),
            config,
            title=f"lyrics ({network.config.cell})",
            texts=[[train, valid]],
            tokenizers=checkpoint.tokenizers,
            validator=lambda: (None, samples()),
        )
        if not run.workers.writes:
            return {}
        scores: Scores = {}
        if outcome.progress.epoch:
            loss = outcome.progress.last_epoch_loss
            scores["training text, last epoch"] = {"nats_per_character": round(loss, 4)}
        if len(valid) > 1:
            scores["held-out end of the text"] = score_lyricist(checkpoint, network, valid)
        characters = pluralize(len(train), "character")
        data = f"{origin}: {characters}, {tokenizer.size:,} distinct; {len(valid):,} more held out"
        memorised = measure_memorisation(checkpoint, network, train, valid, config.loop.seed)
        metadata = replace(metadata, scores=scores)
        card = lyricist_card(config, metadata, data, outcome, run, memorised, samples() if valid else ())
        publish(run.out, metadata, {"target": tokenizer}, network, card)
        return scores


def split_text(config: LyricsConfig, text: str) -> tuple[str, str]:
    """(training text, held-out end). TrainingError if too little text is left."""
    if config.newline_as_space:
        text = text.replace("\n", " ").replace("\r", " ")
    text = text[: config.max_characters]
    cut = len(text) - int(len(text) * config.valid_fraction)
    least = config.batch_size * 2 + 1
    if cut < least:
        has = pluralize(cut, "character")
        raise TrainingError(f"The text has {has} to train on; recipe {config.recipe} needs {least:,}.")
    return text[:cut], text[cut:]


def build_lyricist(config: LyricsConfig, vocabulary: int) -> RecurrentLanguageModel:
    try:
        network = RecurrentLanguageModel(RecurrentConfig(vocabulary=vocabulary, **config.network))
    except (TypeError, ValueError) as error:
        raise TrainingError(f"The network of recipe {config.recipe} cannot be built: {error}") from error
    if config.init_std is not None:
        for parameter in network.parameters():
            if parameter.dim() >= 2:
                nn.init.normal_(parameter, 0, config.init_std)
            else:
                nn.init.zeros_(parameter)
    return network
