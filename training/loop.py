"""The loop: step, validate, keep the best, save, resume. It knows neither languages nor lyrics: a `Task` does."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from training import generators, snapshot
from training import optimizer as optimizers
from training.averaging import MovingAverage
from training.config import LoopConfig, OptimizerConfig
from training.errors import TrainingError
from training.parallel import Workers, launch
from training.report import Report

SNAPSHOT_EVERY_S = 60.0
LOG_EVERY_UPDATES = 50


class Task(Protocol):
    """What is trained. Batches of an epoch depend on (seed, epoch) alone."""

    @property
    def network(self) -> nn.Module: ...

    def batches(self, epoch: int) -> Sequence[Any]: ...

    def loss(self, batch: Any) -> tuple[Tensor, int]:
        """The mean loss of a batch to descend, and how many tokens it counts."""
        ...

    def validate(self) -> float | None:
        """Nats per token on the held-out set; None where there is none."""
        ...

    def part(self, batch: Any, rank: int, count: int) -> Any | None:
        """Rows rank, rank + count, ... of a batch; None where there are none."""
        ...

    def carried(self) -> dict[str, Tensor]:
        """What goes from batch to batch beside the weights; a batch's rows are dimension 1."""
        ...

    def restore(self, carried: dict[str, Tensor]) -> None: ...


@dataclass(slots=True)
class Progress:
    """Where a run stands; saved in every snapshot."""

    epoch: int = 0  # finished ones
    batch: int = 0  # finished in the running epoch
    update: int = 0
    seconds: float = 0.0
    best_loss: float = math.inf
    best_update: int = 0
    without_gain: int = 0
    epoch_loss: float = 0.0  # sums over the running epoch
    epoch_tokens: int = 0
    last_epoch_loss: float = math.nan  # mean training loss of the last whole epoch


