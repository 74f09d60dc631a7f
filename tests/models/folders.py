"""Checkpoint folders with everything but real weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from models import checkpoint as checkpoints
from models.checkpoint import CheckpointConfig
from models.tokenizer import SpecialTokens, VocabularyTokenizer

SOURCE = VocabularyTokenizer("word", ["<pad>", "<unk>", "hello", "world"], SpecialTokens(0, 1))
TARGET = VocabularyTokenizer("character", ["<pad>", "<s>", "</s>", "a", "b"], SpecialTokens(0, None, 1, 2))
CONFIG = CheckpointConfig(
    kind="translator",
    architecture={"name": "transformer", "d_model": 8},
    source_language="en",
    target_language="de",
    source_suffix=(0,),
    target_prefix=(1,),
    eos=2,
    suppressed=(0, 1),
    max_source_tokens=50,
    max_new_tokens=70,
    parameters=123,
    training={"seed": 1},
    scores={"bleu": 12.5},
)


def stage(folder: Path, weights: bytes = b"weights") -> Path:
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(weights)
    (folder / "README.md").write_text("A card.", encoding="utf-8")
    return folder


def written(tmp_path: Path, config: CheckpointConfig = CONFIG) -> Path:
    folder = tmp_path / "checkpoints" / "tiny"
    checkpoints.write(stage(tmp_path / "staging"), folder, config, {"source": SOURCE, "target": TARGET})
    return folder


def edit(folder: Path, **changes: Any) -> None:
    """Changes config.json as a user would: without its checksum."""
    path = folder / "config.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(content | changes), encoding="utf-8")
    (folder / checkpoints.CONFIG_CHECKSUM).unlink(missing_ok=True)


def one_sentence(text: str, file: Path, *words: str) -> None:
    """It names the file and says these words."""
    assert str(file) in text
    assert "\n" not in text
    assert text.endswith(".")
    assert not text.endswith("..")
    for word in words:
        assert word in text
