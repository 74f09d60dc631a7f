"""The models that come with this project, and how a server gets them."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from models import checkpoint as checkpoints
from models.checkpoint_trial import problem_of
from parlance import shipped_models
from parlance.__main__ import fetch_models
from parlance.shipped_models import FOLDER, shipped_names

MOST_BYTES = {"everyday": 16_000_000}  # of a translator; lyricists together
MOST_BYTES_OF_LYRICISTS = 4_000_000


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def test_they_are_whole_and_small() -> None:
    assert "everyday" in shipped_names()
    for name in shipped_names():
        folder = FOLDER / name
        assert problem_of(folder) is None
        config = checkpoints.read_config(folder)
        for file, digest in config.files.items():
            assert hashlib.sha256((folder / file).read_bytes()).hexdigest() == digest, file
        assert (folder / "README.md").exists() and config.scores
    assert size(FOLDER / "everyday") <= MOST_BYTES["everyday"]
    assert sum(size(FOLDER / name) for name in shipped_names() if name != "everyday") <= MOST_BYTES_OF_LYRICISTS


def test_one_that_is_named_is_copied_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = tmp_path / "made"
    assert fetch_models("everyday", made) == 0
    assert f"everyday comes with Parlance; a copy of it lies in {made / 'everyday'} now." in capsys.readouterr().out
    assert sorted(path.name for path in made.iterdir()) == ["everyday"]
    assert checkpoints.read(made / "everyday").config == checkpoints.read_config(FOLDER / "everyday")
    own = made / "everyday" / "README.md"
    own.write_text("mine", encoding="utf-8")
    assert fetch_models("everyday", made) == 0
    assert own.read_text(encoding="utf-8") == "mine"
    assert capsys.readouterr().out == ""


def test_a_copy_that_was_interrupted_is_no_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(source: Path, target: Path) -> None:
        target.mkdir()
        shutil.copy(source / "config.json", target)
        raise OSError("No space left on device")

    monkeypatch.setattr(shipped_models.shutil, "copytree", interrupted)
    with pytest.raises(OSError, match="No space"):
        shipped_models.add_shipped_model("everyday", tmp_path)
    assert list(tmp_path.iterdir()) == []
