"""Which state of the source tree made a model or a measurement."""

from __future__ import annotations

import subprocess
from pathlib import Path


def commit() -> str:
    """The revision of this source tree, or "unknown" where there is none (an installed package)."""
    try:
        result = subprocess.run(
            ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"],  # noqa: S607
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return result.stdout.strip()
