"""The parts shared by all runs: the output folder, and the trainer with its report."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

from models.tokenizer import Tokenizer
from training import output_folder, snapshot
from training.config import run_file
from training.config.run_config import LyricsConfig, TranslatorConfig
from training.data.tokenizer_training import tokenizer_digest
from training.distributed.process_group import Workers, check_same_run, seed_rank
from training.errors import CONSOLE, command_line, program
from training.evaluation.scores import Scores, score_summary
from training.loop.tasks import AnyTask, ShardedTask
from training.loop.trainer import Trainer
from training.progress import Closing, Outcome, Validator
from training.report.card_writer import hardware_summary
from training.report.progress_report import METRICS_FILE, SAMPLES_FILE, ProgressReport

PUBLISHING_S = 3.0  # of the curves, the card and the weights
SERVED_FOLDER = "checkpoints"  # what `make serve` and `parlance serve` serve


def loss_name(config: TranslatorConfig | LyricsConfig) -> str:
    """The name of what training minimizes; held-out losses are plain cross-entropy."""
    if isinstance(config, LyricsConfig):
        return "loss"
    return "label-smoothed loss" if config.label_smoothing else "loss"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRun:
    """Settings of a run. quiet: no progress bar. data: role (train, valid, test, corpus) -> corpus argument, for
    run.toml. licence: of the model, for its card. started: when the command began, in
    seconds of `time.monotonic`; a time limit counts from then on."""

    out: Path
    device: torch.device
    resume: bool = False
    quiet: bool = False
    workers: Workers = field(default_factory=Workers)
    data: Mapping[str, str | list[str]] = field(default_factory=dict)
    licence: str | None = None
    started: float | None = None

    @property
    def machine(self) -> str:
        """For the model card."""
        return hardware_summary(self.device, self.workers.count, self.workers.machines)

    def claimed(self) -> AbstractContextManager[None]:
        """Holds the output folder; see `output_folder.claim_output_folder`."""
        return output_folder.claim_output_folder(self.out, resume=self.resume) if self.workers.writes else nullcontext()

    def train(
        self,
        task: AnyTask,
        config: TranslatorConfig | LyricsConfig,
        *,
        title: str,
        texts: Iterable[Iterable[str]],
        tokenizers: Mapping[str, Tokenizer],
        validator: Validator | None = None,
        validates_start: bool = False,
        sentences: int = 0,
        closing: Closing | None = None,
    ) -> Outcome:
        """Runs the trainer; afterwards the task's network holds the weights to keep, in evaluation mode. title: of the
        progress bar. texts, tokenizers: must match the snapshot at a resume. validator, validates_start: as in
        `Trainer`; sentences: that its BLEU is measured on."""
        fingerprint = snapshot.fingerprint(asdict(config), texts)
        if self.workers.count > 1:
            check_same_run(self.workers, f"{fingerprint} {config.loop}")  # the fingerprint leaves out the limits
            task = ShardedTask(task, self.workers, self.device)
            seed_rank(config.loop.seed, self.workers.rank)
        writes = self.workers.writes
        if writes and not self.resume:  # this run would append to the logs of an earlier run
            for name in (METRICS_FILE, SAMPLES_FILE, "samples.md"):
                (self.out / name).unlink(missing_ok=True)
            self._write_run_file(config)
        folder, quiet = self.out if writes else None, self.quiet or not writes
        report = ProgressReport(folder, title, quiet=quiet, loss_name=loss_name(config), sentences=sentences)
        try:
            trainer = Trainer(
                task,
                config.optimizer,
                config.loop,
                folder=self.out,
                report=report,
                device=self.device,
                fingerprint=fingerprint,
                vocabulary=tokenizer_digest(tokenizers),
                changed=self._changed_options(config),
                validator=validator,
                workers=self.workers,
                elapsed_s=0.0 if self.started is None else time.monotonic() - self.started,
                closing=closing,
                validates_start=validates_start,
            )
            outcome = trainer.run(resume=self.resume)
            report.finished()
        finally:
            report.close()
        if writes:
            derived = {
                "number_format": trainer.precision.format,
                **({"fp32_products": trainer.precision.fp32_products} if self.device.type == "cuda" else {}),
                "kernels": trainer.backend,
                "processes": self.workers.count,
                "parameters": sum(parameter.numel() for parameter in task.network.parameters()),
                "vocabulary": {role: tokenizer.size for role, tokenizer in tokenizers.items()},
                **({"validated_sentences": sentences} if sentences else {}),
            }
            self._write_run_file(config, derived)  # a resumed run may have other limits than the previous session
        weights = outcome.weights
        if config.loop.half_weights:
            weights = {
                name: tensor.half().to(tensor.dtype) if tensor.is_floating_point() else tensor
                for name, tensor in weights.items()
            }
        task.network.load_state_dict(weights)
        task.network.eval()
        return outcome

    def _changed_options(self, config: TranslatorConfig | LyricsConfig) -> list[str]:
        """Of a resumed run."""
        limits = [f"loop.{name}" for name in snapshot.LIMITS]
        return run_file.changed_options(self.out / run_file.RUN_FILE, config, limits) if self.resume else []

    def report_end(self, outcome: Outcome, scores: Scores) -> None:
        """Prints the `closing_lines`, unless the run is quiet."""
        if not self.quiet:
            self.workers.note("\n".join(closing_lines(self.out, outcome, scores)))

    def _write_run_file(
        self, config: TranslatorConfig | LyricsConfig, derived: Mapping[str, object] | None = None
    ) -> None:
        text = run_file.run_file_text(config, self.data, self.device, self.workers.count, derived)
        (self.out / run_file.RUN_FILE).write_text(text, encoding="utf-8")


def closing_lines(out: Path, outcome: Outcome, scores: Scores) -> Iterator[str]:
    """The last lines for a reader: why the run ended, its scores, where the model lies and what comes next."""
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
