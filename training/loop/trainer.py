"""The training loop: step, validate, keep the best weights, save, resume. What is trained is a `Task`.

What a resume promises. On a CPU, a run that is killed at any moment and resumed with the same options, on a machine of
the same kind with as many threads and the same PyTorch and kernels, computes bit for bit what it would have computed:
weights, averages, choices and the lines of metrics.jsonl. For that, all that an update depends on is either in the
snapshot (weights, optimizer, schedule, scale, averages, candidates, counters, random state) or follows from (seed,
epoch) alone (the order of the data). Snapshots fall between updates, never inside one. A clock decides three things:
when to save, which changes nothing; how fast a falling schedule with a time limit passes, which is saved before an
update follows it (`schedule.Planner`); and when the time is up. Limits (`snapshot.LIMITS`) may change at a resume: the
rate then goes on from where it stands and falls over what is now left.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from training.config.run_config import LoopConfig, OptimizerConfig
from training.distributed import process_group
from training.distributed.process_group import Workers
from training.distributed.torchrun import launch_name
from training.errors import TrainingError, pluralize
from training.loop import schedule, snapshot
from training.loop.optimizer_step import DIVERGENCE_ADVICE, OptimizerStep, StepMeasurement, StepMeter, all_finite
from training.loop.progress import Outcome, Progress, Validator, validation_is_due
from training.loop.schedule import MeasuredPace, Planner, SchedulePlan, learning_rate
from training.loop.tasks import Task
from training.loop.weight_selection import WeightSelection
from training.report.progress_report import ProgressReport


def snapshot_state(loop: Trainer) -> dict[str, Any]:
    """Tensors and plain values; the best weights lie in files of their own."""
    config = loop.config
    return {
        "progress": asdict(loop.progress),
        "plan": asdict(loop.planner.plan),
        "pace": asdict(loop.planner.pace),
        "limits": (config.max_epochs, config.max_minutes, config.patience),
        "network": loop.network.state_dict(),
        "optimizer": loop.descent.optimizer.state_dict(),
        "precision": loop.descent.precision.state(),
        "machine": machine_description(loop),
        "average": loop.selection.average.values,
        "best": loop.selection.candidates.kept,
        "carried": loop.task.carried(),
        "random": loop.workers.gather(process_group.random_states(loop.device)),
        "logged": (loop.report.loss, loop.report.tokens, loop.report.last),
        "fingerprint": loop.fingerprint,
        "vocabulary": loop.vocabulary,
        "launch": launch_name(),
    }


def machine_description(loop: Trainer) -> str:
    """What the order of additions, and with it the last bits of a sum, depends on; of torch and kernels the draws,
    too."""
    number_format = loop.descent.precision.format
    threads = f", {pluralize(torch.get_num_threads(), 'thread')}" if loop.device.type == "cpu" else ""
    processes = f", {loop.workers.count} processes" if loop.workers.count > 1 else ""
    kernels = getattr(loop.network, "kernels", "") if number_format == "fp32" else ""
    named = f", kernels {kernels}" if kernels else ""
    return f"{number_format} on {loop.device.type}{threads}{processes}, torch {torch.__version__}{named}"


def restore_snapshot(loop: Trainer) -> None:
    """TrainingError if there is no snapshot, it cannot be read, or it is another run's."""
    folder = loop.folder
    assert folder is not None
    state = loop.workers.given(lambda: snapshot.load(folder))
    another = f"{folder} was trained with another recipe, corpus or seed; resume it with the same ones."
    if state.get("fingerprint") != loop.fingerprint:
        raise TrainingError(another)
    if state.get("vocabulary", loop.vocabulary) != loop.vocabulary:  # an earlier version has saved none
        raise TrainingError(
            f"{folder} was trained with another vocabulary than this version makes of the same corpus; resume it with"
            " the versions of Parlance and SentencePiece that began it, or start anew with another --out."
        )
    try:
        loop.network.load_state_dict(state["network"])
        loop.descent.optimizer.load_state_dict(state["optimizer"])
        loop.progress = type(loop.progress)(**state["progress"])
        loop.planner.plan, loop.planner.pace = SchedulePlan(**state["plan"]), MeasuredPace(**state["pace"])
        loop.descent.precision.restore(state["precision"])
    except (KeyError, RuntimeError, TypeError, ValueError) as error:
        raise TrainingError(another) from error
    loop.selection.average.values = [value.to(loop.device) for value in state["average"]]
    loop.selection.candidates.restore(state["best"])
    loop.task.restore(state["carried"])
    process_group.restore_random_states(state["random"], loop.workers.rank, loop.device)
    loss, tokens, last = (*state["logged"], None)[:3]  # an earlier version has saved but two
    loop.report.resumed(loop.progress.update, loss, tokens, last, loop.progress.validated)
    if state["machine"] != machine_description(loop) and loop.workers.writes:
        loop.report.note(
            f"This run goes on as {machine_description(loop)} and was {state['machine']} before: a sound run, though"
            " not bit for bit what it would have been."
        )
    config, progress = loop.config, loop.progress
    loop.limits_changed = tuple(state["limits"]) != (config.max_epochs, config.max_minutes, config.patience)
    if loop.limits_changed and not 0 < config.patience <= progress.without_gain:
        progress.cooling = False  # more patience than before has not ended yet


