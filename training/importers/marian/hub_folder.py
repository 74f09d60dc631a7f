"""A Marian checkpoint folder, local or from the Hugging Face Hub. Its code is never run."""

from __future__ import annotations

import json
import pickle
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
    """A checkpoint folder. name: the model's name on the Hub, or the folder's. commit: of its repository on the Hub."""

    path: Path
    name: str
    commit: str | None = None

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
        if is_lfs_pointer(path):
            raise TrainingError(f"{path} is a pointer of Git LFS: get the file itself with `git lfs pull`.")
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


def is_lfs_pointer(path: Path) -> bool:
    """A clone without Git LFS has such a text in place of a large file."""
    start = b"version https://git-lfs"
    with path.open("rb") as file:
        return file.read(len(start)) == start


def first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(" .")
