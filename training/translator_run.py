"""A whole run of a translator: pairs -> tokenizers -> batches -> loop -> scores -> checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from models.checkpoint import Checkpoint
from models.networks import loading
from models.networks.layers import TransformerConfig
from models.networks.transformer import Transformer
from models.tokenizer import Tokenizer
from training.checkpoint_metadata import translator_metadata, with_earlier_scores
from training.config.run_config import TranslatorConfig
from training.data.segmentation import Segmentation, pair_ids
from training.data.sentence_pairs import Pairs
from training.data.tokenizer_training import fit_translator_tokenizers, tokenizer_digest
from training.distributed.process_group import Workers
from training.errors import TrainingError, pluralize
from training.evaluation.alignment_heads import AlignedSentence, choose_alignment_heads
from training.evaluation.bleu_validator import BleuValidator, subsample
from training.evaluation.scores import score_translator
from training.loop import snapshot
from training.loop.tasks import Regularisers, TranslationTask
from training.output_folder import CORPUS_REPORT, publish
from training.report.card_facts import translator_facts
from training.training_run import NO_METADATA, RunMetadata, TrainingRun, parameter_count

BEAM = 5  # of test sets, at the end of a run
SCORED_SENTENCES = 1000  # of the validation set, at the end of a run


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
    workers: Workers | None = None,
    record: RunMetadata = NO_METADATA,
    beam: int = BEAM,
    aligned: Sequence[AlignedSentence] = (),
) -> dict[str, Any]:
    """Train and publish a translator; its scores, those of test pairs greedy and with `beam`. TrainingError for what
    the user can mend. workers: the processes that share the run; all of them call this, and the first alone publishes
    and has scores. aligned: held-out sentences by which the heads that align words best are chosen."""
    run = TrainingRun(out=out, device=device, resume=resume, quiet=quiet, workers=workers or Workers(), record=record)
    with run.claimed():
        return _train_and_publish(config, train, valid, test, run, beam, aligned)


def _train_and_publish(
    config: TranslatorConfig,
    train: Pairs,
    valid: Pairs | None,
    test: Pairs | None,
    run: TrainingRun,
    beam: int,
    aligned: Sequence[AlignedSentence],
) -> dict[str, Any]:
    torch.manual_seed(config.loop.seed)
    tokenizers = run.workers.given(lambda: fit_translator_tokenizers(config.tokenizer, train.sources, train.targets))
    _note_smaller_vocabulary(config, tokenizers, run)
    draft = translator_metadata(config, tokenizers)
    network = Transformer(_transformer_config(config, tokenizers["source"].size, tokenizers["target"].size)).to(
        run.device
    )
    if config.loop.compile == "on" or (config.loop.compile == "auto" and run.device.type == "cuda"):
        network.compile_training(2 * config.max_tokens)
    draft = replace(
        draft, architecture=loading.architecture("transformer", network.config), parameters=parameter_count(network)
    )
    checkpoint = Checkpoint(run.out, draft, tokenizers)
    segmentation = Segmentation(checkpoint, train, config)
    if run.workers.writes:
        segmentation.report.write(run.out / CORPUS_REPORT)
    validated = subsample(valid, config.loop.validate_sentences) if valid else None
    task = TranslationTask(
        network,
        segmentation.epoch,
        pair_ids(checkpoint, validated) if validated else None,
        label_smoothing=config.label_smoothing,
        tokens_per_batch=config.tokens_per_batch,
        seed=config.loop.seed,
        regularisers=Regularisers.of(config),
    )
    texts = [train.sources, train.targets, *([valid.sources, valid.targets] if valid else [])]
    title = f"{config.source_language}→{config.target_language}"
    judge = BleuValidator(checkpoint, network, validated, config.loop) if validated else None
    fingerprint = snapshot.fingerprint(asdict(config), texts)
    outcome = run.train(task, config, title, fingerprint, tokenizer_digest(tokenizers), judge)
    if not run.workers.writes:
        return {}
    scores = with_earlier_scores(_scores(checkpoint, network, valid, test, beam), network, run)
    card = translator_facts(config, train, valid, segmentation.report, scores, draft.parameters, outcome, run)
    card = replace(card, samples=judge.examples() if judge else ())
    alignment = choose_alignment_heads(checkpoint, network, aligned) if aligned else None
    publish(run.out, replace(draft, scores=scores, alignment=alignment), tokenizers, network, card)
    return scores


def _note_smaller_vocabulary(config: TranslatorConfig, tokenizers: dict[str, Tokenizer], run: TrainingRun) -> None:
    asked, most = config.tokenizer.size, max(tokenizer.size for tokenizer in tokenizers.values())
    if config.tokenizer.kind == "sentencepiece" and most < asked:
        run.workers.note(
            f"The corpus has enough for a vocabulary of {pluralize(most, 'piece')}, fewer than the {asked:,} asked for."
        )


def _scores(
    checkpoint: Checkpoint, network: Transformer, valid: Pairs | None, test: Pairs | None, beam: int
) -> dict[str, dict[str, Any]]:
    scores = {}
    if valid:
        some = Pairs(valid.sources[:SCORED_SENTENCES], valid.targets[:SCORED_SENTENCES])
        scores["validation (greedy)"] = score_translator(checkpoint, network, some)
    if test:
        scores[f"{test.origin} (greedy)"] = score_translator(checkpoint, network, test)
        if beam > 1:
            scores[f"{test.origin} (beam {beam})"] = score_translator(checkpoint, network, test, beam=beam)
    return scores


def _transformer_config(config: TranslatorConfig, source_size: int, target_size: int) -> TransformerConfig:
    try:
        return TransformerConfig(source_vocabulary=source_size, target_vocabulary=target_size, **config.network)
    except (TypeError, ValueError) as error:
        raise TrainingError(f"The network of recipe {config.recipe} cannot be built: {error}") from error