SNAPSHOT_EVERY_S = 60.0
LOG_EVERY_UPDATES = 50


class Trainer:
    def __init__(
        self,
        task: Task,
        optimizer: OptimizerConfig,
        config: LoopConfig,
        *,
        folder: Path | None,
        report: ProgressReport,
        device: torch.device,
        fingerprint: str = "",
        vocabulary: str = "",
        judge: Validator | None = None,
        workers: Workers | None = None,
    ) -> None:
        """fingerprint: of what the user has given, vocabulary: of what was made of it; a resumed run must have both in
        common with the snapshot. judge: translates held-out sentences, where the task is to translate. workers: the
        processes that share `task`; None: this one alone."""
        self.task, self.network, self.config, self.report = task, task.network, config, report
        self.optimizer_config, self.folder, self.device = optimizer, folder, device
        self.fingerprint, self.vocabulary = fingerprint, vocabulary
        self.workers = workers or Workers()
        self.descent = OptimizerStep(task, optimizer, config.precision, device, self.workers)
        self.selection = WeightSelection(task, config, folder=folder, device=device, judge=judge, workers=self.workers)
        self.planner = Planner(optimizer, config)
        self.progress, self.meter = Progress(), StepMeter(eager=device.type == "cpu")
        self.losses: list[float] = []
        self.limits_changed = False

    def run(self, *, resume: bool = False) -> Outcome:
        """Train until the first limit. With `resume`, go on exactly where the snapshot stands."""
        if resume:
            restore_snapshot(self)
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
        return schedule.limit_reached(self.config, self.progress, self.planner)

    def _tick(self) -> None:
        """The one place where a clock enters what a run decides."""
        self.progress.seconds = self.workers.first(time.monotonic() - self._started)

    def _step(self, group: Sequence[Any]) -> None:
        """One step of the optimizer, down the mean loss over all tokens of the group's batches."""
        progress, fraction = self.progress, self.planner.plan.at(self.progress.update)
        now = learning_rate(self.optimizer_config, progress.update + 1, fraction)
        gradient = self.descent.gradient(group)
        progress.batch += len(group)
        if self.descent.overflowed(gradient):
            progress.skipped += 1
            return
        over = schedule.fraction_done(self.config, progress, fraction)
        self.meter.add(StepMeasurement(progress.update + 1, progress.epoch, *gradient, now, over))
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
        if validation_is_due(self.config, self.progress.update, epoch):
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
            raise TrainingError(
                f"The weights are no numbers any more at update {self.progress.update}: {DIVERGENCE_ADVICE}."
            )
        self._tick()
        state = snapshot_state(self)  # of all processes
        if self.workers.writes:
            snapshot.save(self.folder, state)
            self.selection.candidates.sweep()
        self._saved = self.progress.seconds
