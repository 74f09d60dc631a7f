"""The training loop: step, validate, keep the best weights, save, resume. It trains a `Task`.

Exact resume: on a CPU, a run that is killed at any moment and resumed with the same options, on a machine of the same
kind with the same number of threads, PyTorch and kernels, computes bit for bit the same weights, averages, choices and
lines of metrics.jsonl. All inputs of an update are therefore either in the snapshot (weights, optimizer, schedule, loss
scale, averages, best weights, counters, random state) or follow from (seed, epoch) alone (data order). Snapshots fall
between updates; a signal causes one more (`watchdog.StopSignals`). A clock decides when to save, which changes nothing;
how fast a decaying schedule with a time limit passes, which is saved before an update uses it (`schedule.Planner`); and
when to validate in an epoch that is longer than a fifth of the time limit, which is saved, too; and when the time is
up. Limits (`snapshot.LIMITS`) may change at a resume: the rate then continues from its current value and decays over
the rest of the run."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from models import checkpoint as checkpoints
from training import snapshot
from training.config.run_config import LoopConfig, OptimizerConfig
from training.distributed.process_group import Workers, random_state, restore_random_state
from training.distributed.watchdog import Stopped, StopSignals
from training.errors import TrainingError, pluralize
from training.kernels.torch_compile import failure
from training.kernels.training_backend import TranslatorBackend, backend_description, backend_of, kernels_of
from training.loop.mixed_precision import MixedPrecision
from training.loop.optimizers import build_optimizer, clip_gradients, set_learning_rate
from training.loop.prefetch import BatchPrefetcher
from training.loop.run_plan import (
    DIVERGENCE_ADVICE,
    RISING_VALIDATIONS,
    MeasuredPace,
    Planner,
    SchedulePlan,
    learning_rate,
)
from training.loop.tasks import AnyTask
from training.loop.weight_selection import BestWeights, MovingAverage, Weights
from training.progress import Closing, Outcome, Progress, Validation, Validator
from training.report.progress_report import ProgressReport

SNAPSHOT_EVERY_S = 60.0
LOG_EVERY_UPDATES = 50
BATCHES_AHEAD = 4  # of a GPU's updates
NO_GAIN = (
    "No validation was better than that of the starting weights, so that these are kept: tune longer (--patience,"
    " --max-epochs), with another --learning-rate, or choose by the loss (--set loop.choose_by=loss)."
)
ABOVE_CHANCE, ABOVE_BEST = 0.5, 2.0  # nats: a loss beyond has risen, and not merely of held-out texts


class Update(NamedTuple):
    """epoch: from 1. loss []: sum over tokens; norm []: of the mean loss's unclipped gradient. fraction: of the run so
    far."""

    number: int
    epoch: int
    loss: Tensor
    norm: Tensor
    tokens: int
    learning_rate: float
    fraction: float


def progress_row(progress: Progress) -> dict[str, float]:
    """The beginning of a line of metrics.jsonl. epoch: the one that the update belongs to, from 1."""
    epoch = progress.epoch + (1 if progress.batch else 0)
    return {"update": progress.update, "epoch": epoch, "seconds": round(progress.seconds, 2)}


class Trainer:
    def __init__(
        self,
        task: AnyTask,
        optimizer: OptimizerConfig,
        config: LoopConfig,
        *,
        folder: Path | None,
        report: ProgressReport,
        device: torch.device,
        fingerprint: str = "",
        vocabulary: str = "",
        changed: Sequence[str] = (),
        validator: Validator | None = None,
        workers: Workers | None = None,
        validates_start: bool = False,
        elapsed_s: float = 0.0,
        closing: Closing | None = None,
    ) -> None:
        """fingerprint: of config and corpus, vocabulary: of the tokenizers; both must match the snapshot at a resume.
        changed: options of this session that the run began with otherwise, for the message if they do not match.
        validator: writes sample texts, and translates held-out sentences if weights are chosen by BLEU. workers: the
        processes that share `task`; None: a single process. elapsed_s: of the command before this moment, which
        count in the time limit, as does what follows the last update: closing estimates its seconds.
        validates_start: whether the initial weights are validated too, and kept if no others are better."""
        self.task, self.network, self.config, self.report = task, task.network, config, report
        self.optimizer_config, self.folder, self.device = optimizer, folder, device
        self.fingerprint, self.vocabulary, self.changed = fingerprint, vocabulary, changed
        self.workers = workers or Workers()
        self.optimizer = build_optimizer(optimizer, task.network)
        self._agree_on_compiling()
        self.precision = MixedPrecision(device, config.precision, task.network, kernels_of(task))
        self.backend = backend_description(task, self.precision.format)
        self.average = MovingAverage(task.network, config.ema_decay)
        self.best = BestWeights(folder, config.average_best, stores=self.workers.writes)
        self.validator = validator
        self.validates_start = validates_start
        self.planner = Planner(optimizer, config)
        self.progress = Progress()
        self.reads_at_once = device.type == "cpu"  # reading synchronizes with a GPU, so it is rare
        self.batches_ahead = 0 if device.type == "cpu" else BATCHES_AHEAD
        self._unread: list[Update] = []
        self.epoch_losses: list[float] = []
        self.limits_changed = False
        self.elapsed_s, self.closing = elapsed_s, closing
        self.signals = StopSignals(announces=self.workers.writes)
        self._stop_signal = 0  # of any process

    def run(self, *, resume: bool = False) -> Outcome:
        """Trains until the first limit. With `resume`, continues from the snapshot. Raises Stopped after a signal."""
        if resume:
            self._restore()
        self._started = time.monotonic() - self.progress.seconds - self.elapsed_s
        if not self.progress.validations:
            self.progress.validated_at_s = self.elapsed_s  # the time before the first update is not shared
        self._saved = self.progress.seconds
        if self.backend:
            tf32 = "" if self.precision.fp32_products == "fp32" else "; its fp32 products are in TF32"
            self.report.note(f"Trains with {self.backend}{tf32}.")
        with self.signals:
            if self.validates_start and not self.progress.update:
                self._validate()
            ended_by = self._epochs()
            self._validate()  # updates since the last validation count too
            self._save(force=True)
        self._stop_if_asked()
        self._note(self.planner.closing_note(self.progress))
        self.report.event(progress_row(self.progress), "end", f"ended by {ended_by}")
        return self._outcome(ended_by)

    def _agree_on_compiling(self) -> None:
        """All processes compile their step, or none: a group waits for its slowest."""
        backend = backend_of(self.task)
        if not isinstance(backend, TranslatorBackend) or self.workers.count == 1 or self.config.compile == "off":
            return
        reasons = [why for why in self.workers.gather(backend.why_eager) if why]
        if reasons:
            backend.stop_compiling(reasons[0])

    def _epochs(self) -> str:
        progress, accumulate = self.progress, self.config.gradient_accumulation
        while not (ended_by := self._limit_reached()):
            batches = self.task.batches(progress.epoch)
            if not batches:
                raise TrainingError("This corpus is too small for a single batch of this recipe.")
            self.planner.begin_epoch(progress, len(batches))
            if self.limits_changed:
                self.limits_changed, note = False, self.planner.follow_limits(progress, len(batches))
                self._save(force=True)
                self._note(note)
            self._note(self.planner.short_warmup(progress.update))
            with BatchPrefetcher(batches, progress.batch, self.batches_ahead, self.device) as self.upcoming:
                while progress.batch < len(batches):
                    if ended_by := self._limit_reached():
                        return ended_by
                    if self.planner.follow_clock(progress, len(batches)):
                        self._save(force=True)
                        self._note(self.planner.short_warmup(progress.update))
                    self._validate_if_clock_asks()
                    self._step(self.upcoming.take(accumulate))
                    if progress.batch < len(batches):
                        self._validate_if_due()
                        self._save()
            self._end_of_epoch()
        return ended_by

    def _note(self, sentence: str) -> None:
        if sentence:
            self.report.note(sentence)

    def _limit_reached(self) -> str:
        self._tick()
        self._stop_if_asked()
        return self.planner.limit_reached(self.progress)

    def _tick(self) -> None:
        """The only place where a clock or a signal enters decisions of the run: all processes decide alike."""
        seconds = time.monotonic() - self._started
        self.progress.seconds, self._stop_signal = self.workers.agree(seconds, self.signals.requested)

    def _stop_if_asked(self) -> None:
        """Saves and raises Stopped after a signal. Between updates alone, so that a resume repeats nothing."""
        if not self._stop_signal:
            return
        if (
            not self.limits_changed
        ):  # else the snapshot of the resume is as new, and has the limits that the plan follows
            self._save(force=True)
        raise Stopped(self._stop_signal, self.progress.update, self.progress.epoch)

    def _step(self, batches: Sequence[object]) -> None:
        """One optimizer step on the mean loss over all tokens of the batches."""
        progress = self.progress
        rate = learning_rate(self.optimizer_config, progress.update + 1, self.planner.plan.at(progress.update))
        loss, norm, tokens = self._gradient(batches)
        self._note_backend()
        progress.batch += len(batches)
        if self.precision.overflowed(norm):
            progress.skipped += 1
            return
        done = self.planner.fraction_done(progress)
        self._unread.append(Update(progress.update + 1, progress.epoch + 1, loss, norm, tokens, rate, done))
        if self.reads_at_once:
            self._read_updates()
        set_learning_rate(self.optimizer, rate)
        self.optimizer.step()
        progress.update += 1
        self.average.update(progress.update)
        if progress.update % LOG_EVERY_UPDATES == 0:
            self._read_updates()
            self.report.log(progress.seconds)

    def _gradient(self, batches: Sequence[object]) -> tuple[Tensor, Tensor, int]:
        """`_compute_gradient`. If torch.compile fails, in the first update or in one with other shapes, the update is
        computed anew with the same random numbers, eagerly, as are all that follow."""
        backend = backend_of(self.task)
        if not isinstance(backend, TranslatorBackend) or not backend.compiled:
            return self._compute_gradient(batches)
        random_before = random_state(self.device)
        try:
            return self._compute_gradient(batches)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # of compilers, linkers, loaders and launchers; an error of ours comes again
            backend.stop_compiling(failure(error))
        restore_random_state([random_before], 0, self.device)
        return self._compute_gradient(batches)

    def _note_backend(self) -> None:
        """Says from which update on another backend computes, if torch.compile has failed."""
        backend = backend_description(self.task, self.precision.format)
        if backend != self.backend:
            self.backend = backend
            self._note(f"From update {self.progress.update + 1:,} on, updates are computed by {backend}.")

    def _compute_gradient(self, batches: Sequence[object]) -> tuple[Tensor, Tensor, int]:
        """Sets `grad` to the clipped gradient of the mean loss; returns loss, norm and tokens as in `Update`."""
        self.network.train()
        self.optimizer.zero_grad(set_to_none=True)
        total, tokens = torch.zeros((), device=self.device), 0
        for index, batch in enumerate(batches):
            self.workers.synchronize = index == len(batches) - 1
            with self.precision.autocast():
                loss, count = self.task.loss(batch)
            self.precision.scaler.scale(loss * count).backward()  # type: ignore[no-untyped-call]
            total, tokens = total + loss.detach() * count, tokens + count
        self.precision.scaler.unscale_(self.optimizer)
        if self.workers.count > 1:
            total, tokens = self.workers.sum(total), int(self.workers.sum(torch.tensor(tokens)))
        # DDP has already divided the summed gradients by the number of processes
        norm = clip_gradients(self.network.parameters(), self.optimizer_config.clip_norm, tokens / self.workers.count)
        return total, norm, tokens

    def _read_updates(self) -> None:
        """Reports all updates since the last reading. TrainingError at the first non-finite one: on a CPU before the
        weights follow it, elsewhere before the next snapshot."""
        updates, self._unread = self._unread, []
        if not updates:
            return
        numbers = [number for update in updates for number in (update.loss, update.norm)]
        read = torch.stack(numbers).tolist()  # a GPU's in one copy
        for update, loss, norm in zip(updates, read[::2], read[1::2], strict=True):
            for what, value in (("loss", loss), ("gradient", norm)):
                if not math.isfinite(value):
                    raise TrainingError(
                        f"The {what} became {value} at update {update.number}: {DIVERGENCE_ADVICE} (the rate was"
                        f" {update.learning_rate:.2g})."
                    )
            tokens = update.tokens
            self.progress.epoch_loss += loss
            self.progress.epoch_tokens += tokens
            self.progress.loss_since += loss
            self.progress.tokens_since += tokens
            self.report.step(update.number, update.epoch, loss / tokens, tokens, update.learning_rate, update.fraction)

    def _end_of_epoch(self) -> None:
        progress = self.progress
        self._read_updates()
        progress.last_epoch_loss = progress.epoch_loss / max(progress.epoch_tokens, 1)
        self.epoch_losses.append(progress.last_epoch_loss)
        self.report.log(progress.seconds)
        progress.epoch += 1
        progress.batch, progress.epoch_loss, progress.epoch_tokens = 0, 0.0, 0
        self._validate_if_due(progress.epoch)
        self._save()

    def _validate_if_due(self, epoch: int | None = None) -> None:
        """epoch: the number of finished epochs at the end of an epoch, None inside one."""
        config, update = self.config, self.progress.update
        due = bool(config.validate_every_updates and update and update % config.validate_every_updates == 0)
        if epoch is not None and config.validate_every_epochs:
            due = due or epoch % config.validate_every_epochs == 0 or epoch == config.max_epochs
        if due:
            self._validate()

    def _validate_if_clock_asks(self) -> None:
        """The decision is saved before the validation, so that a resumed run validates at the same update."""
        progress = self.progress
        if progress.clock_validation != progress.update:
            if not self.planner.asks_for_validation(progress):
                return
            progress.clock_validation = progress.update
            self._save(force=True)
        self._validate()

    def _validate(self) -> None:
        """Validates, at most once per update."""
        progress = self.progress
        if progress.validated == progress.update:
            return
        self._read_updates()
        progress.validated = progress.update
        with self.average.applied():
            validation = self.workers.on_rank_0(self._measure)
        self._note_backend()
        if self.config.max_minutes is not None:
            self._measure_times()
        if validation is None:
            return
        cooled = False
        # weights of an equal BLEU and a lower loss are kept, and are no gain: a BLEU of 100 would never end a run
        gains = not validation.bleu or validation.bleu != progress.best_bleu
        if self.best.offer(validation.cost(self.config.choose_by), progress.update, self._averaged_weights):
            progress.best_loss, progress.best_bleu = validation.loss, validation.bleu
            progress.best_update = progress.update
        else:
            gains = False
        if gains:
            progress.without_gain = 0
        else:
            progress.without_gain += 1
            # the cool-down starts from the best weights: later ones brought no gain
            if self.planner.cools_down(progress) and (best := self.workers.on_rank_0(self.best.best)) is not None:
                self.network.load_state_dict(best)
                self.average.restart()
                cooled = True
        row = progress_row(progress)
        self.report.validation(row, validation)
        self.report.samples(row, validation.samples)
        self._watch_loss(validation.loss)
        if cooled:
            back = f"back to the weights of update {progress.best_update:,}, from which the learning rate falls"
            reason = f"{pluralize(self.config.patience, 'validation')} without a gain: {back}"
            self.report.event({**row, "from_update": progress.best_update}, "cool-down", reason)
            self.report.note(f"Update {progress.update:,}: {reason}.")

    def _watch_loss(self, held_out: float) -> None:
        """Counts validations in a row in which the loss has risen: that of held-out texts and that of training, for
        held-out loss alone rises with overfitting too. TrainingError where no weights are worth keeping."""
        progress, config = self.progress, getattr(self.network, "config", None)
        tokens = getattr(config, "target_vocabulary", None) or getattr(config, "vocabulary", None)
        chance = math.log(tokens) if tokens else math.inf  # the loss if every token is as likely as another
        most = min(chance + ABOVE_CHANCE, progress.least_loss + ABOVE_BEST)
        trained = progress.loss_since / progress.tokens_since if progress.tokens_since else 0.0
        rises = min(held_out, trained) > most and not self.planner.warms_up(progress.update)
        progress.rising = progress.rising + 1 if rises and held_out > progress.least_loss else 0
        progress.least_loss = min(progress.least_loss, held_out)
        progress.loss_since, progress.tokens_since = 0.0, 0
        if progress.rising >= RISING_VALIDATIONS and (not progress.best_update or progress.least_loss > chance - 0.1):
            raise TrainingError(
                f"The loss rises: {held_out:.2f} nats per held-out token at update {progress.update:,}, and"
                f" {progress.least_loss:.2f} in the best validation; {DIVERGENCE_ADVICE} (the rate's peak is"
                f" {self.optimizer_config.learning_rate:.2g})."
            )

    def _measure_times(self) -> None:
        """The seconds of a validation that has just ended, and an estimate of what will follow the last update."""
        progress, started_s, closing = self.progress, self.progress.seconds, self.closing
        self._tick()
        progress.validations, progress.validation_s = progress.validations + 1, progress.seconds - started_s
        if closing is not None:
            with torch.inference_mode():
                self.network.eval()
                self.planner.pace.closing_s = self.workers.on_rank_0(lambda: closing(progress.validation_s))
        progress.validated_at_s = progress.seconds

    def _measure(self) -> Validation | None:
        """Validates the current weights; None without a held-out set."""
        self.network.eval()
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices), torch.inference_mode():  # leaves training's random state unchanged
            loss = self.task.validate()
            if loss is None:
                return None
            return self.validator(loss) if self.validator else Validation(loss)

    def _averaged_weights(self) -> Weights:
        with self.average.applied():
            return {name: t.detach().clone() for name, t in self.network.state_dict().items()}

    def _outcome(self, ended_by: str) -> Outcome:
        """The best validated weights, or the mean of several if it validates better; on the process that writes."""
        progress = self.progress
        outcome = Outcome(self._averaged_weights(), progress, ended_by, self.epoch_losses, backend=self.backend)
        best = self.best.best() if self.workers.writes else None
        if best is None:
            return outcome
        outcome.weights, outcome.chosen = best, f"the weights of update {progress.best_update:,}"
        if not progress.best_update:
            outcome.chosen = "the starting weights"
        outcome.validation = Validation(progress.best_loss, progress.best_bleu)
        if len(self.best.kept) > 1:
            mean, last = self.best.mean(), {name: t.clone() for name, t in self.network.state_dict().items()}
            self.network.load_state_dict(mean)
            validation = self._measure()
            self.network.load_state_dict(last)
            if validation and validation.cost(self.config.choose_by) < self.best.kept[0][0]:
                outcome.weights, outcome.validation = mean, validation
                updates = ", ".join(f"{update:,}" for update in sorted(update for _, update in self.best.kept))
                outcome.chosen = f"the mean of the {len(self.best.kept)} best validated weights (updates {updates})"
        if outcome.weights is best and progress.update > progress.best_update == 0:
            self.report.note(NO_GAIN)
        return outcome

    def _save(self, *, force: bool = False) -> None:
        """Never saves weights that are nan or infinite: the previous snapshot stays."""
        if self.folder is None or (not force and self.progress.seconds - self._saved < SNAPSHOT_EVERY_S):
            return
        self._read_updates()
        norms = torch._foreach_norm([p.detach() for p in self.network.parameters() if p.is_floating_point()])
        if not torch.stack(norms).isfinite().all():
            update = self.progress.update
            raise TrainingError(f"The weights are no numbers any more at update {update}: {DIVERGENCE_ADVICE}.")
        self._tick()
        state = self._state()  # collected from all processes
        if self.workers.writes:
            snapshot.save(self.folder, state)
            self.best.sweep()
        self._saved = self.progress.seconds

    def _state(self) -> snapshot.State:
        """The snapshot: tensors and plain values. The best weights are in separate files."""
        return {
            "progress": asdict(self.progress),
            "plan": asdict(self.planner.plan),
            "pace": asdict(self.planner.pace),
            "limits": (self.config.max_epochs, self.config.max_minutes, self.config.patience),
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "precision": self.precision.state(),
            "machine": self._machine(),
            "average": self.average.values,
            "best": self.best.kept,
            "carried": self.task.carried(),
            "random": self.workers.gather(random_state(self.device)),
            "logged": (self.report.loss, self.report.tokens, self.report.last),
            "fingerprint": self.fingerprint,
            "vocabulary": self.vocabulary,
            "launches": self.workers.launches,
        }

    def _machine(self) -> str:
        """Everything that affects the order of additions, and so a sum's last bits, or random draws."""
        number_format = self.precision.format
        threads = f", {pluralize(torch.get_num_threads(), 'thread')}" if self.device.type == "cpu" else ""
        processes = f", {self.workers.count} processes" if self.workers.count > 1 else ""
        kernels = kernels_of(self.task) if number_format == "fp32" else ""
        backend = backend_of(self.task)
        named = f", kernels {kernels}" if kernels else ", compiled" if backend and backend.compiled else ""
        return f"{number_format} on {self.device.type}{threads}{processes}, torch {torch.__version__}{named}"

    def _restore(self) -> None:
        """Raises TrainingError if the snapshot is missing, unreadable, or of another run."""
        folder = self.folder
        assert folder is not None
        state = self.workers.on_rank_0(lambda: snapshot.load(folder))
        other = "; ".join(self.changed) or "another recipe, corpus or seed"
        another = f"{folder} was trained with {other}; resume it with the same."
        if checkpoints.is_checkpoint(folder):
            another = f"{another[:-1]}, or train its model on other data with --from {folder} and another --out."
        if state.get("fingerprint") != self.fingerprint:
            raise TrainingError(another)
        if state.get("vocabulary") != self.vocabulary:
            raise TrainingError(
                f"{folder} was trained with another vocabulary than this version makes of the same corpus; resume it"
                " with the versions of Parlance and SentencePiece that began it, or start anew with another --out."
            )
        try:
            self.network.load_state_dict(state["network"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.progress = Progress(**state["progress"])
            self.planner.plan, self.planner.pace = SchedulePlan(**state["plan"]), MeasuredPace(**state["pace"])
            self.precision.restore(state["precision"])
            self.average.values = [value.to(self.device) for value in state["average"]]
            self.best.restore(state["best"])
            self.task.restore(state["carried"])
            restore_random_state(state["random"], self.workers.rank, self.device)
            loss, tokens, last = state["logged"]
            machine, limits_then = state["machine"], tuple(state["limits"])
        except TrainingError:
            raise
        except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
            problem = "does not fit the code of this run, or is damaged"  # its options and corpus are the same
            raise snapshot.unusable(folder / snapshot.FOLDER / snapshot.FILE, problem) from error
        self.report.resumed(self.progress.update, loss, tokens, last, self.progress.validated)
        if machine != self._machine() and self.workers.writes:
            self.report.note(
                f"This run goes on as {self._machine()} and was {machine} before: a sound run, though not bit"
                " for bit what it would have been."
            )
        limits = (self.config.max_epochs, self.config.max_minutes, self.config.patience)
        self.limits_changed = limits_then != limits
        if self.limits_changed and not 0 < self.config.patience <= self.progress.without_gain:
            self.progress.cooling = False  # increased patience has not run out yet
