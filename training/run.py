"""What every run has in common: the loop with its report, and the facts for the model card."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn

from training import generators
from training.config import LyricsConfig, TranslatorConfig
from training.loop import Loop, Outcome, Task
from training.parallel import Workers, agree
from training.report import Report
from training.sharded import Sharded
from training.validation import Judge


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Where a run writes and how. quiet: no progress bar. workers: the processes that share it."""

    out: Path
    device: torch.device
    resume: bool = False
    quiet: bool = False
    workers: Workers = field(default_factory=Workers)

    def train(
        self,
        task: Task,
        config: TranslatorConfig | LyricsConfig,
        title: str,
        fingerprint: str,
        judge: Judge | None = None,
    ) -> Outcome:
        """Run the loop; the task's network then holds the weights to keep, in evaluation mode."""
        writes = self.workers.writes
        if writes and not self.resume:
            (self.out / "metrics.jsonl").unlink(missing_ok=True)
        if self.workers.count > 1:
            agree(self.workers, fingerprint)
            task = Sharded(task, self.workers, self.device)
            generators.start(config.loop.seed, self.workers.rank)
        report = Report(self.out if writes else None, title, quiet=self.quiet or not writes)
        try:
            loop = Loop(
                task,
                config.optimizer,
                config.loop,
                folder=self.out,
                report=report,
                device=self.device,
                fingerprint=fingerprint,
                judge=judge,
                workers=self.workers,
            )
            outcome = loop.run(resume=self.resume)
        finally:
            report.close()
        task.network.load_state_dict(outcome.weights)
        task.network.eval()
        return outcome


def parameter_count(network: nn.Module) -> int:
    return sum(p.numel() for p in network.parameters())


def ended(outcome: Outcome) -> str:
    """A sentence for the model card."""
    progress = outcome.progress
    skipped = f", {progress.skipped:,} more skipped (fp16 overflow)" if progress.skipped else ""
    best = f"; best {outcome.validation} with {outcome.chosen}" if outcome.validation else ""
    return (
        f"Trained for {progress.seconds / 60:.1f} minutes, {progress.update:,} updates{skipped}, {progress.epoch} whole"
        f" epochs; ended by {outcome.ended_by}{best}."
    )


def command() -> str:
    """The command line as it can be repeated."""
    return "python -m training " + shlex.join(sys.argv[1:])
