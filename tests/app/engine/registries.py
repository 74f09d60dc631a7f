"""Registries of the checkpoints of a folder."""

from __future__ import annotations

from pathlib import Path

from app.engine.registry.model_registry import ModelRegistry


def read_registry(folder: Path) -> ModelRegistry:
    registry = ModelRegistry(folder)
    registry.read()
    return registry
