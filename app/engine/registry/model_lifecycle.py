"""Loads, reloads and unloads models while requests run. A new version is loaded on all devices beside the old version
and then offered to new requests; the old version is freed after its last request. A failure before the switch changes
nothing."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from app.engine.dispatch.supervisor import Supervisor
from app.engine.protocol import messages as m
from app.engine.registry.model_registry import ModelRegistry, ModelVersion
from app.errors import EngineError, ModelConflict, UnknownModel

log = logging.getLogger(__name__)
T = TypeVar("T")


class ModelLifecycle:
    """Loads and frees versions. longest_request_s: a version is freed then even if a request still holds it."""

    def __init__(self, registry: ModelRegistry, supervisor: Supervisor, longest_request_s: float) -> None:
        self._registry, self._supervisor, self._longest_request_s = registry, supervisor, longest_request_s
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._tasks: set[asyncio.Task[Any]] = set()

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def change(self, name: str, change: Callable[[Path], Awaitable[ModelVersion]]) -> ModelVersion:
        """Runs `load`, `reload` or `unload` for a name: one at a time per name, and to its end even if the caller is
        cancelled. Refuses names that are not a single path component."""
        if not name or name.startswith(".") or "\0" in name or Path(name).name != name or "\\" in name:
            raise UnknownModel(f"{name!r} is not a name of a model: names are those of folders.", field="name")
        path = self._registry.folder / name

        async def in_turn() -> ModelVersion:
            lock = self._locks.setdefault(name, asyncio.Lock())
            async with lock:
                return await change(path)

        return await asyncio.shield(self._in_background(in_turn(), name))

    def _in_background(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)

        def ended(task: asyncio.Task[T]) -> None:
            self._tasks.discard(task)
            if not task.cancelled() and (error := task.exception()) is not None:
                log.error("%s: %s", name, error, exc_info=None if isinstance(error, EngineError) else error)

        task.add_done_callback(ended)
        return task

    async def load(self, path: Path) -> ModelVersion:
        """Loads a new folder. Raises ModelConflict if it is loaded already, CheckpointRefused if it is unusable."""
        self._registry.require_read()
        if path.name in self._registry.versions:
            raise ModelConflict(f"{path.name} is loaded already; reload it to read its folder again.", field="name")
        if not await asyncio.to_thread(os.path.isdir, path):  # Path.is_dir raises for a name of 256 bytes
            raise UnknownModel(f"There is no folder {path.name} among the checkpoints.", field="name")
        return await self._publish(path)

    async def reload(self, path: Path) -> ModelVersion:
        """Loads the folder's new content under the old name. Raises like `load`; the old version then stays."""
        old = self._registry.offered(path.name)
        new = await self._publish(path)
        self._in_background(self._retire(old), path.name)
        return new

    async def unload(self, path: Path) -> ModelVersion:
        """Withdraws the model from new requests; returns once its requests are done and the devices have freed it."""
        version = self._registry.offered(path.name)
        self._registry.withdraw(path.name)
        await self._retire(version)
        return version

    async def _publish(self, path: Path) -> ModelVersion:
        """Reads a version, loads it on all devices and then offers it; on failure all devices unload it."""
        version = await asyncio.to_thread(self._registry.read_version, path)
        try:
            await self._supervisor.load(load_message(version))
        except BaseException:
            self._supervisor.unload(version.key)
            raise
        self._registry.offer(version)
        self._supervisor.settle(version.key)
        log.info("%s is now version %d", version.name, version.version)
        return version

    async def _retire(self, version: ModelVersion) -> None:
        """Frees a withdrawn version after its last request."""
        try:
            await self._registry.unused(version, self._longest_request_s)
        except TimeoutError:
            log.warning("%s is still in use after %g s; it is freed", version.key, self._longest_request_s)
        self._supervisor.unload(version.key)


def load_message(version: ModelVersion, *, pinned: bool = False) -> m.Load:
    """The load message. pinned: for starting processes, which must load this version even if the folder has changed."""
    kept = version.pinned.paths() if pinned and version.pinned is not None else {}
    return m.Load(version.key, str(version.folder.absolute()), dict(version.config.files), kept)
