"""The `demo` command: what its models say about themselves, and how it ends when it is interrupted."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.engine.registry import model_card
from tests.training.small import lyricist, text
from training.__main__ import main
from training.demo import demo_models
from training.starting_point import read_starting_point

DEMO = ["demo", "--out", "models", "--device", "cpu", "--only", "lyrics-zh"]
pytestmark = pytest.mark.usefixtures("no_curves", "heeded")


@pytest.fixture
def small_demo(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder in which the demo's lyricist is a tiny network and reads a short text."""
    monkeypatch.setattr(demo_models, "demo_lyricist", lyricist)
    monkeypatch.setattr(demo_models, "lyrics", lambda: text(300))
    return here


def test_licence_of_the_demo_is_stated_and_carried_over(small_demo: Path) -> None:
    assert main(DEMO) == 0
    folder = small_demo / "models" / "lyrics-zh"
    assert model_card.licence(folder) == "apache-2.0"
    assert read_starting_point(str(folder), "lyrics").licence == "apache-2.0"
    small = ["--batch-size", "2", "--bptt", "5", "--max-epochs", "1", "--device", "cpu"]
    assert main(["lyrics", "--from", str(folder), "--corpus", "song.txt", "--out", "m", *small]) == 0
    assert "- Its licence: `apache-2.0`" in (small_demo / "m" / "README.md").read_text()
