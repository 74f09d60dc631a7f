"""A clock that the test advances."""

from __future__ import annotations

import time

import pytest


class Clock:
    """now: what `time.monotonic` says, in seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
