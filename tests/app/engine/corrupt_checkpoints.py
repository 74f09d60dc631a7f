"""Checkpoints with corrupt weights."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

from safetensors.torch import load_file, save_file


def broken(folder: Path, into: Path, tensor: str, value: float) -> Path:
    """A copy in which all of one tensor is `value`, with the checksum of that."""
    copy = into / folder.name
    shutil.copytree(folder, copy)
    (weights,) = copy.glob("*.safetensors")
    tensors = load_file(weights)
    tensors[tensor].fill_(value)
    save_file(tensors, weights)
    config = json.loads((copy / "config.json").read_text())
    config["files"][weights.name] = hashlib.sha256(weights.read_bytes()).hexdigest()
    (copy / "config.json").write_text(json.dumps(config))
    (copy / "config.sha256").unlink()
    return copy
