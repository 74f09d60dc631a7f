from __future__ import annotations

from pathlib import Path

import pytest

from tests import tiny


@pytest.fixture(scope="package")
def slow_lyricist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a lyricist that takes at least a millisecond per step."""
    root = tmp_path_factory.mktemp("slow")
    tiny.write_lyricist(root / "tiny-lyrics", hidden=2560)  # more weights than caches hold
    return root
