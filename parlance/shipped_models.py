"""The models that come with this project: checkpoint folders in `checkpoints` beside this file. One that is named gets
a copy among the checkpoints that are served, so that it can be tuned, replaced or removed like any other."""

from __future__ import annotations

import shutil
from pathlib import Path

FOLDER = Path(__file__).parent / "checkpoints"


def shipped_names() -> list[str]:
    return sorted(path.parent.name for path in FOLDER.glob("*/config.json"))


def add_shipped_model(name: str, checkpoints: Path) -> Path:
    """Copies one of `shipped_names` into a folder of checkpoints that lacks it; readers find all of it or nothing.
    OSError where the folder cannot be written."""
    checkpoints.mkdir(parents=True, exist_ok=True)
    staged = checkpoints / f".{name}.copy"
    shutil.rmtree(staged, ignore_errors=True)
    try:
        shutil.copytree(FOLDER / name, staged)
        return staged.rename(checkpoints / name)
    finally:
        shutil.rmtree(staged, ignore_errors=True)
