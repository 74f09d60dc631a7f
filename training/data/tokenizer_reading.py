"""Existing tokenizers for a new network (`--tokenizer`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from models import checkpoint as checkpoints
from models.checkpoint import CheckpointError
from models.tokenizer import SentencePieceTokenizer, Tokenizer, read_tokenizer
from training.data.tokenizer_training import sequence_ids
from training.errors import TrainingError, os_error_reason

TAKES = "a translator's checkpoint folder, a SentencePiece .model file, or two with a comma between (source,target)"


def read_tokenizers(given: str) -> tuple[dict[str, Tokenizer], Mapping[str, object]]:
    """{"source": ..., "target": ...}, the same one twice for a single file, and the options of the run that made them
    ({} for files). given: as `--tokenizer` names them. TrainingError if they cannot be read, or if they lack the
    special tokens of a translator."""
    path = Path(given)
    recorded: Mapping[str, object] = {}
    if path.is_dir():
        tokenizers, recorded = _of_checkpoint(path)
    elif path.is_file():
        tokenizers = dict.fromkeys(("source", "target"), _of_file(path))
    else:
        parts = [Path(part) for part in given.split(",")]
        missing = [part for part in parts if not part.is_file()]
        if len(parts) != 2 or missing:
            problem = f"There is no {missing[0]}" if len(parts) == 2 else f"There is no {given}"
            raise TrainingError(f"{problem}: --tokenizer takes {TAKES}.")
        tokenizers = {"source": _of_file(parts[0]), "target": _of_file(parts[1])}
    sequence_ids(tokenizers, "eos")
    return tokenizers, recorded


def _of_checkpoint(folder: Path) -> tuple[dict[str, Tokenizer], Mapping[str, object]]:
    try:
        checkpoint = checkpoints.read(folder)
    except CheckpointError as error:
        text = str(error).rstrip(".")
        raise TrainingError(f"{text}: --tokenizer takes {TAKES}.") from error
    if checkpoint.config.kind != "translator":
        raise TrainingError(f"{folder} is a lyricist, which has one tokenizer only: --tokenizer takes {TAKES}.")
    recorded = checkpoint.config.training.get("tokenizer")
    return dict(checkpoint.tokenizers), recorded if isinstance(recorded, Mapping) else {}


def _of_file(path: Path) -> Tokenizer:
    """A SentencePiece model, or a vocabulary of a checkpoint folder (.json)."""
    try:
        if path.suffix == ".json":
            kind = json.loads(path.read_text(encoding="utf-8"))["kind"]
            return read_tokenizer(kind, path)
        return SentencePieceTokenizer.read(path)
    except OSError as error:
        raise TrainingError(f"{os_error_reason(error)}.") from error
    except (RuntimeError, ValueError, KeyError, TypeError) as error:
        raise TrainingError(f"{path} is no tokenizer that can be read: --tokenizer takes {TAKES}.") from error
