"""What every run has in common: the loop with its report, and the facts for the model card."""

from __future__ import annotations

import shlex
import shutil
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn

from training import events, generators, output
from training.configuration import run_file
from training.configuration.lyrics import LyricsConfig
from training.configuration.translator import TranslatorConfig
from training.group import agree
from training.loop import Loop
from training.progress import Outcome
from training.record import NOTHING_KNOWN, Record
from training.report import METRICS, SAMPLES, Report
from training.sharded import Sharded
from training.task import Task
from training.validation import Judge
from training.wording import counted
from training.workers import Workers


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Where a run writes and how. quiet: no progress bar. workers: the processes that share it."""

    out: Path
    device: torch.device
    resume: bool = False
    quiet: bool = False
    workers: Workers = field(default_factory=Workers)
    record: Record = NOTHING_KNOWN

    def claimed(self) -> AbstractContextManager[None]:
        """Around all that this run writes; see `training.output.claimed`."""
        return output.claimed(self.out, resume=self.resume) if self.workers.writes else nullcontext()

    def train(
        self,
        task: Task,
        config: TranslatorConfig | LyricsConfig,
        title: str,
        fingerprint: str,
        vocabulary: str,
        judge: Judge | None = None,
    ) -> Outcome:
        """Run the loop; the task's network then holds the weights to keep, in evaluation mode. fingerprint,
        vocabulary: as in `Loop`."""
        if self.workers.count > 1:
            agree(self.workers, f"{fingerprint} {config.loop}")  # its limits, too: no fingerprint has them
            task = Sharded(task, self.workers, self.device)
            generators.start(config.loop.seed, self.workers.rank)
        writes = self.workers.writes
        if writes and not self.resume:
            self._clear()
        tensorboard = self.record.tensorboard and writes
        report = Report(self.out if writes else None, title, quiet=self.quiet or not writes, tensorboard=tensorboard)
        if writes and not self.resume:
            self._write_run_file(config)
        try:
            loop = Loop(
                task,
                config.optimizer,
                config.loop,
                folder=self.out,
                report=report,
                device=self.device,
                fingerprint=fingerprint,
                vocabulary=vocabulary,
                judge=judge,
                workers=self.workers,
            )
            outcome = loop.run(resume=self.resume)
            report.finished()
        finally:
            report.close()
        if writes:
            self._write_run_file(config)  # a resumed run may have other limits than the one that it goes on with
        task.network.load_state_dict(outcome.weights)
        task.network.eval()
        return outcome

    def _clear(self) -> None:
        """What an earlier run left that this one would add to."""
        for name in (METRICS, SAMPLES, "samples.md"):
            (self.out / name).unlink(missing_ok=True)
        shutil.rmtree(self.out / events.FOLDER, ignore_errors=True)

    def _write_run_file(self, config: TranslatorConfig | LyricsConfig) -> None:
        text = run_file.text(config, self.record.data, self.device, self.workers.count)
        (self.out / run_file.NAME).write_text(text, encoding="utf-8")


def parameter_count(network: nn.Module) -> int:
    return sum(p.numel() for p in network.parameters())


def ended(outcome: Outcome) -> str:
    """A sentence for the model card."""
    progress = outcome.progress
    skipped = f", {progress.skipped:,} more skipped (fp16 overflow)" if progress.skipped else ""
    best = f"; best {outcome.validation} with {outcome.chosen}" if outcome.validation else ""
    return (
        f"Trained for {progress.seconds / 60:.1f} minutes, {counted(progress.update, 'update')}{skipped},"
        f" {counted(progress.epoch, 'whole epoch')}; ended by {outcome.ended_by}{best}."
    )


def command() -> str:
    """The command line as it can be repeated."""
    return "python -m training " + shlex.join(sys.argv[1:])
