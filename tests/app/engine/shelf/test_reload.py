"""Models that are reloaded under a pool with a real device process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from app import errors
from app.engine import input_processor
from app.engine.registry.model_registry import ModelRegistry
from models import checkpoint as checkpoints
from tests.app.engine.engine_thread import Running
from tests.app.engine.shelf.models import loaded, long_request, replace, text

pytestmark = pytest.mark.slow  # a pool of its own


def test_reload_fails_no_request_and_mixes_no_versions(running: Running, root: Path) -> None:
    old = text(running, long_request())
    before = running.pool.registry.versions["tiny-lyrics"]

    async def under_load() -> tuple[list[str], Any]:
        async def one() -> str:
            return (await running.pool.generate(long_request())).continuations[0].text

        tasks = []

        async def ask_on() -> None:
            while True:
                tasks.append(asyncio.create_task(one()))
                await asyncio.sleep(0.01)

        asking = asyncio.create_task(ask_on())
        await asyncio.sleep(0.05)
        await asyncio.to_thread(replace, root / "tiny-lyrics", 11)
        changed = await running.pool.reload_model("tiny-lyrics")
        assert before.key in running.pool.supervisor.devices["cpu"].loaded  # the long ones still need it
        await asyncio.sleep(0.05)
        asking.cancel()
        return await asyncio.gather(*tasks), changed

    texts, changed = running.do(under_load())
    new = text(running, long_request())
    assert new != old
    assert set(texts) == {old, new}
    assert texts == sorted(texts, key=[old, new].index)  # none after the change got the old
    assert (changed.model.name, changed.model.version, changed.model.devices) == (
        "tiny-lyrics",
        before.version + 1,
        ("cpu",),
    )
    assert changed.seconds > 0
    running.until(lambda: loaded(running) == {"tiny-de-en@1", f"tiny-lyrics@{before.version + 1}"}, "not freed")
    assert not running.pool.registry.users
    assert running.pool.models()[1].version == before.version + 1


@pytest.mark.parametrize("damage", ["torn", "gone", "changed on the way"])
def test_a_bad_checkpoint_keeps_the_old_model(
    damage: str, running: Running, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = root / "tiny-lyrics"
    shutil.copytree(folder, tmp_path / "kept")
    edition, expected = running.pool.registry.versions["tiny-lyrics"], text(running, long_request())
    try:
        if damage == "torn":
            (folder / checkpoints.WEIGHTS).write_bytes((folder / checkpoints.WEIGHTS).read_bytes()[:-7])
            says = "model.safetensors does not match its checksum"
        elif damage == "gone":
            shutil.rmtree(folder)
            says = r"config\.json is missing"
        else:  # between the front end's reading and the device's
            read = ModelRegistry.read_version

            def then_replaced(registry: ModelRegistry, path: Path) -> Any:
                result = read(registry, path)
                replace(folder, 12)
                return result

            monkeypatch.setattr(ModelRegistry, "read_version", then_replaced)
            says = "has changed since the server read it: reload the model"
        with pytest.raises(errors.CheckpointRefused, match=says):
            running.do(running.pool.reload_model("tiny-lyrics"))
        assert running.pool.registry.versions["tiny-lyrics"] is edition
        assert text(running, long_request()) == expected
        assert loaded(running) == {"tiny-de-en@1", edition.key}
        assert running.pool.status().ready
        assert running.pool.status().problems == ()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(tmp_path / "kept", folder)


def test_a_request_keeps_its_version_from_before_it_is_tokenized(
    running: Running, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream too: what it has begun with is freed after its last token."""
    aside, old = input_processor.run_tokenizer, text(running, long_request())
    before = running.pool.registry.versions["tiny-lyrics"]

    async def scene() -> str:
        tokenizing, go_on = asyncio.Event(), asyncio.Event()

        async def slowly(characters: int, tokenize: Any) -> Any:
            tokenizing.set()
            await go_on.wait()
            return await aside(characters, tokenize)

        monkeypatch.setattr(input_processor, "run_tokenizer", slowly)

        async def read() -> str:
            async with running.pool.stream_generation(long_request()) as stream:
                return "".join([delta.text async for delta in stream.deltas()])

        reading = asyncio.create_task(read())
        await tokenizing.wait()
        await asyncio.to_thread(replace, root / "tiny-lyrics", 13)
        await running.pool.reload_model("tiny-lyrics")
        await asyncio.sleep(0.05)
        assert {before.key} < running.pool.supervisor.devices["cpu"].loaded
        go_on.set()
        return await reading

    assert running.do(scene()) == old
    monkeypatch.undo()
    running.until(lambda: before.key not in loaded(running), "not freed")
    assert text(running, long_request()) != old


def test_cancelled_reload_leaves_a_complete_model(running: Running) -> None:
    version = running.pool.registry.versions["tiny-lyrics"].version

    async def leave() -> None:
        task = asyncio.create_task(running.pool.reload_model("tiny-lyrics"))
        await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    running.do(leave())
    running.until(lambda: loaded(running) == {"tiny-de-en@1", f"tiny-lyrics@{version + 1}"}, "half loaded")
    assert running.pool.registry.versions["tiny-lyrics"].version == version + 1


def test_changes_of_one_name_take_turns(running: Running) -> None:
    version = running.pool.registry.versions["tiny-lyrics"].version

    async def at_once() -> list[Any]:
        pool = running.pool
        return await asyncio.gather(
            *(pool.reload_model("tiny-lyrics") for _ in range(3)),
            pool.load_model("tiny-lyrics"),
            pool.unload_model("tiny-lyrics"),
            pool.reload_model("tiny-lyrics"),
            pool.load_model("tiny-lyrics"),
            pool.reload_model("tiny-de-en"),
            return_exceptions=True,
        )

    *reloads, again, unloaded, late, back, other = running.do(at_once())
    assert [change.model.version for change in reloads] == [version + 1, version + 2, version + 3]
    assert isinstance(again, errors.ModelConflict)
    assert unloaded.model.version == version + 3
    assert isinstance(late, errors.UnknownModel)
    assert (back.model.version, other.model.version) == (version + 4, 2)
    running.until(lambda: loaded(running) == {"tiny-de-en@2", f"tiny-lyrics@{version + 4}"}, "something was left")


def test_the_next_process_loads_the_current_versions(running: Running) -> None:
    expected, device = text(running, long_request()), running.pool.supervisor.devices["cpu"]
    held = set(device.loaded)
    os.kill(device.process.pid, signal.SIGKILL)  # type: ignore[union-attr,arg-type]
    running.until(lambda: device.state != "ready", "not noticed")
    with pytest.raises(errors.EngineUnavailable, match="No device is ready to load a model"):
        running.do(running.pool.reload_model("tiny-lyrics"))
    running.ready()
    assert set(device.loaded) == held
    assert text(running, long_request()) == expected
