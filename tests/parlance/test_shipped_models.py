"""The models that come with this project, and how a server gets them."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from models import checkpoint as checkpoints
from models.checkpoint_trial import problem_of
from models.model_names import SHIPPED, shipped_folder, shipped_names
from training.__main__ import main
from training.importers import model_import

NAMES = shipped_names()
MOST_BYTES = {"everyday": 16_000_000}  # of a translator
MOST_BYTES_OF_LYRICISTS = 4_000_000  # of all together


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def copied(into: Path) -> int:
    return main(["import-marian", "everyday", "--into", str(into)])


@pytest.mark.parametrize("name", NAMES)
def test_it_is_whole(name: str) -> None:
    folder = shipped_folder(name)
    assert folder is not None and problem_of(folder) is None
    config = checkpoints.read_config(folder)
    assert config.scores and (folder / "README.md").exists()
    for file, digest in config.files.items():
        assert hashlib.sha256((folder / file).read_bytes()).hexdigest() == digest, file


def test_they_are_small() -> None:
    assert size(SHIPPED / "everyday") <= MOST_BYTES["everyday"]
    assert sum(size(SHIPPED / name) for name in NAMES if name not in MOST_BYTES) <= MOST_BYTES_OF_LYRICISTS


@pytest.mark.parametrize("given", ["", ".", "..", "everyday/..", "../shipped/everyday", "/etc", "everyday.x"])
def test_other_names_are_none_of_them(given: str) -> None:
    assert shipped_folder(given) is None


def test_one_that_is_named_is_copied_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert copied(tmp_path / "made") == 0
    place = tmp_path / "made/everyday"
    assert f"everyday comes with Parlance; {place} is a copy of it." in capsys.readouterr().err
    assert [path.name for path in place.parent.iterdir()] == ["everyday"]
    assert checkpoints.read(place).config == checkpoints.read_config(SHIPPED / "everyday")
    (place / "README.md").write_text("mine", encoding="utf-8")
    assert copied(tmp_path / "made") == 0
    assert (place / "README.md").read_text(encoding="utf-8") == "mine"


def test_what_is_in_its_place_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "everyday").mkdir()
    (tmp_path / "everyday/notes.txt").write_text("mine")
    assert copied(tmp_path) == 2
    assert f"{tmp_path / 'everyday'} is in the way: move it" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "everyday").iterdir()] == ["notes.txt"]


def test_a_copy_that_was_interrupted_is_no_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(source: Path, target: Path) -> None:
        target.mkdir()
        shutil.copy(source / "config.json", target)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(model_import.shutil, "copytree", interrupted)
    assert copied(tmp_path) == 2
    assert f"{tmp_path} cannot be written (disk full): make room for everyday" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
