"""Which weights a run keeps: averaged, measured on held-out data, and the best of them chosen."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from training.averaging import MovingAverage
from training.candidates import Candidates, Listed
from training.configuration.loop import LoopConfig
from training.progress import Outcome, Progress
from training.task import Task
from training.validation import Judge, Quality, Validation, apart
from training.workers import Workers


class Selection:
    """Progress is the loop's: what is found here is written there. folder: of the run, or None. judge: translates
    held-out sentences, where the task is to translate."""

    def __init__(
        self,
        task: Task,
        config: LoopConfig,
        *,
        folder: Path | None,
        device: torch.device,
        judge: Judge | None,
        workers: Workers,
    ) -> None:
        self.task, self.network, self.choose_by = task, task.network, config.choose_by
        self.device, self.judge, self.workers = device, judge, workers
        self.average = MovingAverage(task.network, config.average_decay)
        self.candidates = (Candidates if workers.writes else Listed)(folder, config.average_best)

    def measured(self) -> tuple[Validation | None, Quality]:
        """Of the averaged weights as they are; None where nothing is held out."""
        with self.average.applied():
            return self.workers.given(self._measure)

    def offer(self, measured: Validation, update: int) -> bool:
        """Whether the weights, of which this was measured, are the best so far."""
        return self.candidates.offer(measured.cost(self.choose_by), update, self._weights)

    def go_back(self) -> None:
        """To the best weights: what came after them was no gain, and the cool-down must not start from that."""
        best = self.workers.given(self.candidates.best)
        if best is not None:
            self.network.load_state_dict(best)
            self.average.restart()

    def outcome(self, ended_by: str, progress: Progress, losses: list[float]) -> Outcome:
        """The best validated weights, or the mean of several where it validates better; on the process that writes."""
        outcome = Outcome(self._weights(), progress, ended_by, losses)
        if not self.workers.writes:
            return outcome
        kept, best = self.candidates.kept, self.candidates.best()
        if best is None:
            return outcome
        outcome.weights, outcome.chosen = best, f"the weights of update {progress.best_update:,}"
        outcome.validation = Validation(progress.best_loss, progress.best_bleu)
        if len(kept) > 1:
            mean = self.candidates.mean()
            measured = self._measured_with(mean)
            if measured and measured.cost(self.choose_by) < kept[0][0]:
                outcome.weights, outcome.validation, outcome.chosen = mean, measured, self.candidates.named()
        return outcome

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

    def _measured_with(self, weights: dict[str, Tensor]) -> Validation | None:
        own = {name: t.clone() for name, t in self.network.state_dict().items()}
        self.network.load_state_dict(weights)
        measured, _ = self._measure()
        self.network.load_state_dict(own)
        return measured
