from __future__ import annotations

from pathlib import Path

import pytest

from tests import tiny


@pytest.fixture(scope="session")
def tiny_checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two tiny translators (de-en, en-es) and a tiny lyricist; do not write to it."""
    return tiny.write_all(tmp_path_factory.mktemp("checkpoints"))
