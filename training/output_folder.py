"""The folder that a run writes: who may write to it, and how a finished model is put there."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from safetensors import SafetensorError
from torch import nn

from models import checkpoint as checkpoints
from models.checkpoint import CheckpointConfig
from models.networks import loading
from models.tokenizer import Tokenizer
from training.config import run_file
from training.errors import TrainingError
from training.loop import snapshot
from training.report.curve_plot import draw_curves
from training.report.progress_report import read_rows

CORPUS_REPORT = "corpus.json"  # what cleaning left out of the corpus
STAGING_FOLDER = ".staging"  # where the files of a model are made, before they are moved to the folder itself


@contextlib.contextmanager
def claim_output_folder(out: Path, *, resume: bool) -> Iterator[None]:
    """`out` exists, suits this run, and is this run's alone until the block ends; TrainingError otherwise.

    The lock is the operating system's, so it cannot outlive a killed run.
    """
    check_output_folder(out, resume=resume)
    made = [folder for folder in (out, *out.parents) if not folder.exists()]
    try:
        out.mkdir(parents=True, exist_ok=True)
        with (out / ".lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise TrainingError(f"Another run is writing to {out}; wait for it or choose another --out.") from None
            try:
                yield
            finally:
                (out / ".lock").unlink(missing_ok=True)
    except BaseException:  # a run that failed before it had saved or logged anything leaves no traces
        with contextlib.suppress(OSError):  # the first error is the one to report
            if out.exists() and {path.name for path in out.iterdir()} <= {run_file.RUN_FILE, CORPUS_REPORT}:
                for name in (run_file.RUN_FILE, CORPUS_REPORT):
                    (out / name).unlink(missing_ok=True)
            for folder in made:
                folder.rmdir()  # of an empty folder only
        raise


def check_output_folder(out: Path, *, resume: bool) -> None:
    """TrainingError unless a run may write to `out`."""
    if out.exists() and not out.is_dir():
        raise TrainingError(f"{out} is a file; --out names a folder.")
    if resume and not snapshot.exists(out):
        raise TrainingError(f"{out} has no run to resume; leave --resume out to start one.")
    if not resume and checkpoints.is_checkpoint(out):
        raise TrainingError(f"{out} already holds a model; choose another --out, or go on with --resume.")
    if not resume and snapshot.exists(out):
        raise TrainingError(f"{out} holds an unfinished run; go on with --resume, or choose another --out.")
    if not resume and (out / "README.md").exists():
        raise TrainingError(f"{out} holds a README.md, which the model card would overwrite; choose another --out.")


@contextlib.contextmanager
def staging_folder(out: Path) -> Iterator[Path]:
    folder = out / STAGING_FOLDER
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def save_weights(network: nn.Module, folder: Path, out: Path) -> None:
    """Into `folder`, from where they go to `out`."""
    try:
        loading.save_weights(network, folder / checkpoints.WEIGHTS)
    except SafetensorError as error:  # no OSError, but the disk is what fails here
        raise OSError(f"{out / checkpoints.WEIGHTS} could not be saved ({error})") from error


def publish(
    out: Path, config: CheckpointConfig, tokenizers: Mapping[str, Tokenizer], network: nn.Module, card: str
) -> None:
    """Weights, curves and card are made aside and then moved over; see `models.checkpoint.write`."""
    with staging_folder(out) as folder:
        save_weights(network, folder, out)
        draw_curves(read_rows(out / "metrics.jsonl"), folder / "curves.png")
        (folder / "README.md").write_text(card, encoding="utf-8")
        checkpoints.write(folder, out, config, tokenizers)
