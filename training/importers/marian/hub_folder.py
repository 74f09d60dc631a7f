"""A Marian checkpoint folder, local or from the Hugging Face Hub. Its code is never run."""

from __future__ import annotations

import json
import pickle
import re
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from training.errors import TrainingError

JsonObject = Mapping[str, Any]
"""As it stands in a file that others wrote."""
SAFETENSORS, PICKLE = "model.safetensors", "pytorch_model.bin"
CARD_FILE = "README.md"


@dataclass(frozen=True, slots=True)
class MarianFolder:
    """A checkpoint folder. name: the model's name on the Hub, or the folder's."""

    path: Path
    name: str

    def required(self, name: str) -> Path:
        path = self.path / name
        if not path.is_file():
            raise TrainingError(f"{path} is missing: {self.path} is not a whole Marian folder.")
        return path

    def object(self, name: str, *, required: bool = True) -> JsonObject:
        """The JSON object in a file; {} if the file is missing and not required."""
        path = self.path / name
        if not required and not path.is_file():
            return {}
        self.required(name)
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise TrainingError(f"{path} cannot be read as JSON ({error}).") from error
        if not isinstance(content, dict):
            raise TrainingError(f"{path} holds no JSON object.")
        return content

    def card(self) -> str:
        """The model card, or ""."""
        path = self.path / CARD_FILE
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""

    @property
    def weights(self) -> Path:
        """The file with the weights."""
        path = next((self.path / name for name in (SAFETENSORS, PICKLE) if (self.path / name).is_file()), None)
        if path is None:
            raise TrainingError(f"{self.path} holds neither {SAFETENSORS} nor {PICKLE}.")
        return path

    def tensors(self) -> Mapping[str, Tensor]:
        """Memory-mapped if the file format allows."""
        path = self.weights
        try:
            if path.name == SAFETENSORS:
                return load_file(path)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of pickles newer than torch's own
                tensors = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
        except pickle.UnpicklingError as error:
            raise TrainingError(f"{path} is damaged, or holds more than tensors; nothing of it was run.") from error
        except (SafetensorError, OSError, RuntimeError, EOFError, ValueError, KeyError, AssertionError) as error:
            raise TrainingError(f"{path} cannot be read ({first_line(error)}): get the file once more.") from error
        if not isinstance(tensors, dict) or not all(isinstance(value, Tensor) for value in tensors.values()):
            raise TrainingError(f"{path} holds something other than named tensors.")
        return dict(tensors)


def first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(" .")


HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
SMALL_FILES = ["*.json", "*.spm", "*.model", "README.md"]


def marian_folder(given: str) -> MarianFolder:
    """Opens a folder, or downloads the files for an import by Hub name, such as Helsinki-NLP/opus-mt-de-en."""
    path = Path(given)
    if path.is_dir():
        return MarianFolder(path, path.resolve().name)
    if path.exists() or not HUB_NAME.fullmatch(given):
        raise TrainingError(f"{given} is no folder, and no name on the hub such as Helsinki-NLP/opus-mt-de-en.")
    return MarianFolder(fetch_from_hub(given), given)


def fetch_from_hub(name: str) -> Path:
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
        return Path(snapshot_download(name, allow_patterns=[*SMALL_FILES, weights]))
    except Exception as error:  # from the library, its HTTP client or the system: the remedy is the same
        raise TrainingError(
            f"{name} could not be fetched from the hub ({first_line(error)});"
            " download its files where there is a network and give their folder."
        ) from error
