"""Imports models from the Hugging Face Hub while requests run, and loads them when they are ready.

An import is a process of its own, `python -m training import-marian`: it needs PyTorch and a copy of the weights, which
the front end should not keep; it can be ended at any time; and `app` need not know `training`."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Literal, Protocol

from app.errors import EngineError, InvalidRequest, ModelConflict, UnknownModel
from models.model_names import parse_model_name

log = logging.getLogger(__name__)

State = Literal["running", "done", "failed", "cancelled"]
Stage = Literal["start", "look_up", "download", "verify", "convert", "load"]
MOST_RUNNING = 2
MOST_KEPT = 20  # of those that have ended
END_S = 5.0  # for a process to remove its temporary files
WITHOUT_REASON = "The import ended without saying why; the server's log may tell more."


@dataclass(slots=True)
class ModelImport:
    """model: as it was asked for. name: of the loaded model, once it is known. bytes, total: of this stage, 0 where it
    is not counted in bytes. seconds: since the stage began. error: one sentence, of an import that failed. note: the
    last thing that people should know of it. changed: whether the folder is another than before."""

    id: int
    model: str
    state: State = "running"
    stage: Stage = "start"
    name: str | None = None
    bytes: int = 0
    total: int = 0
    seconds: float = 0.0
    error: str | None = None
    note: str | None = None
    changed: bool = False

    @property
    def seconds_left(self) -> float | None:
        """Of this stage, at its mean speed; None while it is not known."""
        if self.state != "running" or not self.bytes or not self.seconds:
            return None
        return (self.total - self.bytes) * self.seconds / self.bytes

    def read(self, line: dict[str, Any]) -> None:
        """Takes over a line of the process, see `training.importers.import_progress.JsonProgress`."""
        if "note" in line:
            self.note = str(line["note"])
        elif line.get("stage") in ("look_up", "download", "verify", "convert"):
            self.stage, self.bytes, self.total = line["stage"], int(line["bytes"]), int(line["total"])
            self.seconds = float(line["seconds"])
        elif line.get("models"):
            self.name, self.changed = Path(line["models"][0]["out"]).name, bool(line["models"][0]["imported"])


class ModelImports(Protocol):
    """The imports of a server, as the routes see them."""

    async def imports(self) -> list[ModelImport]:
        """The newest first."""

    async def start(self, model: str) -> ModelImport:
        """Raises InvalidRequest for something that cannot be on the Hub, and ModelConflict where this import or others
        are running, or nothing can be written."""

    async def cancel(self, number: int) -> ModelImport:
        """Ends a running import, of which nothing stays but what the Hub's cache holds. Raises UnknownModel."""

    async def stop(self) -> None:
        """Ends the running imports."""


class ModelImporter:
    """The imports of a server. folder: of the checkpoints. load, reload: of a model by its name. loaded: whether a
    model of that name is."""

    def __init__(
        self,
        folder: Path,
        load: Callable[[str], Awaitable[object]],
        reload: Callable[[str], Awaitable[object]],
        loaded: Callable[[str], bool],
    ) -> None:
        self.folder = folder
        self._load, self._reload, self._loaded = load, reload, loaded
        self._ids = count(1)
        self._imports: dict[int, ModelImport] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}

    async def imports(self) -> list[ModelImport]:
        """The newest first."""
        return sorted(self._imports.values(), key=lambda each: -each.id)

    async def start(self, model: str) -> ModelImport:
        """Raises InvalidRequest for something that cannot be on the Hub, and ModelConflict where this import or others
        are running, or nothing can be written."""
        parsed = parse_model_name(model)
        model, repositories = parsed.given, parsed.repositories
        if not repositories:
            example = "Helsinki-NLP/opus-mt-de-en, de-en, or the address of a model's page"
            raise InvalidRequest(
                f"{model!r} is no name of a model on the hub: give one such as {example}.", field="model"
            )
        if self.folder.is_dir() and not os.access(self.folder, os.W_OK):
            way = "import the model where it can, with `parlance import`, and load it here"
            raise ModelConflict(f"{self.folder} cannot be written by this server: {way}.", field="model")
        running = [each for each in self._imports.values() if each.state == "running"]
        # a pair may mean several repositories, of which the first is nearly always the one
        if any(parse_model_name(each.model).repositories[0] == repositories[0] for each in running):
            raise ModelConflict(f"{model} is being imported already.", field="model")
        if len(running) >= MOST_RUNNING:
            raise ModelConflict(f"{MOST_RUNNING} imports are running already: wait for one of them.", field="model")
        made = ModelImport(next(self._ids), model)
        self._imports[made.id] = made
        for old in (await self.imports())[MOST_KEPT:]:
            if old.state != "running":
                del self._imports[old.id]
        self._tasks[made.id] = asyncio.create_task(self._run(made))
        return made

    async def cancel(self, number: int) -> ModelImport:
        """Ends a running import, of which nothing stays but what the Hub's cache holds. Raises UnknownModel."""
        if number not in self._imports:
            raise UnknownModel(f"There is no import {number}.", field="number")
        await self._end(number)
        return self._imports[number]

    async def stop(self) -> None:
        await asyncio.gather(*map(self._end, list(self._tasks)))

    async def _end(self, number: int) -> None:
        if (task := self._tasks.get(number)) is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self, made: ModelImport) -> None:
        log.info("importing %s", made.model)
        try:
            made.error = await self._import(made)
            if made.error is None and made.name is not None:
                made.stage, made.bytes, made.total = "load", 0, 0
                if not self._loaded(made.name):
                    await self._load(made.name)
                elif made.changed:
                    await self._reload(made.name)
            made.state = "done" if made.error is None else "failed"
        except asyncio.CancelledError:
            made.state = "cancelled"
            raise
        except EngineError as error:
            made.state, made.error = "failed", error.message
        except OSError as error:
            made.state, made.error = "failed", f"The import could not be started ({error.strerror})."
        finally:
            self._tasks.pop(made.id, None)
            log.info("import of %s: %s%s", made.model, made.state, f" ({made.error})" if made.error else "")

    async def _import(self, made: ModelImport) -> str | None:
        """Runs the process; returns its error."""
        module = [sys.executable, "-m", "training", "import-marian", made.model]
        process = await asyncio.create_subprocess_exec(
            *module,
            *("--into", str(self.folder), "--update", "--progress", "json"),
            env={"OMP_NUM_THREADS": "1", **os.environ},  # the requests' threads should not wait for it
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None and process.stderr is not None
        complaints = asyncio.create_task(process.stderr.read())
        try:
            async for line in process.stdout:
                try:
                    made.read(json.loads(line))
                except (ValueError, KeyError, TypeError):
                    continue  # no line of ours
            status = await process.wait()
            said = (await complaints).decode(errors="replace").strip().splitlines()
        finally:
            if process.returncode is None:
                process.terminate()
                try:
                    await asyncio.wait_for(process.wait(), END_S)
                except TimeoutError:
                    process.kill()
            complaints.cancel()
        if status == 0 and made.name is not None:
            return None
        return next(
            (line.removeprefix("error: ") for line in reversed(said) if line.startswith("error: ")), WITHOUT_REASON
        )
