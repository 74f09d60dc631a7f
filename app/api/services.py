"""What `app.main` wires into the API: the engine, the detector, the limits, what is counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from app.access.gate import Gate
from app.api.document_jobs import DocumentJobs
from app.api.limits import Limits
from app.api.usage import CountedHere
from app.engine.jobs import Engine
from app.engine.metrics import Metrics
from app.storage.glossaries import Glossaries
from app.storage.suggestions import Suggestions
from app.storage.translated_files import TranslatedFiles
from app.text.detection import Detector
from app.translation.translator import Translator


@dataclass(frozen=True, slots=True)
class Services:
    """Kept as `app.state.services`. write_timeout_s: a reader of a stream that takes nothing for so long is left."""

    engine: Engine
    translator: Translator
    detector: Detector
    limits: Limits
    write_timeout_s: float
    metrics: Metrics
    gate: Gate
    files: TranslatedFiles
    glossaries: Glossaries
    usage: CountedHere
    documents: DocumentJobs
    suggestions: Suggestions | None = None  # None: switched off
    public_url: str = ""  # what clients put before a path; "": as each of them called us


async def services(request: Request) -> Services:
    """The services of the app that answers this request."""
    wired = request.app.state.services
    assert isinstance(wired, Services)
    return wired


ServicesDependency = Annotated[Services, Depends(services)]
