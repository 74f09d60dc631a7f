"""Served files stay readable when their folder changes or is removed."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from app.engine.async_engine import AsyncEngine
from app.engine.interface import EngineSettings
from app.engine.protocol import messages as m
from app.engine.registry.model_lifecycle import load_message
from app.engine.registry.model_registry import ModelRegistry, PinnedFiles
from app.engine.worker.model_runner import ModelRunner, linked_folder
from models import checkpoint as checkpoints
from models.checkpoint import CheckpointError
from models.child_process import HEADER
from tests.app.engine.frames import framed
from tests.request_builders import generation_request
from tests.tiny import write_lyricist


def folder_of(path: Path) -> Path:
    return write_lyricist(path / "tiny-lyrics")


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_files_that_were_replaced_or_removed_are_read_as_they_were(tmp_path: Path) -> None:
    for name in ("replaced", "removed"):
        (tmp_path / name).write_text("old")
    kept = PinnedFiles(tmp_path, ["replaced", "removed"])
    (tmp_path / "new").write_text("new")
    (tmp_path / "new").replace(tmp_path / "replaced")
    (tmp_path / "removed").unlink()
    with linked_folder("any", kept.paths()) as folder:
        assert {path.name: path.read_text() for path in folder.iterdir()} == {"replaced": "old", "removed": "old"}
    assert not folder.parent.exists()


def test_files_of_removed_versions_are_closed(tmp_path: Path) -> None:
    library, path = ModelRegistry(tmp_path), folder_of(tmp_path)
    library.read_version(path)
    gc.collect()
    before = descriptors()
    edition = library.read_version(path)
    assert descriptors() == before + 3  # config, weights, tokenizer
    del edition
    gc.collect()
    assert descriptors() == before


def test_a_process_that_starts_anew_reads_the_served_edition_and_a_reload_does_not(tmp_path: Path) -> None:
    edition = ModelRegistry(tmp_path).read_version(folder_of(tmp_path))
    shutil.rmtree(tmp_path / "tiny-lyrics")
    write_lyricist(tmp_path / "tiny-lyrics", seed=3)
    runner = ModelRunner("cpu", 1, slots=4)
    with pytest.raises(CheckpointError, match="has changed since"):
        runner.read(load_message(edition))
    result = runner.read(load_message(edition, pinned=True))
    assert result.checkpoint.config.files == edition.config.files
    assert (tmp_path / "tiny-lyrics" / checkpoints.CONFIG).is_file()


def test_the_message_says_where_the_files_are(tmp_path: Path) -> None:
    edition = ModelRegistry(tmp_path).read_version(folder_of(tmp_path))
    message = load_message(edition, pinned=True)
    assert m.to_device(framed([message])[HEADER.size :]) == [message]
    assert set(message.pinned) == {checkpoints.CONFIG, *edition.config.files}


@pytest.mark.slow  # two processes, one after the other
@pytest.mark.parametrize("damage", ["torn", "gone"])
def test_the_old_model_outlives_its_process_after_a_refused_reload(tmp_path: Path, damage: str) -> None:
    folder = folder_of(tmp_path)

    async def until(pool: AsyncEngine, ready: bool) -> None:
        end = time.monotonic() + 60
        while pool.status().ready is not ready:
            assert time.monotonic() < end, pool.status()
            await asyncio.sleep(0.01)

    async def scene() -> None:
        pool = AsyncEngine(
            EngineSettings(checkpoints=tmp_path, devices="cpu", cpu_threads=1, slots_per_model=8, precision="fp32")
        )
        await pool.start()
        try:
            await until(pool, True)
            expected = await pool.generate(generation_request("分开", max_new_tokens=20, seed=5))
            if damage == "torn":  # written aside and renamed, as programs do that replace files
                (folder / "new").write_bytes((folder / checkpoints.WEIGHTS).read_bytes()[:-7])
                (folder / "new").replace(folder / checkpoints.WEIGHTS)
            else:
                shutil.rmtree(folder)
            with pytest.raises(Exception, match=r"does not match its checksum|is missing"):
                await pool.reload_model("tiny-lyrics")
            process = pool.supervisor.devices["cpu"].process
            assert process is not None
            assert process.pid is not None
            os.kill(process.pid, signal.SIGKILL)
            await until(pool, False)
            await until(pool, True)
            again = await pool.generate(generation_request("分开", max_new_tokens=20, seed=5))
            assert again.continuations == expected.continuations
            assert pool.status().problems == ()
        finally:
            await pool.stop()

    asyncio.run(scene())
