"""What front ends share beside the engine: the counts of limits and quotas, usage without a key, imports and metrics.
`OwnParts` is in the engine process; a front end has `parts_over` its connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from app.access.memory_store import Charge, ChargeResult, MemoryStore
from app.access.rate_limits import Period, Quota
from app.api.services import KeylessUsage, SharedParts
from app.engine.metrics.collector import Metrics
from app.engine.registry.model_import import ModelImport
from app.front_ends.codec import ServiceParts
from app.front_ends.engine_client import EngineConnection


class OwnParts:
    """Implements `ServiceParts`. count: awaited before a page of metrics is written; the front ends' counters are then
    in `shared.metrics`."""

    def __init__(self, shared: SharedParts, count: Callable[[], Awaitable[None]]) -> None:
        self._metrics, self._count = shared.metrics, count
        counts, importer = shared.counts, shared.importer
        self.take, self.give_back, self.characters = counts.take, counts.give_back, counts.characters
        self.add_keyless = shared.usage.add
        self.imports, self.start_import, self.cancel_import = importer.imports, importer.start, importer.cancel

    async def metrics_page(self, open_metrics: bool) -> bytes:
        await self._count()
        return await self._metrics.page(open_metrics)


class RemoteCounts(MemoryStore):
    """The counts of limits and quotas in the engine process."""

    def __init__(self, connection: EngineConnection) -> None:
        super().__init__()
        self._call = connection.call

    async def take(self, charge: Charge) -> ChargeResult:
        return await self._call(ServiceParts.take, charge)

    async def give_back(self, caller: str, quotas: Sequence[Quota], characters: int) -> None:
        await self._call(ServiceParts.give_back, caller, quotas, characters)

    async def characters(self, caller: str, period: Period) -> int:
        return await self._call(ServiceParts.characters, caller, period)


class RemoteUsage(KeylessUsage):
    def __init__(self, connection: EngineConnection) -> None:
        super().__init__()
        self._call = connection.call

    async def add(self, characters: int) -> int:
        return await self._call(ServiceParts.add_keyless, characters)


class RemoteImports:
    """Implements `ModelImports`."""

    def __init__(self, connection: EngineConnection) -> None:
        self._call = connection.call

    async def imports(self) -> list[ModelImport]:
        return await self._call(ServiceParts.imports)

    async def start(self, model: str) -> ModelImport:
        return await self._call(ServiceParts.start_import, model)

    async def cancel(self, number: int) -> ModelImport:
        return await self._call(ServiceParts.cancel_import, number)

    async def stop(self) -> None:
        """The engine process ends its imports when the service ends."""


class FrontEndMetrics(Metrics):
    """Counts the HTTP requests of this process, which its connection reports; the page is that of the whole service."""

    connection: EngineConnection

    async def page(self, open_metrics: bool) -> bytes:
        return await self.connection.call(ServiceParts.metrics_page, open_metrics)


def parts_over(connection: EngineConnection, metrics: FrontEndMetrics) -> SharedParts:
    """The shared parts as a front end sees them. metrics: of the connection."""
    metrics.connection = connection
    return SharedParts(metrics, RemoteCounts(connection), RemoteUsage(connection), RemoteImports(connection))
