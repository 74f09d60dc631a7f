"""A Marian checkpoint folder, local or from the Hugging Face Hub, and its decoding settings: generation_config.json, or
config.json in older folders. Its code is never run."""

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

from models.checkpoint import CONFIG, MOST_JSON_BYTES, require_file
from models.model_card import CARD, read_card
from models.weights_file import read_header
from training.errors import TrainingError

JsonObject = Mapping[str, Any]
"""As it stands in a file that others wrote."""
WEIGHTS_FILES = SAFETENSORS, PICKLE = ("model.safetensors", "pytorch_model.bin")
MOST_WEIGHTS_BYTES = 10_000_000_000  # the largest translators of OPUS-MT have 1
ALLOCATORS = ("DefaultCPUAllocator", "bad_alloc", "allocate memory")  # in the errors of libraries without memory
RAW_MARIAN = (
    "is in the form of Marian itself (.npz), and not in Hugging Face's, which import reads: take the same model from"
    " the hub, where OPUS-MT's are in that form, or convert it with convert_marian_to_pytorch.py of transformers 4."
)


@dataclass(frozen=True, slots=True)
class MarianFolder:
    """A checkpoint folder. name: the model's name on the Hub, or the folder's. commit: of its repository on the Hub."""

    path: Path
    name: str
    commit: str | None = None

    def required(self, name: str) -> Path:
        path = self.path / name
        if path.is_file():
            return path
        if any(self.path.glob("*.npz")) and not (self.path / CONFIG).exists():
            raise TrainingError(f"{self.path} {RAW_MARIAN}")
        raise TrainingError(f"{path} is missing: {self.path} is not a whole Marian folder.")

    def object(self, name: str, *, required: bool = True) -> JsonObject:
        """The JSON object in a file; {} if the file is missing and not required."""
        path = self.path / name
        if not required and not path.is_file():
            return {}
        self.required(name)
        try:
            require_file(path, MOST_JSON_BYTES)
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise TrainingError(f"{path} cannot be read as JSON ({error}).") from error
        if not isinstance(content, dict):
            raise TrainingError(f"{path} holds no JSON object.")
        return content

    def card(self) -> str:
        """The model card, or ""."""
        return read_card(self.path / CARD)

    @property
    def weights_bytes(self) -> int:
        """0 without weights."""
        paths = (self.path / name for name in WEIGHTS_FILES)
        return max((path.stat().st_size for path in paths if path.is_file()), default=0)

    @property
    def weights(self) -> Path:
        """The file with the weights."""
        path = next((self.path / name for name in WEIGHTS_FILES if (self.path / name).is_file()), None)
        if path is None:
            raise TrainingError(f"{self.path} holds neither {SAFETENSORS} nor {PICKLE}.")
        return path

    def tensors(self) -> Mapping[str, Tensor]:
        """Memory-mapped if the file format allows."""
        path = self.weights
        if is_lfs_pointer(path):
            raise TrainingError(f"{path} is a pointer of Git LFS: get the file itself with `git lfs pull`.")
        try:
            require_file(path, MOST_WEIGHTS_BYTES)
            if path.name == SAFETENSORS:
                read_header(path)  # before anything is allocated
                return load_file(path)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of pickles newer than torch's own
                tensors = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
        except pickle.UnpicklingError as error:
            raise TrainingError(f"{path} is damaged, or holds more than tensors; nothing of it was run.") from error
        except (SafetensorError, OSError, RuntimeError, EOFError, ValueError, KeyError, AssertionError) as error:
            if any(sign in str(error) for sign in ALLOCATORS):
                raise
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


RECORDED_SETTINGS = (
    "num_beams",
    "length_penalty",
    "early_stopping",
    "max_length",
    "forced_eos_token_id",
    "renormalize_logits",
)
# setting -> neutral value; other values are ignored, with a note in the model card
UNAPPLIED_SETTINGS = {
    "do_sample": False,
    "early_stopping": False,
    "no_repeat_ngram_size": 0,
    "encoder_no_repeat_ngram_size": 0,
    "repetition_penalty": 1.0,
    "num_beam_groups": 1,
    "min_length": 0,
    "min_new_tokens": 0,
    "begin_suppress_tokens": [],
}


@dataclass(frozen=True, slots=True)
class GenerationSettings:
    """Token ids and decoding settings of the folder."""

    start: int
    eos: int
    suppressed: tuple[int, ...]
    renormalise: bool
    forced_end: bool
    max_new_tokens: int
    recorded: JsonObject
    not_applied: tuple[str, ...]


def read_generation_settings(config: JsonObject, settings: JsonObject, pad: int, rows: int) -> GenerationSettings:
    """settings: generation_config.json, {} in older folders with them in config.json. rows: of the target embedding.
    TrainingError for an unsupported setting."""
    tokens = {name: config.get(name) for name in ("decoder_start_token_id", "eos_token_id")}
    given: JsonObject = tokens | {name: value for name, value in (settings or config).items() if value is not None}
    if "forced_bos_token_id" in given:
        raise TrainingError("The folder sets forced_bos_token_id, which is not supported.")
    start, eos = given["decoder_start_token_id"], given["eos_token_id"]
    eos = eos[0] if isinstance(eos, list) and len(eos) == 1 else eos
    suppressed = _suppressed(given) or [pad]
    named = [("decoder_start_token_id", start), ("eos_token_id", eos), *(("a bad word", i) for i in suppressed)]
    for name, token in named:
        if not isinstance(token, int) or not 0 <= token < rows:
            raise TrainingError(f"The folder gives {name} as {token!r}, and the target's ids are 0..{rows - 1}.")
    forced = given.get("forced_eos_token_id")
    if forced not in (None, eos, [eos]):
        raise TrainingError(f"The folder sets forced_eos_token_id to {forced!r}; only its end token is supported.")
    most, limit = given.get("max_length"), config["max_position_embeddings"]
    return GenerationSettings(
        start=start,
        eos=eos,
        suppressed=tuple(sorted(set(suppressed))),
        renormalise=bool(given.get("renormalize_logits", False)),
        forced_end=forced is not None,
        max_new_tokens=max(1, min(limit, most if isinstance(most, int) else limit) - 1),  # includes the start token
        recorded={name: given[name] for name in RECORDED_SETTINGS if name in given},
        not_applied=tuple(name for name, neutral in UNAPPLIED_SETTINGS.items() if given.get(name, neutral) != neutral),
    )


def _suppressed(settings: JsonObject) -> list[int]:
    tokens = list(settings.get("suppress_tokens") or [])
    for word in settings.get("bad_words_ids") or []:
        if not isinstance(word, list) or len(word) != 1:
            raise TrainingError(f"bad_words_ids holds {word!r}; only words of one token are supported.")
        tokens += word
    return tokens
