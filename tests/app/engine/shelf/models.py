"""Models that change, and what they write."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from app.engine.interface import GenerationRequest
from tests import tiny
from tests.app.engine.engine_thread import Running, generate


def replace(folder: Path, seed: int) -> None:
    """Other weights under the same name, as a training run publishes them."""
    new = tiny.write_lyricist(folder.parent / f".new-{seed}", seed)
    shutil.rmtree(folder)
    new.rename(folder)


def long_request(**change: Any) -> GenerationRequest:
    return generate(max_new_tokens=250, model="tiny-lyrics", **change)


def text(running: Running, request: GenerationRequest) -> str:
    return str(running.do(running.pool.generate(request)).continuations[0].text)


def loaded(running: Running) -> set[str]:
    return set(running.pool.supervisor.devices["cpu"].loaded)
