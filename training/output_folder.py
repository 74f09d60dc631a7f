"""The output folder of a run: exclusive access, and atomic publication of a finished model."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from safetensors import SafetensorError
from torch import nn

from models import checkpoint as checkpoints
from models.checkpoint import CheckpointConfig, NoticeRecord, StandInKinds
from models.networks import loading
from models.tokenizer import Tokenizer
from training import snapshot
from training.config import run_file
from training.errors import TrainingError
from training.report.progress_report import METRICS_FILE, draw_curves, read_rows

CORPUS_REPORT = "corpus.json"  # the cleaning report
STAGING_FOLDER = ".staging"  # model files are staged here before they move to the folder itself
RUN_MARK = ".parlance-run"  # in the folder of a run that is under way, or ended without a model and a snapshot
SYSTEM_FILES = ("lost+found", "Thumbs.db", "desktop.ini")  # of disks and desktops, beside hidden ones


@contextlib.contextmanager
def claim_output_folder(out: Path, *, resume: bool) -> Iterator[None]:
    """Creates and locks `out` until the block ends; TrainingError if it does not suit this run or another run holds it.
    The lock is the operating system's, so it cannot outlive a killed run; the locked file does, and marks the folder
    as a run's own."""
    check_output_folder(out, resume=resume)
    made = [folder for folder in (out, *out.parents) if not folder.exists()]
    try:
        out.mkdir(parents=True, exist_ok=True)
        with (out / RUN_MARK).open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                made = []
                raise TrainingError(f"Another run is writing to {out}; wait for it or choose another --out.") from None
            try:
                yield
            except BaseException:  # a run that fails before it saves or logs anything leaves no traces
                with contextlib.suppress(OSError):  # the first error is the one to report
                    _remove_traces(out)
                raise
            (out / RUN_MARK).unlink(missing_ok=True)
    except BaseException:
        with contextlib.suppress(OSError):
            for folder in made:
                folder.rmdir()  # only if empty
        raise


def _remove_traces(out: Path) -> None:
    """Empties `out` of what a run writes before its first log or snapshot, unless there is more."""
    traces = {RUN_MARK, run_file.RUN_FILE, CORPUS_REPORT}
    if snapshot.exists(out):
        (out / RUN_MARK).unlink()
        return
    if not {path.name for path in out.iterdir()} <= {*traces, snapshot.FOLDER}:
        return
    if (out / snapshot.FOLDER).exists():  # the copy of a starting point
        shutil.rmtree(out / snapshot.FOLDER)
    for name in traces:
        (out / name).unlink(missing_ok=True)


def check_output_folder(out: Path, *, resume: bool) -> None:
    """Raises TrainingError unless a run may write to `out`."""
    if out.exists() and not out.is_dir():
        raise TrainingError(f"{out} is a file; --out names a folder.")
    if resume and not snapshot.exists(out) and checkpoints.is_checkpoint(out):
        raise TrainingError(
            f"{out} holds a model without an unfinished run: to train it further, leave --resume out and give --from"
            f" {out} and another --out."
        )
    if resume and not snapshot.exists(out):
        raise TrainingError(f"{out} has no run to resume; leave --resume out to start one.")
    if not resume and checkpoints.is_checkpoint(out):
        unfinished = "go on with its run with --resume, " if snapshot.exists(out) else ""
        raise TrainingError(
            f"{out} already holds a model; {unfinished}choose another --out, or train this model on other data with"
            f" --from {out} and another --out."
        )
    if not resume and snapshot.exists(out):
        raise TrainingError(f"{out} holds an unfinished run; go on with --resume, or choose another --out.")
    if not resume and (others := _files_of_others(out)):
        named = ", ".join(others[:3]) + (", …" if len(others) > 3 else "")
        raise TrainingError(
            f"{out} holds files that no run has left there ({named}): choose a new or an empty folder for --out."
        )


def _files_of_others(out: Path) -> list[str]:
    """The names in a folder that is not a run's own."""
    if not out.exists() or (out / RUN_MARK).exists():
        return []
    names = sorted(path.name for path in out.iterdir())
    return [n for n in names if n == STAGING_FOLDER or not (n.startswith(".") or n in SYSTEM_FILES)]


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
    """Writes the weights into `folder`, to be moved to `out`."""
    try:
        loading.save_weights(network, folder / checkpoints.WEIGHTS)
    except SafetensorError as error:  # safetensors' error for a failed write
        raise OSError(f"{out / checkpoints.WEIGHTS} could not be saved ({error})") from error


def publish(
    out: Path,
    config: CheckpointConfig,
    tokenizers: Mapping[str, Tokenizer],
    network: nn.Module,
    card: str,
    notices: NoticeRecord | None = None,
    stand_ins: StandInKinds | None = None,
) -> None:
    """Stages weights, curves and card, then moves them; see `models.checkpoint.write`."""
    with staging_folder(out) as folder:
        save_weights(network, folder, out)
        draw_curves(read_rows(out / METRICS_FILE), folder / "curves.png")
        (folder / "README.md").write_text(card, encoding="utf-8")
        config = replace(config, edited_code=loading.edited_code(network))
        checkpoints.write(folder, out, config, tokenizers, notices or NoticeRecord(), stand_ins)
