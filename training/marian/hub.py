"""Where the folder is: on this machine, or on the hub of Hugging Face."""

from __future__ import annotations

import re
from pathlib import Path

from training.errors import TrainingError
from training.marian.folder import PICKLE, SAFETENSORS, MarianFolder, first_line

NAME = re.compile(r"[\w.-]+/[\w.-]+")
SMALL = ["*.json", "*.spm", "README.md"]


def marian_folder(given: str) -> MarianFolder:
    """given: a folder, or a name such as Helsinki-NLP/opus-mt-de-en, whose files are then fetched into the hub's own
    cache: those that an import reads, and no others."""
    path = Path(given)
    if path.is_dir():
        return MarianFolder(path, path.resolve().name)
    if path.exists() or not NAME.fullmatch(given):
        raise TrainingError(f"{given} is no folder, and no name on the hub such as Helsinki-NLP/opus-mt-de-en.")
    return MarianFolder(fetched(given), given)


def fetched(name: str) -> Path:
    try:
        from huggingface_hub import HfApi, snapshot_download
    except ImportError:
        raise TrainingError(
            f"There is no folder {name}; to fetch a model of that name from the hub, install huggingface_hub,"
            " or download its files and give their folder."
        ) from None
    try:
        files = HfApi().list_repo_files(name)
        weights = SAFETENSORS if SAFETENSORS in files else PICKLE
        return Path(snapshot_download(name, allow_patterns=[*SMALL, weights]))
    except Exception as error:  # the library's, its HTTP client's, the system's: the way out is the same
        raise TrainingError(
            f"{name} could not be fetched from the hub ({first_line(error)});"
            " download its files where there is a network and give their folder."
        ) from error
