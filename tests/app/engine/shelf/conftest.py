"""A pool with a writable checkpoint folder."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app.engine.engine_thread import Running, options


@pytest.fixture(scope="module")
def root(tiny_checkpoints: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shelf") / "c"
    shutil.copytree(tiny_checkpoints / "tiny-lyrics", folder / "tiny-lyrics")
    shutil.copytree(tiny_checkpoints / "tiny-de-en", folder / "tiny-de-en")
    return folder


@pytest.fixture(scope="module")
def running(root: Path) -> Iterator[Running]:
    running = Running(options(root))
    try:
        running.ready()
        yield running
    finally:
        running.close()