@dataclass(slots=True)
class Outcome:
    """The weights to keep, and how they came about."""

    weights: dict[str, Tensor]
    progress: Progress
    ended_by: str
    epoch_losses: list[float] = field(default_factory=list)  # mean training loss of each epoch of this session


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
        workers: Workers | None = None,
    ) -> None:
        """fingerprint: of all that a resumed run must have in common with the snapshot. workers: the processes that
        `task` is shared by; None: this one alone."""
        self.task, self.network, self.config, self.report = task, task.network, config, report
        self.optimizer_config, self.folder, self.device = optimizer, folder, device
        self.fingerprint, self.workers = fingerprint, workers or Workers()
        self.optimizer = optimizers.build(optimizer, task.network)
        self.average = MovingAverage(task.network, config.average_decay)
        self.progress, self.best = Progress(), dict[str, Tensor]()
        self.losses: list[float] = []
        self.bf16 = config.precision == "bf16" or (
            config.precision == "auto" and device.type == "cuda" and torch.cuda.is_bf16_supported()
        )

    def run(self, *, resume: bool = False) -> Outcome:
        """Train until the first limit. With `resume`, go on exactly where the snapshot stands."""
        if resume:
            self._restore()
        self._started = time.monotonic() - self.progress.seconds
        self._saved = self.progress.seconds
        ended_by = self._epochs()
        if self.progress.batch:  # stopped inside an epoch: what was learnt since the last validation counts too
            self._validate()
        self._save(force=True)
        weights = self.best or self._weights()
        return Outcome(weights, self.progress, ended_by, self.losses)

    def _epochs(self) -> str:
        progress = self.progress
        while progress.epoch < self.config.max_epochs:
            if self.config.patience and progress.without_gain >= self.config.patience:
                return f"{self.config.patience} validations without a gain"
            batches = self.task.batches(progress.epoch)
            if not batches:
                raise TrainingError("This corpus is too small for a single batch of this recipe.")
            for batch in batches[progress.batch :]:
                if self._out_of_time():
                    return f"the limit of {self.config.max_minutes:g} minutes"
                self._step(batch, len(batches))
                if progress.batch < len(batches):
                    self._save()
            self._end_of_epoch()
        return f"the limit of {self.config.max_epochs} epochs"

    def _out_of_time(self) -> bool:
        self.progress.seconds = self.workers.first(time.monotonic() - self._started)
        limit = self.config.max_minutes
        return limit is not None and self.progress.seconds >= limit * 60

    def _fraction(self, batches_per_epoch: int) -> float:
        """How much of the run is over, by whichever limit comes first."""
        by_updates = self.progress.update / (self.config.max_epochs * batches_per_epoch)
        limit = self.config.max_minutes
        return min(1.0, max(by_updates, self.progress.seconds / (limit * 60) if limit else 0.0))

    def _step(self, batch: Any, batches_per_epoch: int) -> None:
        progress = self.progress
        self.network.train()
        fraction = self._fraction(batches_per_epoch)
        rate = optimizers.rate(self.optimizer_config, progress.update + 1, fraction)
        optimizers.apply_rate(self.optimizer, rate)
        with self._autocast():
            loss, tokens = self.task.loss(batch)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizers.clip(self.network.parameters(), self.optimizer_config.clip_norm)
        self.optimizer.step()
        progress.update += 1
        progress.batch += 1
        self.average.update(progress.update)
        value = self.workers.mean(loss.item())
        if not math.isfinite(value):
            raise TrainingError(f"The loss became {value} at update {progress.update}: lower the learning rate.")
        progress.epoch_loss += value * tokens
        progress.epoch_tokens += tokens
        self.report.step(progress.update, progress.epoch, value, tokens, rate, fraction)
        if progress.update % LOG_EVERY_UPDATES == 0:
            self.report.log(progress.seconds)

    def _autocast(self) -> contextlib.AbstractContextManager[Any]:
        if self.bf16:
            return torch.autocast(self.device.type, dtype=torch.bfloat16)
        return contextlib.nullcontext()

    def _end_of_epoch(self) -> None:
        progress = self.progress
        progress.last_epoch_loss = progress.epoch_loss / progress.epoch_tokens
        self.losses.append(progress.last_epoch_loss)
        self.report.log(progress.seconds)
        progress.epoch += 1
        progress.batch, progress.epoch_loss, progress.epoch_tokens = 0, 0.0, 0
        if progress.epoch % self.config.validate_every_epochs == 0 or progress.epoch == self.config.max_epochs:
            self._validate()
        self._save()

    def _validate(self) -> None:
        self.network.eval()
        with self.average.applied(), torch.inference_mode():
            loss = self.task.validate()
            if loss is None:
                return
            if loss < self.progress.best_loss:
                self.progress.best_loss, self.progress.best_update = loss, self.progress.update
                self.progress.without_gain = 0
                self.best = self._weights()
            else:
                self.progress.without_gain += 1
        self.report.validation(self.progress.update, loss, self.progress.seconds)

    def _weights(self) -> dict[str, Tensor]:
        """A copy of the averaged weights, outside inference mode so that they can be trained on."""
        with torch.inference_mode(False), self.average.applied():
            return {name: t.detach().clone() for name, t in self.network.state_dict().items()}

    def _save(self, *, force: bool = False) -> None:
        if self.folder is None:
            return
        self.progress.seconds = self.workers.first(time.monotonic() - self._started)
        if not force and self.progress.seconds - self._saved < SNAPSHOT_EVERY_S:
            return
        state = self._state()  # every process has something to say here
        if self.workers.writes:
            snapshot.save(self.folder, state)
        self._saved = self.progress.seconds

    def _state(self) -> dict[str, Any]:
        return {
            "progress": {name: getattr(self.progress, name) for name in Progress.__slots__},
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "average": self.average.values,
            "best": self.best,
            "carried": self.task.carried(),
            "random": self.workers.gather(generators.states(self.device)),
            "logged": (self.report.loss, self.report.tokens),
            "fingerprint": self.fingerprint,
            "launch": launch(),
        }

    def _restore(self) -> None:
        assert self.folder is not None
        folder = self.folder
        state = self.workers.given(lambda: snapshot.load(folder))
        try:
            if state["fingerprint"] != self.fingerprint:
                raise ValueError("another fingerprint")
            self.network.load_state_dict(state["network"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.progress = Progress(**state["progress"])
        except (KeyError, RuntimeError, TypeError, ValueError) as error:
            raise TrainingError(
                f"{self.folder} was trained with another recipe, corpus or seed; resume it with the same ones."
            ) from error
        self.average.values = [value.to(self.device) for value in state["average"]]
        self.best = state["best"]
        self.task.restore(state["carried"])
        generators.restore(state["random"], self.workers.rank, self.device)
        self.report.resumed(self.progress.update, *state["logged"])
