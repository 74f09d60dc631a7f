"""Models that are loaded and unloaded under a pool with a real device process."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from app import errors
from app.engine.protocol import messages as m
from tests import tiny
from tests.app.engine.engine_thread import Running
from tests.app.engine.shelf.models import loaded, long_request, text
from tests.request_builders import translation_request


@pytest.mark.slow
def test_load_and_unload(running: Running, root: Path) -> None:
    do, pool = running.do, running.pool
    for name in ("another", "ä" * 200):  # of 400 bytes, more than a file name may have
        with pytest.raises(errors.UnknownModel, match=f"no folder {name} among the checkpoints"):
            do(pool.load_model(name))
    tiny.write_translator(root / "another", "es", "fr", seed=3)
    with pytest.raises(errors.UnknownPair):
        do(pool.translate([translation_request("ich", "es", "fr")]))
    with pytest.raises(errors.UnknownModel, match=r"No model another is loaded\. Loaded: tiny-de-en, tiny-lyrics"):
        do(pool.reload_model("another"))
    assert do(pool.load_model("another")).model.version == 1
    assert [info.name for info in pool.models()] == ["another", "tiny-de-en", "tiny-lyrics"]
    assert do(pool.translate([translation_request("ich", "es", "fr")]))[0].model == "another"
    with pytest.raises(errors.ModelConflict, match="another is loaded already; reload it"):
        do(pool.load_model("another"))
    gone = do(pool.unload_model("another"))
    assert (gone.model.name, gone.model.devices) == ("another", ())
    assert "another@1" not in loaded(running)
    with pytest.raises(errors.UnknownModel):
        do(pool.unload_model("another"))
    assert do(pool.load_model("another")).model.version == 2  # never used twice
    do(pool.unload_model("another"))
    assert pool.status().ready


@pytest.mark.slow
def test_unload_waits_for_running_requests_and_refuses_new_ones(running: Running) -> None:
    expected = text(running, long_request())

    async def scene() -> None:
        begun = [asyncio.create_task(running.pool.generate(long_request())) for _ in range(3)]
        await asyncio.sleep(0.03)
        unloading = asyncio.create_task(running.pool.unload_model("tiny-lyrics"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        with pytest.raises(errors.UnknownModel):
            await running.pool.generate(long_request())
        assert not unloading.done()
        assert [answer.continuations[0].text for answer in await asyncio.gather(*begun)] == [expected] * 3
        await unloading
        await running.pool.load_model("tiny-lyrics")

    running.do(scene())
    assert text(running, long_request()) == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", ["", ".", "..", "../c/tiny-de-en", "a/b", "/etc", ".hidden", "a\0b", "..\\x"])
def test_model_name_cannot_leave_the_folder(running: Running, name: str) -> None:
    for change in (running.pool.load_model, running.pool.reload_model, running.pool.unload_model):
        with pytest.raises(errors.UnknownModel, match="is not a name of a model"):
            running.do(change(name))


@pytest.mark.slow
def test_a_version_that_is_not_given_back_is_freed_in_the_end(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    lifecycle = running.pool.lifecycle
    edition = running.pool.registry.versions["tiny-lyrics"]
    monkeypatch.setattr(lifecycle, "_longest_request_s", 0.05)
    forgotten = running.pool.registry.in_use([edition])
    with forgotten:
        running.do(running.pool.unload_model("tiny-lyrics"))
        assert edition.key not in loaded(running)
        running.do(running.pool.load_model("tiny-lyrics"))


@pytest.mark.slow
def test_a_server_without_its_models_says_what_to_do(running: Running) -> None:
    names = [info.name for info in running.pool.models()]
    for name in names:
        running.do(running.pool.unload_model(name))
    status = running.pool.status()
    assert (status.ready, status.problems) == (False, ("Every model was unloaded; load one to be ready again.",))
    for name in names:
        running.do(running.pool.load_model(name))
    assert (running.pool.status().ready, running.pool.status().problems) == (True, ())


@pytest.mark.slow
def test_a_shutting_down_server_changes_nothing(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running.pool.admission, "draining", True)
    with pytest.raises(errors.EngineUnavailable, match="shutting down"):
        running.do(running.pool.reload_model("tiny-de-en"))


def test_names_of_versions() -> None:
    assert m.plain_name("a@b@3") == "a@b"
