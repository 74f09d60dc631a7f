"""A whole run of a translator: pairs -> tokenizers -> batches -> loop -> scores -> checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from models import networks
from models.checkpoint import Checkpoint
from models.tokenizer import Tokenizer
from models.transformer import Transformer
from models.transformer_config import TransformerConfig
from training import snapshot
from training.alignment import Aligned, chosen_alignment
from training.card.translator import translator_facts
from training.configuration.translator import TranslatorConfig
from training.corpora.pairs import Pairs
from training.draft import translator_draft
from training.earlier_scores import with_earlier
from training.errors import TrainingError
from training.evaluate import score_translator
from training.judge import TranslationJudge, evenly
from training.output import CORPUS, publish
from training.record import NOTHING_KNOWN, Record
from training.regularisers import Regularisers
from training.run import Run, parameter_count
from training.segmentation import Segmentation, pair_ids
from training.translation import TranslationTask
from training.vocabulary import digest, translator_tokenizers
from training.wording import counted
from training.workers import Workers

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
    record: Record = NOTHING_KNOWN,
    beam: int = BEAM,
    aligned: Sequence[Aligned] = (),
) -> dict[str, Any]:
    """Train and publish a translator; its scores, those of test pairs greedy and with `beam`. TrainingError for what
    the user can mend. workers: the processes that share the run; all of them call this, and the first alone publishes
    and has scores. aligned: held-out sentences by which the heads that align words best are chosen."""
    run = Run(out=out, device=device, resume=resume, quiet=quiet, workers=workers or Workers(), record=record)
    with run.claimed():
        return _train(config, train, valid, test, run, beam, aligned)


def _train(
    config: TranslatorConfig,
    train: Pairs,
    valid: Pairs | None,
    test: Pairs | None,
    run: Run,
    beam: int,
    aligned: Sequence[Aligned],
) -> dict[str, Any]:
    torch.manual_seed(config.loop.seed)
    tokenizers = run.workers.given(lambda: translator_tokenizers(config.tokenizer, train.sources, train.targets))
    _note_smaller(config, tokenizers, run)
    draft = translator_draft(config, tokenizers)
    network = Transformer(_transformer_config(config, tokenizers["source"].size, tokenizers["target"].size)).to(
        run.device
    )
    if config.loop.compile == "on" or (config.loop.compile == "auto" and run.device.type == "cuda"):
        network.compile_training(2 * config.max_tokens)
    draft = replace(
        draft, architecture=networks.architecture("transformer", network.config), parameters=parameter_count(network)
    )
    checkpoint = Checkpoint(run.out, draft, tokenizers)
    segmentation = Segmentation(checkpoint, train, config)
    if run.workers.writes:
        segmentation.report.write(run.out / CORPUS)
    validated = evenly(valid, config.loop.validate_sentences) if valid else None
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
    judge = TranslationJudge(checkpoint, network, validated, config.loop) if validated else None
    fingerprint = snapshot.fingerprint(asdict(config), texts)
    outcome = run.train(task, config, title, fingerprint, digest(tokenizers), judge)
    if not run.workers.writes:
        return {}
    scores = with_earlier(_scores(checkpoint, network, valid, test, beam), network, run)
    card = translator_facts(config, train, valid, segmentation.report, scores, draft.parameters, outcome, run)
    card = replace(card, samples=judge.examples() if judge else ())
    alignment = chosen_alignment(checkpoint, network, aligned) if aligned else None
    publish(run.out, replace(draft, scores=scores, alignment=alignment), tokenizers, network, card)
    return scores


def _note_smaller(config: TranslatorConfig, tokenizers: dict[str, Tokenizer], run: Run) -> None:
    asked, most = config.tokenizer.size, max(tokenizer.size for tokenizer in tokenizers.values())
    if config.tokenizer.kind == "sentencepiece" and most < asked:
        run.workers.note(
            f"The corpus has enough for a vocabulary of {counted(most, 'piece')}, fewer than the {asked:,} asked for."
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
