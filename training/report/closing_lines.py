"""The last lines of a run for its reader: why it ended, its scores, where the model lies, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from training.evaluation.scores import Scores, score_summary
from training.loop.progress import Outcome
from training.program import CONSOLE, command_line, program

SERVED_FOLDER = "checkpoints"  # what `make serve` and `parlance serve` serve


def closing_lines(out: Path, outcome: Outcome, scores: Scores) -> Iterator[str]:
    best = f" ({outcome.validation})" if outcome.validation else ""
    yield f"Ended by {outcome.ended_by}. Kept: {outcome.chosen}{best}."
    for name, score in scores.items():
        yield f"{name}: {score_summary(score)}"
    test = "--corpus FILE" if any("nats_per_character" in score for score in scores.values()) else "--test FILE"
    serve = f"{CONSOLE} serve" if program() == CONSOLE else "make serve"
    if out.absolute().parent.name != SERVED_FOLDER:
        serve = f"move it to {SERVED_FOLDER}/ and {serve}"
    yield f"The model lies in {out}, described by {out / 'README.md'}."
    yield f"Next: {command_line('evaluate', str(out))} {test}, or {serve}."
