"""What a model card says of a lyricist."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from training.card.facts import CardFacts
from training.configuration.lyrics import LyricsConfig
from training.hardware import hardware
from training.progress import Outcome
from training.run import Run, command, ended


def lyricist_facts(
    config: LyricsConfig, scores: dict[str, dict[str, Any]], parameters: int, outcome: Outcome, run: Run
) -> CardFacts:
    """Its data and what it has memorised are not known here."""
    return CardFacts(
        title=f"Lyrics ({config.network.get('cell', 'gru').upper()})",
        summary="Continues a text, character by character.",
        data="",
        recipe=config.recipe,
        command=command(),
        configuration=asdict(config),
        scores=scores,
        parameters=parameters,
        training=ended(outcome),
        device=hardware(run.device, run.workers.count, run.workers.machines),
        use="For texts in the manner of its corpus.",
        limits="It knows the characters of its text and no others, and may repeat passages of it.",
        licence=run.record.licence,
        task="text-generation",
    )
