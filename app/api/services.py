"""What `app.main` wires into the routes: the engine, limits, storage and counters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from app.access.authorization import AccessControl
from app.access.key_file import Caller
from app.api.document_jobs import DocumentJobs
from app.api.request_body import RequestLimits
from app.engine.interface import Engine
from app.engine.metrics import Metrics
from app.engine.registry.model_import import ModelImporter
from app.storage.glossary_store import GlossaryStore
from app.storage.translated_file_store import TranslatedFileStore
from app.text.language_detection import Detector
from app.translation.pivot import LanguageRoutes, PivotTranslator

UNLIMITED_CHARACTERS = 1_000_000_000_000  # DeepL's own number: its clients compare with it, and take null for 0


class KeylessUsage:
    """Characters translated without a key since the server's start; `AccessControl` counts by key alone."""

    def __init__(self) -> None:
        self._characters = 0

    def count(self, caller: Caller, characters: int) -> None:
        if not caller.key_id:
            self._characters += characters

    async def of(self, caller: Caller, access: AccessControl) -> tuple[int, int]:
        """Characters that the caller has used and their limit: with a key in this month, without one since the
        start."""
        usage = await access.usage(caller)
        used = usage.characters if caller.key_id else self._characters
        return used, UNLIMITED_CHARACTERS if usage.limit is None else usage.limit


@dataclass(frozen=True, slots=True)
class Services:
    """The parts of the server that the routes call; `app.state.services` holds the one instance."""

    engine: Engine
    importer: ModelImporter
    routes: LanguageRoutes
    translator: PivotTranslator
    detector: Detector
    limits: RequestLimits
    metrics: Metrics
    access: AccessControl
    files: TranslatedFileStore
    glossaries: GlossaryStore
    usage: KeylessUsage
    documents: DocumentJobs
    model_changes: bool
    public_url: str  # what clients put before a path; "": as each client called this server
    storage_problem: str | None  # a sentence where glossaries and files cannot be kept


async def services(request: Request) -> Services:
    wired: Services = request.app.state.services
    return wired


ServicesDependency = Annotated[Services, Depends(services)]
