"""A starting process falls back to the pinned files of a folder that it cannot load. If they are broken too, the
error names the original folder, and no load is logged."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from app.engine.registry.model_lifecycle import load_message
from app.engine.registry.model_registry import ModelRegistry
from app.engine.worker.model_runner import ModelRunner
from models.checkpoint import CheckpointError
from tests.app.engine.corrupt_checkpoints import broken


def test_error_names_the_requested_folder(
    tiny_checkpoints: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = broken(tiny_checkpoints / "tiny-lyrics", tmp_path, "output.weight", float("nan"))
    edition = ModelRegistry(folder.parent).read_version(folder)
    message = load_message(edition, pinned=True)
    assert edition.pinned is not None
    assert set(message.pinned) == {"config.json", *edition.config.files}
    with caplog.at_level(logging.INFO), pytest.raises(CheckpointError) as refused:
        ModelRunner("cpu", 1, slots=2).read(message)
    assert str(refused.value).startswith(f"{folder / 'model.safetensors'} cannot be loaded: its tensor output.weight")
    assert "is loaded" not in caplog.text
