"""Loading, reloading and unloading models while requests run.

A new version is loaded on all devices beside the old one, then new requests get it, and when the last request of the
old one has ended, the old one is freed. Whatever fails before the change leaves everything as it was."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from app.engine.dispatch.supervisor import Supervisor
from app.engine.errors import EngineError, ModelConflict, UnknownModel
from app.engine.protocol import messages as m
from app.engine.registry.model_registry import ModelRegistry, ModelVersion

log = logging.getLogger(__name__)


class ModelLifecycle:
    """folder: where checkpoints lie; names are those of its sub-folders. longest_request_s: no request lasts longer,
    so that a version is freed after that time even if someone has forgotten to give it back."""

    def __init__(
        self, folder: Path, library: Callable[[], ModelRegistry], devices: Supervisor, longest_request_s: float
    ) -> None:
        self.folder, self._library, self._devices = folder, library, devices
        self._longest_request_s = longest_request_s
        self._users: Counter[str] = Counter()
        self._left: dict[str, asyncio.Event] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._tasks: set[asyncio.Task[Any]] = set()

    @contextlib.contextmanager
    def in_use(self, editions: Iterable[ModelVersion]) -> Iterator[None]:
        """A request that has begun with these keeps them on the devices until it ends."""
        keys = {edition.key for edition in editions}
        self._users.update(keys)
        try:
            yield
        finally:
            for key in keys:
                self._users[key] -= 1
                if not self._users[key]:
                    del self._users[key]
                    if key in self._left:
                        self._left[key].set()

    async def load(self, name: str) -> ModelVersion:
        """A folder that has come since the start. ModelConflict if it is loaded, CheckpointRefused if it cannot be."""
        return await self._alone(name, self._load)

    async def reload(self, name: str) -> ModelVersion:
        """The folder's new content under the old name. Raises like `load`; then the old version goes on."""
        return await self._alone(name, self._reload)

    async def unload(self, name: str) -> ModelVersion:
        """New requests do not find it; returns when those that have it are done and the devices have freed it."""
        return await self._alone(name, self._unload)

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _alone(self, name: str, work: Callable[[Path], Awaitable[ModelVersion]]) -> ModelVersion:
        """One change of a name at a time, carried to its end even if whoever asked for it has left."""
        path = self._path(name)

        async def in_turn() -> ModelVersion:
            lock = self._locks.setdefault(name, asyncio.Lock())
            async with lock:
                return await work(path)

        task = self._in_background(in_turn(), name)
        return await asyncio.shield(task)

    def _in_background(self, work: Any, name: str) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.create_task(work)
        self._tasks.add(task)

        def ended(task: asyncio.Task[Any]) -> None:
            self._tasks.discard(task)
            if not task.cancelled() and (error := task.exception()) is not None:
                log.error("%s: %s", name, error, exc_info=None if isinstance(error, EngineError) else error)

        task.add_done_callback(ended)
        return task

    def _path(self, name: str) -> Path:
        """The folder of that name. A name is one part of a path, never a way out of the folder."""
        if not name or name.startswith(".") or "\0" in name or Path(name).name != name or "\\" in name:
            raise UnknownModel(f"{name!r} is not a name of a model: names are those of folders.", field="name")
        return self.folder / name

    async def _load(self, path: Path) -> ModelVersion:
        if path.name in self._library().checkpoints:
            raise ModelConflict(f"{path.name} is loaded already; reload it to read its folder again.", field="name")
        if not await asyncio.to_thread(os.path.isdir, path):  # not Path.is_dir, which raises at a name of 256 bytes
            raise UnknownModel(f"There is no folder {path.name} among the checkpoints.", field="name")
        return await self._publish(path)

    async def _reload(self, path: Path) -> ModelVersion:
        old = self.loaded(path.name)
        new = await self._publish(path)
        self._in_background(self._retire(old), path.name)
        return new

    async def _unload(self, path: Path) -> ModelVersion:
        edition = self.loaded(path.name)
        self._library().drop(path.name)
        await self._retire(edition)
        return edition

    def loaded(self, name: str) -> ModelVersion:
        """What new requests get of that name; UnknownModel if it is not offered."""
        library = self._library()
        if name not in library.checkpoints:
            listed = ", ".join(library.checkpoints) or "none"
            raise UnknownModel(f"No model {name} is loaded. Loaded: {listed}.", field="name")
        return library.checkpoints[name]

    async def _publish(self, path: Path) -> ModelVersion:
        """Read, load everywhere, and only then offer it; a half-loaded version is taken back from all devices."""
        edition: ModelVersion = await asyncio.to_thread(self._library().edition, path)
        try:
            await self._devices.load(load_message(edition))
        except BaseException:
            self._devices.unload(edition.key)
            raise
        self._library().put(edition)
        self._devices.settle(edition.key)
        log.info("%s is now version %d", edition.name, edition.version)
        return edition

    async def _retire(self, edition: ModelVersion) -> None:
        """Free a version that no new request gets, as soon as the last one has given it back."""
        if self._users[edition.key]:
            self._left[edition.key] = asyncio.Event()
            try:
                await asyncio.wait_for(self._left[edition.key].wait(), self._longest_request_s)
            except TimeoutError:
                log.warning("%s is still in use after %g s; it is freed", edition.key, self._longest_request_s)
            finally:
                del self._left[edition.key]
        self._devices.unload(edition.key)


def load_message(edition: ModelVersion) -> m.Load:
    return m.Load(edition.key, str(edition.folder.absolute()), dict(edition.config.files))


def load_again_message(edition: ModelVersion) -> m.Load:
    """For a process that starts: it must serve what the others serve, whatever lies in the folder by now."""
    kept = edition.kept.paths() if edition.kept is not None else {}
    return msgspec.structs.replace(load_message(edition), kept=kept)
