"""What an interrupted write of a checkpoint leaves: a whole one or none."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from models import checkpoint as checkpoints
from tests.models.folders import CONFIG, SOURCE, TARGET, stage, written

OPERATIONS = [
    *[(Path, name) for name in ("write_text", "write_bytes", "open", "mkdir", "unlink", "replace")],
    (os, "fsync"),
]


def full_disk(monkeypatch: pytest.MonkeyPatch, after: int, error: BaseException) -> Callable[[], int]:
    """Every file operation after so many fails. How many were tried."""
    count = 0

    def counted(real: Any) -> Any:
        def operation(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            count += 1
            if count > after:
                raise error
            return real(*args, **kwargs)

        return operation

    for owner, name in OPERATIONS:
        monkeypatch.setattr(owner, name, counted(getattr(owner, name)))
    return lambda: count


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("before", ["nothing", "an older checkpoint"])
def test_interrupted_write_leaves_a_complete_checkpoint_or_none(
    tmp_path: Path, before: str, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # slow, and the test is not about the disk
    outcomes = list[str]()
    for after in range(100):
        folder = tmp_path / str(after) / "model"
        if before != "nothing":
            old = stage(tmp_path / str(after) / "old", b"old weights")
            checkpoints.write(old, folder, replace(CONFIG, scores={"age": "old"}), {"source": TARGET, "target": SOURCE})
        staging = stage(tmp_path / str(after) / "staging", b"new weights")
        with pytest.MonkeyPatch.context() as patch:
            full_disk(patch, after, error)
            try:
                checkpoints.write(
                    staging, folder, replace(CONFIG, scores={"age": "new"}), {"source": SOURCE, "target": TARGET}
                )
                complete = True
            except (OSError, KeyboardInterrupt):
                complete = False
        if checkpoints.is_checkpoint(folder):
            age = checkpoints.read(folder).config.scores["age"]
            assert (folder / "model.safetensors").read_bytes() == f"{age} weights".encode()
            outcomes.append(age)
        else:
            assert not complete
            outcomes.append("none")
        if complete:
            break
        again = stage(tmp_path / str(after) / "again", b"new weights")
        checkpoints.write(again, folder, CONFIG, {"source": SOURCE, "target": TARGET})
        checkpoints.read(folder)
    assert complete
    assert outcomes[-1] == "new"
    assert len(outcomes) > 15, "every file operation failed once"
    first = "old" if before != "nothing" else "none"
    changed = outcomes.index("none") if first == "old" else 0
    assert outcomes == [first] * changed + ["none"] * (len(outcomes) - changed - 1) + ["new"]


def test_the_config_is_the_last_to_arrive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrived, real = list[str](), Path.replace

    def watched(path: Path, to: Path) -> Path:
        arrived.append(to.name)
        return real(path, to)

    monkeypatch.setattr(Path, "replace", watched)
    written(tmp_path)
    assert arrived[-1] == "config.json"
    assert set(arrived[:-1]) == {"README.md", "config.sha256", "model.safetensors", "source.json", "target.json"}
