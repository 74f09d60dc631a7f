from __future__ import annotations

from pathlib import Path

import pytest

# what test modules share asserts too, and its failures show their values only so
pytest.register_assert_rewrite("tests.app", "tests.faults", "tests.models", "tests.training", "tests.serving")

from tests import tiny  # noqa: E402


@pytest.fixture(scope="session")
def tiny_checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two tiny translators (de-en, en-es) and a tiny lyricist; do not write to it."""
    return tiny.write_all(tmp_path_factory.mktemp("checkpoints"))
