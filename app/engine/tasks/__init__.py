"""The engine's use cases, one per file: translate, generate, inspect attention and gates, score, align."""

from __future__ import annotations

from dataclasses import dataclass

from app.engine.admission import Admission
from app.engine.dispatch.dispatcher import Dispatcher
from app.engine.registry.model_registry import ModelRegistry


@dataclass
class Task:
    """A use case: takes a model from the registry, passes admission, and sends messages to devices."""

    registry: ModelRegistry
    admission: Admission
    dispatcher: Dispatcher
