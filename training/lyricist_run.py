"""A lyricist's run: text -> characters -> windows -> training -> scores -> checkpoint."""

from __future__ import annotations

import itertools
import time
from dataclasses import asdict, replace

import torch
from torch import Tensor, nn

from models.checkpoint import Checkpoint, CheckpointConfig
from models.networks import loading
from models.networks.recurrent import RecurrentConfig, RecurrentLanguageModel
from models.tokenizer import Tokenizer
from models.tokenizer.vocabulary_tokenizer import only_letters
from training.config.run_config import LyricsConfig
from training.data.tokenizer_training import character_tokenizer
from training.errors import TrainingError, pluralize
from training.evaluation.bleu_validator import validation_sample
from training.evaluation.memorisation import CHARACTERS, SAMPLES, measure_memorisation
from training.evaluation.model_outputs import sample_lyrics
from training.evaluation.scores import Scores, negative_log_likelihood, perplexity, score_lyricist
from training.loop.tasks import LyricsTask
from training.output_folder import publish
from training.progress import Closing, Sample, Validation
from training.report.card_writer import lyricist_card, tuning_verdict
from training.starting_point import StartingPoint, freeze
from training.training_run import PUBLISHING_S, TrainingRun

PROBED_CHARACTERS, PROBED_STEPS = 2000, 25  # for `lyricist_closing`
OVERLAP_S = 3e-6  # CPU seconds per character of the training text (`benchmarks/LOG.md`)


def train_lyricist(
    config: LyricsConfig,
    text: str,
    run: TrainingRun,
    *,
    origin: str,
    start: StartingPoint | None = None,
) -> Scores:
    """Trains and publishes a lyricist; returns its scores. All processes of `run` call this; ranks other than 0 return
    {}. origin: of the text, for the model card. start: the model to train further; its network and characters must be
    those of `config` (`starting_point.adapted`). TrainingError for problems that the user can fix."""
    with run.claimed():
        torch.manual_seed(config.loop.seed)
        train, valid = split_text(config, text)
        if start is None:
            tokenizer: Tokenizer = character_tokenizer(train, unknown=config.unknown, letters_only=config.letters_only)
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

        unknown = tokenizer.special.unknown
        task = LyricsTask(network, train_ids, valid_ids, config, unknown if unknown in metadata.suppressed else None)
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
            validator=lambda loss: Validation(loss, None, samples()),
            validates_start=start is not None,
            closing=closing,
        )
        if not run.workers.writes:
            return {}
        scores: Scores = {}
        if outcome.progress.epoch and outcome.validation is None:  # else other weights than these are kept
            loss = outcome.progress.last_epoch_loss
            scores["training text, last epoch"] = {"nats_per_character": round(loss, 4), "perplexity": perplexity(loss)}
        if len(valid) > 1:
            scores["held-out end of the text"] = score_lyricist(checkpoint, network, valid)
            if start is not None:
                before = score_lyricist(checkpoint, start.network(config.network).to(run.device), valid)
                metadata = start.with_scores_before(metadata, {"held-out end of the text": before})
        characters = pluralize(len(train), "character")
        data = f"{origin}: {characters}, {tokenizer.size:,} distinct; {len(valid):,} more held out"
        memorised = measure_memorisation(checkpoint, network, train, valid, config.loop.seed)
        metadata = replace(metadata, scores=scores)
        for sentence in tuning_verdict(metadata):
            run.workers.note(sentence)
        made = (outcome, run.machine, run.licence)
        card = lyricist_card(config, metadata, data, *made, memorised, samples() if valid else ())
        publish(run.out, metadata, {"target": tokenizer}, network, card)
        run.report_end(outcome, scores)
        return scores


def lyricist_metadata(config: LyricsConfig, network: RecurrentLanguageModel, tokenizer: Tokenizer) -> CheckpointConfig:
    """Metadata of a new lyricist without scores, which follow at the end of a run."""
    return CheckpointConfig(
        kind="lyrics",
        architecture=loading.architecture("recurrent", network.config),
        suppressed=tuple(sorted(tokenizer.special.ids)),
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
    way = "all of them are read as one unknown character, which it neither learns nor writes"
    return f"The text has {named}, {share}: {way}."


def split_text(config: LyricsConfig, text: str) -> tuple[str, str]:
    """(training text, held-out end). TrainingError if too little text is left."""
    if config.letters_only:
        text = only_letters(text)
    if config.newline_as_space:
        text = text.replace("\n", " ").replace("\r", " ")
    text = text[: config.max_characters]
    cut = len(text) - int(len(text) * config.valid_fraction)
    steps, windows = config.bptt, config.batch_size
    stride = 1 if config.sampling == "overlapping" else steps
    least = windows * (steps + 1) if config.sampling == "consecutive" else (windows - 1) * stride + steps + 1
    if cut < least:
        whole = next(n for n in itertools.count(least) if n - int(n * config.valid_fraction) >= least)
        held_out = f", of which {whole - least:,} are held out" if whole > least else ""
        raise TrainingError(
            f"The text has {pluralize(len(text), 'character')}, and a batch of {windows:,} windows of"
            f" {pluralize(steps, 'character')} needs {whole:,}{held_out}: give a longer text, or a lower --batch-size"
            " or --bptt."
        )
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


def lyricist_closing(
    checkpoint: Checkpoint, network: RecurrentLanguageModel, train: str, valid_ids: Tensor, seed: int, *, models: int
) -> Closing:
    """Estimates the time that a run takes after its last update, which a run with a time limit keeps free: measured on
    a small part with the present weights. train: the training text, whose memorisation is measured. valid_ids [N]: the
    text to score. models: how many are scored on it."""

    def closing(validation_s: float) -> float:
        started = time.monotonic()
        _, characters = negative_log_likelihood(network, valid_ids[: PROBED_CHARACTERS + 1])
        scored = time.monotonic()
        sample_lyrics(checkpoint, network, [train[:1]] * SAMPLES, PROBED_STEPS, 1.0, seed)
        sampled = time.monotonic()
        scoring_s = models * (scored - started) * len(valid_ids) / characters
        sampling_s = (sampled - scored) * CHARACTERS / PROBED_STEPS
        return validation_s + scoring_s + sampling_s + OVERLAP_S * len(train) + PUBLISHING_S

    return closing
