"""What the model card says of a translator and of a lyricist."""

from __future__ import annotations

from dataclasses import asdict

from training.config.run_config import LyricsConfig, TranslatorConfig
from training.data.sentence_pairs import CorpusReport, Pairs
from training.errors import pluralize
from training.evaluation.scores import Scores
from training.loop.progress import Outcome
from training.report.card_writer import CardFacts
from training.report.hardware import hardware_summary
from training.training_run import TrainingRun, command_line, outcome_sentence


def translator_facts(
    config: TranslatorConfig,
    train: Pairs,
    valid: Pairs | None,
    report: CorpusReport,
    scores: Scores,
    parameters: int,
    outcome: Outcome,
    run: TrainingRun,
) -> CardFacts:
    return CardFacts(
        title=f"{config.source_language} → {config.target_language}",
        summary=f"Translates {config.source_language} to {config.target_language}, sentence by sentence.",
        data=f"{train.origin}: {pluralize(report.read, 'pair')}, of which {report.left_out:,}"
        f" {'was' if report.left_out == 1 else 'were'} left out" + (f"; validation on {valid.origin}" if valid else ""),
        left_out=report.table(),
        recipe=config.recipe,
        command=command_line(),
        configuration=asdict(config),
        scores=scores,
        parameters=parameters,
        training=outcome_sentence(outcome),
        device=hardware_summary(run.device, run.workers.count, run.workers.machines),
        use="For sentences like those of its data.",
        limits=f"Up to {config.max_tokens} source tokens. It has seen nothing but that data: names, numbers and topics"
        " from elsewhere may come out wrong, and nothing marks where.",
        licence=run.licence,
        languages=(config.source_language, config.target_language),
        task="translation",
    )


def lyricist_facts(
    config: LyricsConfig, scores: Scores, parameters: int, outcome: Outcome, run: TrainingRun
) -> CardFacts:
    """Its data and what it has memorised are not known here."""
    return CardFacts(
        title=f"Lyrics ({config.network.get('cell', 'gru').upper()})",
        summary="Continues a text, character by character.",
        data="",
        recipe=config.recipe,
        command=command_line(),
        configuration=asdict(config),
        scores=scores,
        parameters=parameters,
        training=outcome_sentence(outcome),
        device=hardware_summary(run.device, run.workers.count, run.workers.machines),
        use="For texts in the manner of its corpus.",
        limits="It knows the characters of its text and no others, and may repeat passages of it.",
        licence=run.licence,
        task="text-generation",
    )
