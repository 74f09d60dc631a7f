"""Imports beside a running server, with the process that does the work replaced by a script."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from app.engine.registry import model_import
from app.engine.registry.model_import import ModelImport, ModelImporter
from app.errors import CheckpointRefused, InvalidRequest, ModelConflict, UnknownModel


class Server:
    """Notes the changes of models. loaded: names of models."""

    def __init__(self, folder: Path) -> None:
        self.loaded, self.changes = set[str](), list[str]()
        self.importer = ModelImporter(folder, self._change("load"), self._change("reload"), self.loaded.__contains__)

    def _change(self, what: str) -> Callable[[str], Awaitable[object]]:
        async def change(name: str) -> None:
            if name == "broken":
                raise CheckpointRefused("broken cannot be served.")
            self.changes.append(f"{what} {name}")

        return change

    async def run(self, model: str) -> ModelImport:
        made = await self.importer.start(model)
        while made.state == "running":
            await asyncio.sleep(0.01)
        return made


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Replaces the import's process by a script, which notes its arguments in `arguments`."""
    begin = f"""
import os, signal, sys, time
from pathlib import Path
from models.child_process import ParentChannel
Path({str(tmp_path / "arguments")!r}).write_text(" ".join(sys.argv[1:-1]), encoding="utf-8")
channel = ParentChannel(lambda _: [])
"""

    def replace(text: str) -> None:
        monkeypatch.setattr(model_import, "PROGRAM", ("-c", begin + text))

    return replace


def line(**fields: object) -> str:
    return f"channel.send([{fields!r}])"


def result(name: str, imported: bool = True) -> str:
    return line(models=[{"model": "de-en", "out": f"checkpoints/{name}", "imported": imported}])


def test_import_loads_the_model_when_it_is_ready(
    server: Server, process: Callable[[str], None], tmp_path: Path
) -> None:
    process(result("opus-mt-de-en"))
    made = asyncio.run(server.run("de-en"))
    assert (made.state, made.name, made.error) == ("done", "opus-mt-de-en", None)
    given = (tmp_path / "arguments").read_text(encoding="utf-8").strip()
    assert given == f"de-en --into {tmp_path} --update --progress-to"
    server.loaded.add("opus-mt-de-en")
    asyncio.run(server.run("de-en"))
    process(result("opus-mt-de-en", imported=False))
    asyncio.run(server.run("de-en"))
    assert server.changes == ["load opus-mt-de-en", "reload opus-mt-de-en"]  # and nothing for what has not changed


@pytest.mark.parametrize(
    "address", ["https://anna:hf_secret@huggingface.co/a/b", "https://hf.co/a/b?token=hf_secret#hf_secret"]
)
def test_token_in_an_address_is_neither_kept_nor_logged_nor_handed_on(
    address: str,
    server: Server,
    process: Callable[[str], None],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """People paste the address of a clone. Everybody on a machine can read command lines."""
    caplog.set_level(logging.DEBUG)
    process(result("b"))
    made = asyncio.run(server.run(address))
    assert made.state == "done"
    assert made.model in ("https://huggingface.co/a/b", "https://hf.co/a/b")
    assert f"{made.model} --into" in (tmp_path / "arguments").read_text(encoding="utf-8")
    assert "importing https://h" in caplog.text
    for hidden in ("hf_secret", "anna"):
        assert hidden not in repr(made) + caplog.text + (tmp_path / "arguments").read_text(encoding="utf-8")
    with pytest.raises(InvalidRequest) as refusal:
        asyncio.run(server.importer.start("https://anna:hf_secret@huggingface.co/datasets/a/b"))
    assert "hf_secret" not in str(refusal.value)


def test_progress_is_that_of_the_process(server: Server, process: Callable[[str], None]) -> None:
    download = line(stage="download", model="a/b", bytes=50, total=200, seconds=2.0)
    process(f"channel.send([{{}}])\n{line(note='Once more.')}\n{download}\ntime.sleep(30)")

    async def watch() -> None:
        made = await server.importer.start("de-en")
        while made.stage != "download":
            await asyncio.sleep(0.01)
        assert (made.bytes, made.total, made.seconds_left, made.note) == (50, 200, 6.0, "Once more.")
        for same in ("DE-EN", "opus-mt-de-en", "Helsinki-NLP/opus-mt-de-en@v1"):
            with pytest.raises(ModelConflict, match="is being imported already"):
                await server.importer.start(same)
        await server.importer.start("en-fr")
        with pytest.raises(ModelConflict, match="2 imports are running already"):
            await server.importer.start("en-es")
        cancelled = await server.importer.cancel(made.id)
        assert (cancelled.state, cancelled.seconds_left) == ("cancelled", None)
        await server.importer.stop()
        assert [each.state for each in await server.importer.imports()] == ["cancelled", "cancelled"]

    asyncio.run(watch())
    assert server.changes == []


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("sys.exit('warning: x\\nerror: The hub has no model a/b.')", "The hub has no model a/b."),
        ("sys.exit(1)", model_import.WITHOUT_REASON),
        ("os.kill(os.getpid(), signal.SIGSEGV)", model_import.KILLED.format("a/b", "SIGSEGV")),  # by a hostile file
        (f"channel.send(['no message of ours'])\n{result('broken')}\nsys.exit(1)", model_import.WITHOUT_REASON),
        (f"{result('opus-mt-de-en')}\nsys.exit(1)", model_import.WITHOUT_REASON),
        (
            "channel._connection.sendall(b'\\xff' * 100_000)",
            model_import.WITHOUT_REASON,
        ),  # 4 GB are announced
        (result("broken"), "broken cannot be served."),
    ],
)
def test_failure_is_one_sentence(script: str, error: str, server: Server, process: Callable[[str], None]) -> None:
    process(script)
    made = asyncio.run(server.run("a/b"))
    assert (made.state, made.error) == ("failed", error)
    assert server.changes == []


def test_what_cannot_be_imported_is_refused_at_once(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "",
        "nonsense",
        "--out",
        "-a/b",
        "../../etc/passwd",
        "/checkpoints/x",
        "file:///etc/passwd",
        "a/b@../../x",
        "a/b@/x",
    ):
        with pytest.raises(InvalidRequest, match="is no name of a model on the hub"):
            asyncio.run(server.importer.start(name))
    monkeypatch.setattr(model_import.os, "access", lambda *_: False)
    with pytest.raises(ModelConflict, match="cannot be written by this server"):
        asyncio.run(server.importer.start("de-en"))
    with pytest.raises(UnknownModel):
        asyncio.run(server.importer.cancel(7))
