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
from torch import Tensor

from training import optimizer as optimizers
from training import snapshot
from training.averaging import MovingAverage
from training.candidates import Candidates, Listed
from training.configuration.loop import LoopConfig
from training.configuration.optimizer import OptimizerConfig
from training.errors import TrainingError
from training.meter import WAY_OUT, Meter, Reading, all_finite
from training.planning import Planner
from training.precision import MixedPrecision
from training.progress import Outcome, Progress
from training.report import Report
from training.resuming import restore, state_of
from training.schedule import rate
from training.task import Task
from training.validation import Judge, Quality, Validation, apart, is_due
from training.wording import counted
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
        self.judge, self.workers = judge, workers or Workers()
        self.optimizer = optimizers.build(optimizer, task.network)
        self.precision = MixedPrecision(device, config.precision)
        self.average = MovingAverage(task.network, config.average_decay)
        self.candidates = (Candidates if self.workers.writes else Listed)(folder, config.average_best)
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
        return self._outcome(ended_by)

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
        progress, config = self.progress, self.config
        self._tick()
        if progress.epoch >= config.max_epochs:
            return f"the limit of {counted(config.max_epochs, 'epoch')}"
        if self.planner.is_over(progress):
            return f"{counted(config.patience, 'validation')} without a gain, and a cool-down"
        if config.patience and progress.without_gain >= config.patience and not progress.cooling:
            return f"{counted(config.patience, 'validation')} without a gain"
        if config.max_minutes is not None and progress.seconds >= config.max_minutes * 60:
            return f"the limit of {counted(config.max_minutes, 'minute')}"
        return ""

    def _tick(self) -> None:
        """The one place where a clock enters what a run decides."""
        self.progress.seconds = self.workers.first(time.monotonic() - self._started)

    def _step(self, group: Sequence[Any]) -> None:
        """One step of the optimizer, down the mean loss over all tokens of the group's batches."""
        progress, fraction = self.progress, self.planner.plan.at(self.progress.update)
        self.network.train()
        now = rate(self.optimizer_config, progress.update + 1, fraction)
        optimizers.apply_rate(self.optimizer, now)
        self.optimizer.zero_grad(set_to_none=True)
        total, tokens = torch.zeros((), device=self.device), 0
        for place, batch in enumerate(group):
            self.workers.together = place == len(group) - 1
            with self.precision.autocast():
                loss, count = self.task.loss(batch)
            self.precision.backward(loss * count)
            total, tokens = total + loss.detach() * count, tokens + count
        self.precision.unscale(self.optimizer)
        total, tokens = self.workers.total(total), round(self.workers.sum([tokens])[0])
        # gradients are averaged over the processes
        each = tokens / self.workers.count
        norm = optimizers.clip(self.network.parameters(), self.optimizer_config.clip_norm, each)
        progress.batch += len(group)
        if self.precision.overflowed(norm):
            progress.skipped += 1
            return
        self.meter.add(Reading(progress.update + 1, progress.epoch, total, norm, tokens, now, self._share(fraction)))
        self.optimizer.step()
        progress.update += 1
        self.average.update(progress.update)
        logs = progress.update % LOG_EVERY_UPDATES == 0
        if self.meter.eager or logs:
            self._read()
        if logs:
            self.report.log(progress.seconds)

    def _share(self, fraction: float) -> float:
        """How much of the run is over, by whichever limit comes first."""
        limit = self.config.max_minutes
        return min(1.0, max(fraction, self.progress.seconds / (limit * 60) if limit else 0.0))

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
        with self.average.applied():
            measured, quality = self.workers.given(self._measure)
        if measured is None:
            return
        cost = measured.cost(self.config.choose_by)
        if self.candidates.offer(cost, progress.update, self._weights):
            progress.best_loss, progress.best_bleu, progress.best_update = *measured, progress.update
            progress.without_gain = 0
        else:
            progress.without_gain += 1
            if self.planner.cools_down(progress):
                self._go_back()
        self.report.validation(progress.update, measured.loss, progress.seconds, measured.bleu)
        self.report.samples(progress.update, quality.samples)

    def _go_back(self) -> None:
        """To the best weights: what came after them was no gain, and the cool-down must not start from that."""
        best = self.workers.given(self.candidates.best)
        if best is not None:
            self.network.load_state_dict(best)
            self.average.restart()

    def _measure(self) -> tuple[Validation | None, Quality]:
        self.network.eval()
        with apart(self.device):
            loss = self.task.validate()
            if loss is None:
                return None, Quality()
            quality = self.judge() if self.judge else Quality()
        return Validation(loss, quality.bleu), quality

    def _weights(self) -> dict[str, Tensor]:
        """A copy of the averaged weights."""
        with self.average.applied():
            return {name: t.detach().clone() for name, t in self.network.state_dict().items()}

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
            self.candidates.sweep()
        self._saved = self.progress.seconds

    def _outcome(self, ended_by: str) -> Outcome:
        """The best validated weights, or the mean of several where it validates better; on the process that writes."""
        outcome = Outcome(self._weights(), self.progress, ended_by, self.losses)
        if not self.workers.writes:
            return outcome
        kept, best = self.candidates.kept, self.candidates.best()
        if best is None:
            return outcome
        progress = self.progress
        outcome.weights, outcome.chosen = best, f"the weights of update {progress.best_update:,}"
        outcome.validation = Validation(progress.best_loss, progress.best_bleu)
        if len(kept) > 1:
            mean = self.candidates.mean()
            measured = self._measured_with(mean)
            if measured and measured.cost(self.config.choose_by) < kept[0][0]:
                outcome.weights, outcome.validation, outcome.chosen = mean, measured, self.candidates.named()
        return outcome

    def _measured_with(self, weights: dict[str, Tensor]) -> Validation | None:
        own = {name: t.clone() for name, t in self.network.state_dict().items()}
        self.network.load_state_dict(weights)
        measured, _ = self._measure()
        self.network.load_state_dict(own)
        return measured
