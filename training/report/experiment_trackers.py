"""Experiment trackers to which a run reports its metrics besides its own folder: TensorBoard, Weights & Biases,
MLflow."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from training.config.run_file import dotted
from training.errors import TrainingError
from training.loop.progress import Sample

EVENTS_FOLDER = "events"  # of TensorBoard, in the run's folder
RUNS_FILE = Path("resume") / "trackers.json"  # tracker -> the run's name there, for a resume
METRIC_NAMES = {
    "loss": "loss/training",
    "valid_loss": "loss/held_out",
    "valid_loss_general": "loss/held_out_general",
    "valid_perplexity": "perplexity/held_out",
    "valid_bleu": "BLEU/held_out",
    "rate": "learning_rate",
    "tokens_per_second": "tokens_per_second",
}
PACKAGES = {
    "tensorboard": ("tensorboardX", "tensorboardX"),
    "wandb": ("wandb", "wandb"),
    "mlflow": ("mlflow", "mlflow"),
}
# option -> module, package


class ExperimentTracker(Protocol):
    """One run at a tracker. `metrics` have the names of METRIC_NAMES."""

    def log(self, update: int, metrics: Mapping[str, float]) -> None: ...

    def log_samples(self, update: int, samples: Sequence[Sample], markdown: str) -> None:
        """samples: (source, reference, output). markdown: the same as a table."""

    def resumed(self, update: int) -> None:
        """The run resumes at `update`; metrics of later updates will be logged a second time."""

    def close(self, *, finished: bool) -> None:
        """finished: the run came to its end; otherwise it was stopped or failed."""


def tracker_problems(wanted: Mapping[str, str]) -> Iterator[str]:
    """A sentence for each wanted tracker whose package is missing."""
    for name in wanted:
        module, package = PACKAGES[name]
        if find_spec(module) is None:
            yield f"--{name} needs the package {package}: pip install {package}"


def open_trackers(
    wanted: Mapping[str, str], folder: Path, options: Mapping[str, Any], *, resume: bool
) -> dict[str, ExperimentTracker]:
    """wanted: tracker -> its project or experiment. folder: of the run, which has its name there. options: of the run,
    in nested tables. resume: go on with the run that this folder had there. TrainingError if a tracker refuses."""
    runs, config = RunNames(folder / RUNS_FILE, resume=resume), dict(dotted(options))
    opened: dict[str, ExperimentTracker] = {}
    for name, project in wanted.items():
        try:
            if name == "tensorboard":
                opened[name] = TensorBoardEvents(folder / EVENTS_FOLDER)
            elif name == "wandb":
                opened[name] = WandbRun(project, folder.resolve().name, config, runs)
            else:
                opened[name] = MlflowRun(project, folder.resolve().name, config, runs)
        except Exception as error:  # each tracker has exceptions of its own, and those of its HTTP client
            for tracker in opened.values():
                tracker.close(finished=False)
            raise TrainingError(f"--{name}: {first_sentence(error)}. {WAYS_OUT[name]}") from error
    return opened


WAYS_OUT = {
    "tensorboard": "Leave the option out to train without it.",
    "wandb": "Log in with `wandb login`, or set WANDB_MODE=offline and send the run later with `wandb sync`.",
    "mlflow": "Set MLFLOW_TRACKING_URI to a server that can be reached; a database of one's own needs the whole package"
    " mlflow (pip install mlflow).",
}


def first_sentence(error: Exception) -> str:
    """Without its full stop."""
    return re.split(r"\.(?:\s|$)", " ".join(str(error).split()))[0] or type(error).__name__


class RunNames:
    """The names that trackers gave this run, kept in its folder so that a resumed run goes on there."""

    def __init__(self, path: Path, *, resume: bool) -> None:
        self.path = path
        self.names: dict[str, str] = json.loads(path.read_text("utf-8")) if resume and path.exists() else {}

    def keep(self, tracker: str, name: str) -> None:
        self.names[tracker] = name
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_text(json.dumps(self.names), encoding="utf-8")


class TensorBoardEvents:
    """tensorboardX's writer needs numpy, packaging and protobuf; TensorBoard's own also a web server and gRPC."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._writer: Any = None

    def log(self, update: int, metrics: Mapping[str, float]) -> None:
        for name, value in metrics.items():
            self._open().add_scalar(name, value, update)

    def log_samples(self, update: int, samples: Sequence[Sample], markdown: str) -> None:
        self._open().add_text("samples", markdown, update)

    def resumed(self, update: int) -> None:
        # it hides events of an earlier session about later updates
        self._open(purge_step=update + 1, filename_suffix=f".from-{update + 1}")

    def close(self, *, finished: bool) -> None:
        if self._writer is not None:
            self._writer.close()

    def _open(self, **options: Any) -> Any:
        if self._writer is None:
            from tensorboardX import SummaryWriter

            self._writer = SummaryWriter(str(self.folder), **options)
        return self._writer


class WandbRun:
    """A run of Weights & Biases, set up by its own variables (WANDB_MODE, WANDB_ENTITY, WANDB_DIR, ...)."""

    def __init__(self, project: str, name: str, config: Mapping[str, Any], runs: RunNames) -> None:
        import wandb

        self._wandb = wandb
        self._run = wandb.init(
            project=project, name=name, config=dict(config), id=runs.names.get("wandb"), resume="allow"
        )
        runs.keep("wandb", self._run.id)
        # W&B's own step may not fall, but a resumed run goes back to its snapshot
        self._run.define_metric("update", hidden=True)
        self._run.define_metric("*", step_metric="update")

    def log(self, update: int, metrics: Mapping[str, float]) -> None:
        self._run.log({"update": update, **metrics})

    def log_samples(self, update: int, samples: Sequence[Sample], markdown: str) -> None:
        table = self._wandb.Table(columns=["source", "reference", "output"], data=[list(sample) for sample in samples])
        self._run.log({"update": update, "samples": table})

    def resumed(self, update: int) -> None:
        pass  # repeated points have their update

    def close(self, *, finished: bool) -> None:
        self._run.finish(exit_code=0 if finished else 1)


class MlflowRun:
    """A run of MLflow, at MLFLOW_TRACKING_URI."""

    def __init__(self, experiment: str, name: str, config: Mapping[str, Any], runs: RunNames) -> None:
        from mlflow import MlflowClient
        from mlflow.entities import Metric, Param

        self._client, self._metric = MlflowClient(), Metric
        if "mlflow" in runs.names:
            self._run = runs.names["mlflow"]
            self._client.update_run(self._run, status="RUNNING")
        else:
            found = self._client.get_experiment_by_name(experiment)
            at = self._client.create_experiment(experiment) if found is None else found.experiment_id
            self._run = self._client.create_run(at, run_name=name).info.run_id
            params = [Param(key, str(value)) for key, value in config.items()]
            self._client.log_batch(self._run, params=params)
            runs.keep("mlflow", self._run)

    def log(self, update: int, metrics: Mapping[str, float]) -> None:
        now = round(time.time() * 1000)
        self._client.log_batch(
            self._run, metrics=[self._metric(key, value, now, update) for key, value in metrics.items()]
        )

    def log_samples(self, update: int, samples: Sequence[Sample], markdown: str) -> None:
        self._client.log_text(self._run, markdown, f"samples/update-{update}.md")

    def resumed(self, update: int) -> None:
        pass  # repeated points have their update

    def close(self, *, finished: bool) -> None:
        self._client.set_terminated(self._run, "FINISHED" if finished else "KILLED")
