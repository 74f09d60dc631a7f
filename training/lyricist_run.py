"""A lyricist's run: text -> characters -> windows -> training -> scores -> checkpoint."""

from __future__ import annotations

from dataclasses import asdict, replace

import torch
from torch import nn

from models.checkpoint import Checkpoint, CheckpointConfig, DemoCard
from models.networks import loading
from models.networks.recurrent import RecurrentConfig, RecurrentLanguageModel
from models.tokenizer import Tokenizer
from training.config.run_config import LyricsConfig
from training.data.tokenizer_training import character_tokenizer
from training.errors import TrainingError, pluralize
from training.evaluation.bleu_validator import validation_sample
from training.evaluation.closing_time import lyricist_closing
from training.evaluation.memorisation import measure_memorisation
from training.evaluation.scores import Scores, score_lyricist
from training.loop.progress import Quality, Sample
from training.loop.tasks import LyricsTask
from training.output_folder import publish
from training.report.card_writer import lyricist_card
from training.starting_point import StartingPoint, average_with_start, freeze
from training.training_run import TrainingRun


def train_lyricist(
    config: LyricsConfig,
    text: str,
    run: TrainingRun,
    *,
    origin: str,
    start: StartingPoint | None = None,
    demo: DemoCard | None = None,
) -> Scores:
    """Trains and publishes a lyricist; returns its scores. All processes of `run` call this; ranks other than 0 return
    {}. origin: of the text, for the model card. start: the model to train further; its network and characters must be
    those of `config` (`starting_point.adapted`). demo: of a demo model. TrainingError for problems that the user can
    fix."""
    with run.claimed():
        torch.manual_seed(config.loop.seed)
        train, valid = split_text(config, text)
        if start is None:
            tokenizer: Tokenizer = character_tokenizer(train, unknown=config.unknown)
            network = build_lyricist(config, tokenizer.size).to(run.device)
            metadata = lyricist_metadata(config, network, tokenizer)
        else:
            tokenizer = start.tokenizers["target"]
            run.workers.note(unknown_characters(train, tokenizer, start.given))
            network = start.network(config.network).to(run.device)
            metadata = start.tuned_metadata(asdict(config), network)
        freeze(network, config.tuning.frozen)
        checkpoint = Checkpoint(run.out, metadata, {"target": tokenizer})
        train_ids = torch.tensor(tokenizer.encode(train))
        valid_ids = torch.tensor(tokenizer.encode(valid[: config.loop.validate_characters])) if valid else None

        if start is not None and run.workers.writes and not run.resume:
            start.keep(run.out)

        def samples() -> tuple[Sample, ...]:
            return validation_sample(checkpoint, network, train, config.loop.seed)

        task = LyricsTask(network, train_ids, valid_ids, config)
        closing = None
        if valid_ids is not None and len(valid_ids) > 1:
            models = 1 if start is None else 2
            closing = lyricist_closing(checkpoint, network, train, valid_ids, config.loop.seed, models=models)
        outcome = run.train(
            task,
            config,
            title=f"lyrics ({network.config.cell})",
            texts=[[train, valid]],
            tokenizers=checkpoint.tokenizers,
            validator=lambda: Quality(None, samples()),
            validates_start=start is not None,
            closing=closing,
        )
        if not run.workers.writes:
            return {}
        if start is not None:
            average_with_start(start, config.tuning.average_with_start, task, outcome)
        scores: Scores = {}
        if outcome.progress.epoch:
            loss = outcome.progress.last_epoch_loss
            scores["training text, last epoch"] = {"nats_per_character": round(loss, 4)}
        if len(valid) > 1:
            scores["held-out end of the text"] = score_lyricist(checkpoint, network, valid)
            if start is not None:
                before = score_lyricist(checkpoint, start.network(config.network).to(run.device), valid)
                metadata = start.with_scores_before(metadata, {"held-out end of the text": before})
        characters = pluralize(len(train), "character")
        data = f"{origin}: {characters}, {tokenizer.size:,} distinct; {len(valid):,} more held out"
        memorised = measure_memorisation(checkpoint, network, train, valid, config.loop.seed)
        metadata = replace(metadata, scores=scores)
        card = lyricist_card(config, metadata, data, outcome, run, memorised, samples() if valid else (), demo)
        publish(run.out, metadata, {"target": tokenizer}, network, card, demo)
        run.report_end(outcome, scores)
        return scores


def lyricist_metadata(config: LyricsConfig, network: RecurrentLanguageModel, tokenizer: Tokenizer) -> CheckpointConfig:
    """Metadata of a new lyricist without scores, which follow at the end of a run."""
    return CheckpointConfig(
        kind="lyrics",
        architecture=loading.architecture("recurrent", network.config),
        suppressed=tuple(sorted(tokenizer.special.ids())),
        parameters=sum(p.numel() for p in network.parameters()),
        training=asdict(config),
    )


def unknown_characters(text: str, tokenizer: Tokenizer, given: str) -> str:
    """A note on the characters of a text that the model does not know, or "". TrainingError if it has no token for
    them."""
    unknown = set(tokenizer.unknown(text))
    if not unknown:
        return ""
    count, some = sum(map(text.count, unknown)), "".join(sorted(unknown)[:20])
    named = f"{pluralize(len(unknown), 'character')} that {given} does not know ({some!r})"
    if tokenizer.special.unknown is None:
        raise TrainingError(f"The text has {named}, and it has no token for them: remove these, or leave --from out.")
    share = f"at {pluralize(count, 'place')} ({count / len(text):.1%} of it)"
    return f"The text has {named}, {share}: all of them are read as one unknown character."


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
