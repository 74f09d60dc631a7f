"""What `app.main` wires into the API: the engine, the detector, the limits, what is counted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request

from app.api.limits import Limits
from app.api.usage import Usage
from app.engine.jobs import Engine
from app.engine.metrics import Metrics
from app.storage.glossaries import Glossaries
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
    glossaries: Glossaries
    usage: Usage
    admin_key: str = field(default="", repr=False)  # empty: nobody may change what is loaded


async def services(request: Request) -> Services:
    """The services of the app that answers this request."""
    wired = request.app.state.services
    assert isinstance(wired, Services)
    return wired


ServicesDependency = Annotated[Services, Depends(services)]
