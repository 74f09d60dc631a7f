"""One detector for all apps that these tests make: it keeps no state, and loading its model takes a second."""

from __future__ import annotations

import pytest

from app.text.language_detection import Detector

_DETECTOR = Detector()


@pytest.fixture(autouse=True)
def _one_detector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.main.Detector", lambda: _DETECTOR)
