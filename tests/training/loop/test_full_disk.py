"""A disk that fills up while a run writes: one sentence, no half model, and a way to go on.

Where the tests may mount a file system of their own, the disk is really full; elsewhere its errors are made up.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from safetensors import SafetensorError

from models import checkpoint as checkpoints
from models.networks import loading
from tests.training.small import CPU, lyricist, text
from training import output_folder, snapshot
from training.__main__ import main
from training.config import recipes
from training.config.run_config import LoopConfig
from training.loop import trainer as loops
from training.lyricist_run import train_lyricist
from training.report.progress_report import ProgressReport
from training.training_run import TrainingRun


class Disk:
    """A small file system, and a way to have it full from the n-th call of a function on."""

    def __init__(self, root: Path, real: bool) -> None:
        self.root, self.real, self.filler = root, real, root / "filler"

    def fill(self) -> None:
        with contextlib.suppress(OSError), self.filler.open("wb", buffering=0) as file:
            for size in (65536, 4096, 1):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(bytes(size))

    def free(self) -> None:
        self.filler.unlink(missing_ok=True)

    def full_at(self, function: Callable[..., Any], made_up: Exception, call: int = 1) -> Callable[..., Any]:
        calls = [0]

        def filled(*arguments: Any, **options: Any) -> Any:
            calls[0] += 1
            if calls[0] == call:
                if not self.real:
                    raise made_up
                self.fill()
            return function(*arguments, **options)

        return filled


RECIPE = lyricist(loop=LoopConfig(max_epochs=2))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The weights of a run that met no full disk."""
    out = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(output_folder, "draw_curves", lambda metrics, path: None)
        train_lyricist(RECIPE, text(300), TrainingRun(out=out, device=CPU, quiet=True), origin="")
    return (out / "model.safetensors").read_bytes()


@pytest.fixture(params=["mounted", "made up"])
def disk(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_curves: None
) -> Iterator[Disk]:
    monkeypatch.setitem(recipes.LYRICISTS, "small", recipes.Recipe("", RECIPE))
    monkeypatch.setattr(loops, "SNAPSHOT_EVERY_S", 0.0)
    (tmp_path / "song.txt").write_text(text(300))
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "disk"
    root.mkdir()
    if request.param == "made up":
        yield Disk(root, real=False)
        return
    mount, umount = shutil.which("mount"), shutil.which("umount")
    if not mount or not umount or os.geteuid() != 0:
        pytest.skip("only root may mount a small disk; the made-up one fills up everywhere")
    command = [mount, "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(root)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("this container may not mount a small disk; the made-up one fills up everywhere")
    try:
        yield Disk(root, real=True)
    finally:
        subprocess.run([umount, "-l", str(root)], capture_output=True, check=True)


def sing(*arguments: str) -> int:
    return main(["lyrics", "--corpus", "song.txt", "--out", "disk/m", "--device", "cpu", *arguments])


WAY_OUT = (
    "error: The run cannot go on: the disk is full; free some space, then go on with --resume, or anew if nothing"
    " was saved."
)


def assert_refused(capsys: pytest.CaptureFixture[str]) -> None:
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines()[-1] == WAY_OUT
    assert "Traceback" not in captured.err
    assert not Path("disk/m/.staging").exists()
    assert not Path("disk/m/resume.new").exists()


FULL = OSError(errno.ENOSPC, "No space left on device")
STAGES = {
    "first snapshot": (snapshot.torch, "save", FULL, 1),
    "third snapshot": (snapshot.torch, "save", FULL, 3),
    "first metrics": (ProgressReport, "_write", FULL, 1),
    "later metrics": (ProgressReport, "_write", FULL, 4),
    "weights": (loading, "save_weights", SafetensorError("I/O error: No space left on device (os error 28)"), 1),
    "curves": (output_folder, "draw_curves", FULL, 1),
    "config": (checkpoints, "write", FULL, 1),
}


@pytest.mark.slow
@pytest.mark.parametrize("stage", STAGES)
def test_full_disk_ends_the_run_with_one_sentence(
    disk: Disk,
    stage: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    whole: bytes,
) -> None:
    where, name, made_up, call = STAGES[stage]
    original = getattr(where, name)
    with monkeypatch.context() as patch:
        patch.setattr(where, name, disk.full_at(original, made_up, call))
        assert sing() == 2
    assert_refused(capsys)
    assert not checkpoints.is_checkpoint(Path("disk/m"))
    disk.free()
    resumable = snapshot.exists(Path("disk/m"))
    assert resumable == (stage not in ("first snapshot",))
    assert sing(*["--resume"] * resumable) == 0
    assert Path("disk/m/model.safetensors").read_bytes() == whole


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["first snapshot", "weights", "curves", "config"])
def test_published_model_survives_a_resume_on_a_full_disk(
    disk: Disk, stage: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sing("--max-epochs", "1") == 0
    before = checkpoints.read(Path("disk/m")).config
    capsys.readouterr()
    where, name, made_up, call = STAGES[stage]
    with monkeypatch.context() as patch:
        patch.setattr(where, name, disk.full_at(getattr(where, name), made_up, call))
        assert sing("--resume", "--max-epochs", "2") == 2
    assert_refused(capsys)
    assert checkpoints.read(Path("disk/m")).config == before
    disk.free()
    assert sing("--resume", "--max-epochs", "2") == 0
    assert checkpoints.read(Path("disk/m")).config != before


def test_other_disk_errors_are_reported_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(recipes.LYRICISTS, "small", recipes.Recipe("", RECIPE))
    monkeypatch.chdir(tmp_path)
    Path("song.txt").write_text(text(300))

    def broken(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(output_folder, "draw_curves", broken)
    assert main(["lyrics", "--corpus", "song.txt", "--out", "m", "--device", "cpu"]) == 2
    output = capsys.readouterr().err.splitlines()[-1]
    assert output == (
        "error: The run cannot go on: a file of this run could not be read or written: the disk reports an error of"
        " its own."
    )
    assert not checkpoints.is_checkpoint(Path("m"))
