"""Imports models from the Hugging Face Hub while requests run, and loads them when they are ready.

An import is a process of its own, `python -m training import-marian`: it needs PyTorch and a copy of the weights, which
the front end should not keep; it can be ended at any time, and what it has left is then cleared; and `app` need not
know `training`."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Literal

import msgspec

from app.errors import EngineError, InvalidRequest, ModelConflict, UnknownModel
from models.child_process import AnsweringChild, end_in_words
from models.imported_folder import clear_leftovers
from models.model_names import parse_model_name

log = logging.getLogger(__name__)

State = Literal["running", "done", "failed", "cancelled"]
Stage = Literal["start", "look_up", "download", "verify", "convert", "load"]
MOST_RUNNING = 2
MOST_KEPT = 20  # of those that have ended
PROGRAM = ("-m", "training", "import-marian")
SILENT_S = 300.0  # without a message of a process, which ends slow downloads itself
MOST_BYTES = 65_536  # of its messages that come at once
MOST_COMPLAINTS = 65_536  # bytes of its standard error that are read
WITHOUT_REASON = "The import ended without saying why; the server's log may tell more."
KILLED = "The import of {} was ended ({}), as a damaged or hostile file of a model can do; nothing was imported."
_DECODE = msgspec.msgpack.Decoder(list[dict[str, Any]]).decode


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
        """Takes over a message of the process, see `training.importers.import_progress.LineProgress`."""
        if "note" in line:
            self.note = str(line["note"])
        elif line.get("stage") in ("look_up", "download", "verify", "convert"):
            self.stage, self.bytes, self.total = line["stage"], int(line["bytes"]), int(line["total"])
            self.seconds = float(line["seconds"])
        elif line.get("models"):
            self.name, self.changed = Path(line["models"][0]["out"]).name, bool(line["models"][0]["imported"])


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
        except TimeoutError:
            made.state, made.error = "failed", f"The import of {made.model} did nothing for {SILENT_S:g} seconds."
        except OSError as error:
            made.state, made.error = "failed", f"The import could not be started ({error.strerror})."
        except Exception as error:
            log.exception("import of %s", made.model)
            made.state, made.error = "failed", f"The import of {made.model} failed ({type(error).__name__})."
        finally:
            self._tasks.pop(made.id, None)
            log.info("import of %s: %s%s", made.model, made.state, f" ({made.error})" if made.error else "")

    async def _import(self, made: ModelImport) -> str | None:
        """Runs the process; returns its error."""
        program = [*PROGRAM, made.model, "--into", str(self.folder), "--update", "--progress-to"]
        child = AnsweringChild(f"the import of {made.model}", program, _DECODE, MOST_BYTES)
        with TemporaryFile() as complaints:
            try:
                # the requests' threads should not wait for it
                await child.start({"OMP_NUM_THREADS": "1", **os.environ}, complaints=complaints)
                while True:
                    message = await asyncio.wait_for(child.receive(), SILENT_S)
                    with suppress(ValueError, KeyError, TypeError):  # no message of ours
                        made.read(message)
            except EOFError:
                pass
            finally:
                await child.stop()
                await asyncio.to_thread(clear_leftovers, self.folder)  # of a process that was killed
            complaints.seek(max(0, complaints.seek(0, os.SEEK_END) - MOST_COMPLAINTS))
            said = complaints.read().decode(errors="replace").strip().splitlines()
        status = child.status or 0
        if status == 0 and made.name is not None:
            return None
        errors = [line.removeprefix("error: ") for line in said if line.startswith("error: ")]
        if not errors:
            log.error("import of %s ended with %s: %r", made.model, end_in_words(status), said[-1:])
            errors = [KILLED.format(made.model, end_in_words(status)) if status < 0 else WITHOUT_REASON]
        return errors[-1]
