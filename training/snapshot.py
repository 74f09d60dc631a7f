"""Files for an exact resume, in the folder `resume` of a run.

Each file is written aside, fsynced and renamed, so that a kill or a power cut leaves the old file or the new one. They
hold tensors and plain values only and are read with `weights_only`, so that they cannot run code."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from training.errors import TrainingError

State = dict[str, Any]  # tensors and plain values; see `Trainer`
FOLDER, FILE = "resume", "state.pt"
LIMITS = ("max_epochs", "max_minutes", "patience", "cooldown")  # fields of LoopConfig that a resume may change


def fingerprint(config: Mapping[str, Any], texts: Iterable[Iterable[str]]) -> str:
    """SHA-256 of everything a resumed run must share with its snapshot: the config except `LIMITS`, and the texts."""
    loop = {name: value for name, value in config["loop"].items() if name not in LIMITS}
    digest = hashlib.sha256(json.dumps({**config, "loop": loop}, sort_keys=True).encode())
    for text in texts:
        for line in text:
            digest.update(line.encode() + b"\n")
        digest.update(b"\0")  # does not occur in texts
    return digest.hexdigest()


def write(path: Path, state: State) -> None:
    """Writes atomically. Raises OSError, with the disk's errno if known, if the file cannot be written."""
    aside = path.with_name(f"{path.name}.new")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with aside.open("wb") as file:  # given a path, torch hides the reason of a failed write
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
    except (OSError, RuntimeError) as error:
        aside.unlink(missing_ok=True)
        number = getattr(error if isinstance(error, OSError) else error.__context__, "errno", None)
        message = f"{path} could not be saved ({error})"
        raise (OSError(number, message, str(path)) if number else OSError(message)) from error
    aside.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)  # else a power cut may undo the rename
    finally:
        os.close(directory)


def read(path: Path) -> State:
    """Raises TrainingError if the file is missing, unreadable or holds something else."""
    try:
        state: State = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise unusable(path, f"cannot be read ({(error.strerror or str(error)).lower()})") from error
    except Exception as error:  # of zip files, pickles and tensors, with advice for programmers
        raise unusable(path, "is damaged and cannot be read") from error
    if not isinstance(state, dict):
        raise unusable(path, "is no snapshot of a run")
    return state


def unusable(path: Path, problem: str) -> TrainingError:
    """problem: of a file in the folder `resume`, which no run can go on from."""
    return TrainingError(f"{path} {problem}: restore it from a copy, or begin anew with another --out.")


def save(run_folder: Path, state: State) -> None:
    write(run_folder / FOLDER / FILE, state)


def exists(run_folder: Path) -> bool:
    return (run_folder / FOLDER / FILE).is_file()


def load(run_folder: Path) -> State:
    """The latest snapshot. TrainingError if it is missing or unreadable."""
    if not exists(run_folder):
        raise TrainingError(f"{run_folder} has no run to resume; leave --resume out to start one.")
    return read(run_folder / FOLDER / FILE)
