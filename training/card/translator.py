"""What a model card says of a translator."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from training.card.facts import CardFacts
from training.configuration.translator import TranslatorConfig
from training.corpora.pairs import Pairs
from training.corpora.report import CorpusReport
from training.hardware import hardware
from training.progress import Outcome
from training.run import Run, command, ended
from training.wording import counted


def translator_facts(
    config: TranslatorConfig,
    train: Pairs,
    valid: Pairs | None,
    report: CorpusReport,
    scores: dict[str, dict[str, Any]],
    parameters: int,
    outcome: Outcome,
    run: Run,
) -> CardFacts:
    return CardFacts(
        title=f"{config.source_language} → {config.target_language}",
        summary=f"Translates {config.source_language} to {config.target_language}, sentence by sentence.",
        data=f"{train.origin}: {counted(report.read, 'pair')}, of which {report.left_out:,}"
        f" {'was' if report.left_out == 1 else 'were'} left out" + (f"; validation on {valid.origin}" if valid else ""),
        left_out=report.table(),
        recipe=config.recipe,
        command=command(),
        configuration=asdict(config),
        scores=scores,
        parameters=parameters,
        training=ended(outcome),
        device=hardware(run.device, run.workers.count, run.workers.machines),
        use="For sentences like those of its data.",
        limits=f"Up to {config.max_tokens} source tokens. It has seen nothing but that data: names, numbers and topics"
        " from elsewhere may come out wrong, and nothing marks where.",
        licence=run.record.licence,
        languages=(config.source_language, config.target_language),
        task="translation",
    )
