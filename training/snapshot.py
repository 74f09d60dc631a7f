"""All that an exact resume needs, written aside and then renamed: a kill at any moment leaves the old one or the
new one. Tensors and plain values only, read with `weights_only`, so that a snapshot cannot run code."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from training.errors import TrainingError

FOLDER, FILE = "resume", "state.pt"


def fingerprint(config: dict[str, Any], texts: Iterable[Iterable[str]]) -> str:
    """Of all that must stay the same for a resumed run to be the same run; only a run's limits may change."""
    kept = {**config, "loop": {name: config["loop"][name] for name in ("average_decay", "seed", "precision")}}
    digest = hashlib.sha256(json.dumps(kept, sort_keys=True).encode())
    for text in texts:
        for line in text:
            digest.update(line.encode() + b"\n")
        digest.update(b"\0")  # no text holds one
    return digest.hexdigest()


def save(run_folder: Path, state: dict[str, Any]) -> None:
    folder, new, old = (run_folder / f"{FOLDER}{suffix}" for suffix in ("", ".new", ".old"))
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    try:
        with (new / FILE).open("wb") as file:  # given a path, torch hides why it could not write
            torch.save(state, file)
    except (OSError, RuntimeError) as error:
        shutil.rmtree(new, ignore_errors=True)
        number = getattr(error if isinstance(error, OSError) else error.__context__, "errno", None)
        raise OSError(number, f"{folder} could not be saved ({error})") from error
    if folder.exists():  # else the old one is the only one, and stays until the new one is in its place
        shutil.rmtree(old, ignore_errors=True)
        folder.rename(old)
    new.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def exists(run_folder: Path) -> bool:
    return any((run_folder / f"{FOLDER}{suffix}" / FILE).is_file() for suffix in ("", ".old"))


def load(run_folder: Path) -> dict[str, Any]:
    """The newest snapshot. TrainingError if there is none or it cannot be read."""
    for suffix in ("", ".old"):  # a kill between the two renames leaves the old one only
        path = run_folder / f"{FOLDER}{suffix}" / FILE
        if path.is_file():
            try:
                state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
            except Exception as error:
                raise TrainingError(f"{path} cannot be read ({error}); start anew without --resume.") from error
            return state
    raise TrainingError(f"{run_folder} has no run to resume; leave --resume out to start one.")
