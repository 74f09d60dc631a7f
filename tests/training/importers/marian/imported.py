"""What `training import-marian` makes of a folder, and what transformers makes of the same."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from models import checkpoint as checkpoints
from models.checkpoint import Checkpoint
from models.networks.loading import load_network
from models.networks.transformer import Transformer
from training.importers.marian.convert_checkpoint import import_marian

transformers = pytest.importorskip("transformers", reason="extra dev brings transformers, to which imports are held")


class Imported(NamedTuple):
    checkpoint: Checkpoint
    network: Transformer


def ours(folder: Path, **choice: Any) -> Imported:
    out = folder.parent / f"{folder.name}-imported"
    import_marian(str(folder), out, **choice)
    checkpoint = checkpoints.read(out)
    return Imported(checkpoint, load_network(checkpoint))


def their_tokenizer(folder: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it recommends a package that it then does not use
        return transformers.MarianTokenizer.from_pretrained(folder)


def their_network(folder: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return transformers.MarianMTModel.from_pretrained(folder).eval()
