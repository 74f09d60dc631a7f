"""The loop: step, validate, keep the best, save, resume. It knows neither languages nor lyrics: a `Task` does.

What a resume promises. On a CPU, a run that is killed at any moment and resumed with the same options, on a machine of
the same kind with as many threads and the same PyTorch and kernels, computes bit for bit what it would have computed:
weights, averages, choices and the lines of metrics.jsonl. For that, all that an update depends on is either in the
snapshot (weights, optimizer, schedule, scale, averages, candidates, counters, random state) or follows from (seed,
epoch) alone (the order of the data). Snapshots fall between updates, never inside one. A clock decides three things:
when to save, which changes nothing; how fast a falling schedule with a time limit passes, which is saved before an
update follows it (`planning.Planner`); and when the time is up. Limits (`snapshot.LIMITS`) may change at a resume: the
rate then goes on from where it stands and falls over what is now left.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from training import limits, snapshot
from training.configuration.loop import LoopConfig
from training.configuration.optimizer import OptimizerConfig
from training.descent import Descent
from training.errors import TrainingError
from training.meter import WAY_OUT, Meter, Reading, all_finite
from training.planning import Planner
from training.progress import Outcome, Progress
from training.report import Report
from training.resuming import restore, state_of
from training.schedule import rate
from training.selection import Selection
from training.task import Task
from training.validation import Judge, is_due
from training.workers import Workers

SNAPSHOT_EVERY_S = 60.0
LOG_EVERY_UPDATES = 50


class Loop:
    def __init__(
        self,
        task: Task,
        optimizer: OptimizerConfig,
        config: LoopConfig,
        *,
        folder: Path | None,
        report: Report,
        device: torch.device,
        fingerprint: str = "",
        vocabulary: str = "",
        judge: Judge | None = None,
        workers: Workers | None = None,
    ) -> None:
        """fingerprint: of what the user has given, vocabulary: of what was made of it; a resumed run must have both in
        common with the snapshot. judge: translates held-out sentences, where the task is to translate. workers: the
        processes that share `task`; None: this one alone."""
        self.task, self.network, self.config, self.report = task, task.network, config, report
        self.optimizer_config, self.folder, self.device = optimizer, folder, device
        self.fingerprint, self.vocabulary = fingerprint, vocabulary
        self.workers = workers or Workers()
        self.descent = Descent(task, optimizer, config.precision, device, self.workers)
        self.selection = Selection(task, config, folder=folder, device=device, judge=judge, workers=self.workers)
        self.planner = Planner(optimizer, config)
        self.progress, self.meter = Progress(), Meter(eager=device.type == "cpu")
        self.losses: list[float] = []
        self.limits_changed = False

    def run(self, *, resume: bool = False) -> Outcome:
        """Train until the first limit. With `resume`, go on exactly where the snapshot stands."""
        if resume:
            restore(self)
        self._started = time.monotonic() - self.progress.seconds
        self._saved = self.progress.seconds
        ended_by = self._epochs()
        self._validate()  # what was learnt since the last time counts too
        self._save(force=True)
        return self.selection.outcome(ended_by, self.progress, self.losses)

    def _epochs(self) -> str:
        progress, accumulate = self.progress, self.config.accumulate
        while not (ended_by := self._ended()):
            batches = self.task.batches(progress.epoch)
            if not batches:
                raise TrainingError("This corpus is too small for a single batch of this recipe.")
            self._plan(len(batches))
            while progress.batch < len(batches):
                if ended_by := self._ended():
                    return ended_by
                if self.planner.follow_clock(progress, len(batches)):
                    self._save(force=True)
                    self._tell(self.planner.short_warmup(progress.update))
                self._step(batches[progress.batch : progress.batch + accumulate])
                if progress.batch < len(batches):
                    self._validate_if_due()
                    self._save()
            self._end_of_epoch()
        return ended_by

    def _plan(self, batches: int) -> None:
        """Before the first update of an epoch or of a session."""
        self.planner.begin_epoch(self.progress, batches)
        if self.limits_changed:
            self.limits_changed = False
            note = self.planner.follow_limits(self.progress, batches)
            self._save(force=True)
            self._tell(note)
        self._tell(self.planner.short_warmup(self.progress.update))

    def _tell(self, note: str) -> None:
        if note:
            self.report.note(note)

    def _ended(self) -> str:
        """By which limit, or "" if the run goes on."""
        self._tick()
        return limits.reached(self.config, self.progress, self.planner)

    def _tick(self) -> None:
        """The one place where a clock enters what a run decides."""
        self.progress.seconds = self.workers.first(time.monotonic() - self._started)

    def _step(self, group: Sequence[Any]) -> None:
        """One step of the optimizer, down the mean loss over all tokens of the group's batches."""
        progress, fraction = self.progress, self.planner.plan.at(self.progress.update)
        now = rate(self.optimizer_config, progress.update + 1, fraction)
        gradient = self.descent.gradient(group)
        progress.batch += len(group)
        if self.descent.overflowed(gradient):
            progress.skipped += 1
            return
        over = limits.share(self.config, progress, fraction)
        self.meter.add(Reading(progress.update + 1, progress.epoch, *gradient, now, over))
        self.descent.step(now)
        progress.update += 1
        self.selection.average.update(progress.update)
        logs = progress.update % LOG_EVERY_UPDATES == 0
        if self.meter.eager or logs:
            self._read()
        if logs:
            self.report.log(progress.seconds)

    def _read(self) -> None:
        for reading, loss in self.meter.read():
            self.progress.epoch_loss += loss
            self.progress.epoch_tokens += reading.tokens
            mean = loss / reading.tokens
            self.report.step(reading.update, reading.epoch, mean, reading.tokens, reading.rate, reading.fraction)

    def _end_of_epoch(self) -> None:
        progress = self.progress
        self._read()
        progress.last_epoch_loss = progress.epoch_loss / max(progress.epoch_tokens, 1)
        self.losses.append(progress.last_epoch_loss)
        self.report.log(progress.seconds)
        progress.epoch += 1
        progress.batch, progress.epoch_loss, progress.epoch_tokens = 0, 0.0, 0
        self._validate_if_due(progress.epoch)
        self._save()

    def _validate_if_due(self, epoch: int | None = None) -> None:
        if is_due(self.config, self.progress.update, epoch):
            self._validate()

    def _validate(self) -> None:
        """Once for an update, however often it is asked for."""
        progress = self.progress
        if progress.validated == progress.update:
            return
        self._read()
        progress.validated = progress.update
        measured, quality = self.selection.measured()
        if measured is None:
            return
        if self.selection.offer(measured, progress.update):
            progress.best_loss, progress.best_bleu, progress.best_update = *measured, progress.update
            progress.without_gain = 0
        else:
            progress.without_gain += 1
            if self.planner.cools_down(progress):
                self.selection.go_back()
        self.report.validation(progress.update, measured.loss, progress.seconds, measured.bleu)
        self.report.samples(progress.update, quality.samples)

    def _save(self, *, force: bool = False) -> None:
        """Never what is no number: the snapshot before it stays."""
        if self.folder is None or (not force and self.progress.seconds - self._saved < SNAPSHOT_EVERY_S):
            return
        self._read()
        if not all_finite(list(self.network.parameters())):
            raise TrainingError(f"The weights are no numbers any more at update {self.progress.update}: {WAY_OUT}.")
        self._tick()
        state = state_of(self)  # of all processes
        if self.workers.writes:
            snapshot.save(self.folder, state)
            self.selection.candidates.sweep()
        self._saved = self.progress.seconds
