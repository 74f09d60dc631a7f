"""A whole run: corpus -> tokenizer -> batches -> loop -> scores -> checkpoint."""

from __future__ import annotations

import contextlib
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import nn

from models import checkpoint as checkpoints
from models import networks
from models.checkpoint import Checkpoint, CheckpointConfig
from models.recurrent import RecurrentConfig, RecurrentLanguageModel
from models.tokenizer import Tokenizer
from models.transformer import Transformer
from models.transformer_config import TransformerConfig
from training import snapshot
from training.card import CardFacts, hardware, model_card
from training.config import LyricsConfig, TranslatorConfig
from training.corpus import Pairs
from training.errors import TrainingError
from training.evaluate import score_lyricist, score_translator
from training.loop import Loop, Outcome, Task
from training.lyrics import LyricsTask
from training.report import Report, draw_curves, read_metrics
from training.translation import TranslationTask
from training.vocabulary import BOS, EOS, PAD, UNKNOWN, character_tokenizer, translator_tokenizers

SCORED_SENTENCES = 1000


def check_out(out: Path, *, resume: bool) -> None:
    """TrainingError unless a run may write to `out`."""
    if out.exists() and not out.is_dir():
        raise TrainingError(f"{out} is a file; --out names a folder.")
    if resume and not snapshot.exists(out):
        raise TrainingError(f"{out} has no run to resume; leave --resume out to start one.")
    if not resume and checkpoints.is_checkpoint(out):
        raise TrainingError(f"{out} already holds a model; choose another --out, or go on with --resume.")
    if not resume and snapshot.exists(out):
        raise TrainingError(f"{out} holds an unfinished run; go on with --resume, or choose another --out.")
    if not resume and (out / "README.md").exists():
        raise TrainingError(f"{out} holds a README.md, which the model card would overwrite; choose another --out.")
    out.mkdir(parents=True, exist_ok=True)


def parameter_count(network: nn.Module) -> int:
    return sum(p.numel() for p in network.parameters())


def train_translator(
    config: TranslatorConfig,
    train: Pairs,
    valid: Pairs | None,
    *,
    out: Path,
    device: torch.device,
    test: Pairs | None = None,
    resume: bool = False,
    quiet: bool = False,
) -> dict[str, Any]:
    """Train and publish a translator; its scores. TrainingError for what the user can mend."""
    check_out(out, resume=resume)
    torch.manual_seed(config.loop.seed)
    tokenizers = translator_tokenizers(config.tokenizer, train.sources, train.targets)
    draft = _translator_draft(config, tokenizers)
    network = Transformer(_transformer_config(config, tokenizers["source"].size, tokenizers["target"].size)).to(device)
    draft = replace(
        draft, architecture=networks.architecture("transformer", network.config), parameters=parameter_count(network)
    )
    checkpoint = Checkpoint(out, draft, tokenizers)
    ids, dropped = _pair_ids(checkpoint, train, config.max_tokens)
    task = TranslationTask(
        network,
        ids,
        _pair_ids(checkpoint, valid, None)[0] if valid else None,
        label_smoothing=config.label_smoothing,
        tokens_per_batch=config.tokens_per_batch,
        seed=config.loop.seed,
    )
    texts = [train.sources, train.targets, *([valid.sources, valid.targets] if valid else [])]
    title = f"{config.source_language}→{config.target_language}"
    run = snapshot.fingerprint(asdict(config), texts)
    outcome = _train(task, config, out, device, resume, title, quiet, run)
    scores = {}
    if valid:
        some = Pairs(valid.sources[:SCORED_SENTENCES], valid.targets[:SCORED_SENTENCES])
        scores["validation (greedy)"] = score_translator(checkpoint, network, some)
    if test:
        scores[f"{test.origin} (greedy)"] = score_translator(checkpoint, network, test)
    card = CardFacts(
        title=f"{config.source_language} → {config.target_language}",
        summary=f"Translates {config.source_language} to {config.target_language}, sentence by sentence.",
        data=f"{train.origin}: {len(ids[0]):,} pairs used, {train.dropped:,} empty and {dropped:,} over"
        f" {config.max_tokens} tokens left out" + (f"; validation on {valid.origin}" if valid else ""),
        recipe=config.recipe,
        command=command(),
        configuration=asdict(config),
        scores=scores,
        parameters=draft.parameters,
        training=_ended(outcome),
        device=hardware(device),
        limits=f"Up to {config.max_tokens} source tokens. It has seen nothing but the data above.",
    )
    _publish(out, replace(draft, scores=scores), tokenizers, network, card)
    return scores


def _transformer_config(config: TranslatorConfig, source_size: int, target_size: int) -> TransformerConfig:
    try:
        return TransformerConfig(source_vocabulary=source_size, target_vocabulary=target_size, **config.network)
    except (TypeError, ValueError) as error:
        raise TrainingError(f"The network of recipe {config.recipe} cannot be built: {error}") from error


def _translator_draft(config: TranslatorConfig, tokenizers: dict[str, Tokenizer]) -> CheckpointConfig:
    return CheckpointConfig(
        kind="translator",
        architecture={"name": "transformer"},
        source_language=config.source_language,
        target_language=config.target_language,
        source_suffix=(EOS if config.tokenizer.source_end == "eos" else PAD,),
        target_prefix=(BOS,),
        eos=EOS,
        suppressed=(PAD, UNKNOWN, BOS),
        max_source_tokens=config.max_tokens,
        max_new_tokens=config.max_tokens,
        tokenizers={side: tokenizer.kind for side, tokenizer in tokenizers.items()},
        training=asdict(config),
    )


