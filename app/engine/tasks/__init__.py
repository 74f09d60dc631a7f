"""The engine's use cases, one a file: translate, generate, inspect attention and gates, score, align."""

from __future__ import annotations

from dataclasses import dataclass

from app.engine.admission import Admission
from app.engine.dispatch.dispatcher import Dispatcher
from app.engine.registry.model_registry import ModelRegistry


@dataclass
class Task:
    """A use case: it takes its model from the registry, is admitted or refused, and sends messages to devices."""

    registry: ModelRegistry
    admission: Admission
    dispatcher: Dispatcher
