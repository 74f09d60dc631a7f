"""The last lines of a run for its reader: why it ended, its scores, where the model lies, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from training.evaluation.scores import Scores, score_summary
from training.loop.progress import Outcome
from training.program import command_line

SERVED_FOLDER = "checkpoints"  # `make serve` serves what lies in it


def closing_lines(out: Path, outcome: Outcome, scores: Scores) -> Iterator[str]:
    best = f" ({outcome.validation})" if outcome.validation else ""
    yield f"Ended by {outcome.ended_by}. Kept: {outcome.chosen}{best}."
    for name, score in scores.items():
        yield f"{name}: {score_summary(score)}"
    test = "--corpus FILE" if any("nats_per_character" in score for score in scores.values()) else "--test FILE"
    serve = (
        "make serve" if out.absolute().parent.name == SERVED_FOLDER else f"move it to {SERVED_FOLDER}/ and make serve"
    )
    yield f"The model lies in {out}, described by {out / 'README.md'}."
    yield f"Next: {command_line('evaluate', str(out))} {test}, or {serve}."