def _pair_ids(
    checkpoint: Checkpoint, pairs: Pairs, most: int | None
) -> tuple[tuple[list[tuple[int, ...]], list[tuple[int, ...]]], int]:
    """Token ids of both sides, end tokens included, and how many pairs were longer than `most`."""
    sources, targets, dropped = [], [], 0
    for source, target in zip(pairs.sources, pairs.targets, strict=True):
        source_ids, target_ids = checkpoint.source_ids(source), (*checkpoint.target_ids(target), EOS)
        if most is not None and max(len(source_ids), len(target_ids)) > most:
            dropped += 1
            continue
        sources.append(source_ids)
        targets.append(target_ids)
    if not sources:
        raise TrainingError(f"Every pair is longer than {most} tokens: nothing is left to train on.")
    return (sources, targets), dropped


def train_lyricist(
    config: LyricsConfig,
    text: str,
    *,
    origin: str,
    out: Path,
    device: torch.device,
    resume: bool = False,
    quiet: bool = False,
) -> dict[str, Any]:
    """Train and publish a lyricist; its scores."""
    check_out(out, resume=resume)
    torch.manual_seed(config.loop.seed)
    train, valid = split_text(config, text)
    tokenizer = character_tokenizer(train, unknown=config.unknown)
    network = build_lyricist(config, tokenizer.size).to(device)
    ids = torch.tensor(tokenizer.encode(train))
    held_out = torch.tensor(tokenizer.encode(valid)) if valid else None
    task = LyricsTask(network, ids, held_out, config)
    title = f"lyrics ({network.config.cell})"
    run = snapshot.fingerprint(asdict(config), [[train, valid]])
    outcome = _train(task, config, out, device, resume, title, quiet, run)
    draft = CheckpointConfig(
        kind="lyrics",
        architecture=networks.architecture("recurrent", network.config),
        suppressed=tuple(sorted(tokenizer.special.ids())),
        parameters=parameter_count(network),
        tokenizers={"target": tokenizer.kind},
        training=asdict(config),
    )
    checkpoint = Checkpoint(out, draft, {"target": tokenizer})
    scores: dict[str, Any] = {}
    if outcome.progress.epoch:
        loss = outcome.progress.last_epoch_loss
        scores["training text, last epoch"] = {"nats_per_character": round(loss, 4)}
    if valid and len(valid) > 1:
        scores["held-out end of the text"] = score_lyricist(checkpoint, network, valid)
    card = CardFacts(
        title=f"Lyrics ({network.config.cell.upper()})",
        summary="Continues a text, character by character.",
        data=f"{origin}: {len(train):,} characters, {tokenizer.size:,} distinct; {len(valid):,} more held out",
        recipe=config.recipe,
        command=command(),
        configuration=asdict(config),
        scores=scores,
        parameters=draft.parameters,
        training=_ended(outcome),
        device=hardware(device),
        limits="It knows the characters of its text and no others, and may repeat passages of it.",
    )
    _publish(out, replace(draft, scores=scores), {"target": tokenizer}, network, card)
    return scores


def split_text(config: LyricsConfig, text: str) -> tuple[str, str]:
    """The text to train on and the end held out. TrainingError if too little is left."""
    if config.newline_as_space:
        text = text.replace("\n", " ").replace("\r", " ")
    text = text[: config.characters]
    cut = len(text) - int(len(text) * config.valid_share)
    least = config.rows * 2 + 1
    if cut < least:
        raise TrainingError(f"The text has {cut:,} characters to train on; recipe {config.recipe} needs {least:,}.")
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


def _train(
    task: Task,
    config: TranslatorConfig | LyricsConfig,
    out: Path,
    device: torch.device,
    resume: bool,
    title: str,
    quiet: bool,
    fingerprint: str,
) -> Outcome:
    if not resume:
        (out / "metrics.jsonl").unlink(missing_ok=True)
    report = Report(out, title, quiet=quiet)
    try:
        loop = Loop(
            task, config.optimizer, config.loop, folder=out, report=report, device=device, fingerprint=fingerprint
        )
        outcome = loop.run(resume=resume)
    finally:
        report.close()
    task.network.load_state_dict(outcome.weights)
    task.network.eval()
    return outcome


def _ended(outcome: Outcome) -> str:
    progress = outcome.progress
    best = f"; best held-out loss {progress.best_loss:.4f} nats at update {progress.best_update:,}"
    return (
        f"Trained for {progress.seconds / 60:.1f} minutes, {progress.update:,} updates, {progress.epoch} whole epochs;"
        f" ended by {outcome.ended_by}{best if progress.best_update else ''}."
    )


def command() -> str:
    """The command line as it can be repeated."""
    return "python -m training " + shlex.join(sys.argv[1:])


@contextlib.contextmanager
def staging(out: Path) -> Iterator[Path]:
    folder = out / ".staging"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _publish(
    out: Path, config: CheckpointConfig, tokenizers: dict[str, Tokenizer], network: nn.Module, card: CardFacts
) -> None:
    with staging(out) as folder:
        try:
            networks.save_weights(network, folder / checkpoints.WEIGHTS)
        except SafetensorError as error:  # it is no OSError, but the disk is what fails here
            raise OSError(f"{out / checkpoints.WEIGHTS} could not be saved ({error})") from error
        draw_curves(read_metrics(out / "metrics.jsonl"), folder / "curves.png")
        (folder / "README.md").write_text(model_card(card), encoding="utf-8")
        checkpoints.write(folder, out, config, tokenizers)
