"""POST /hcfy: what Selection Translator (划词翻译) asks of a custom source. Languages are their Chinese names."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool

from app.api.asked import Asked, asked, translate_asked
from app.api.extensions.route import REFUSED, ExtensionRoute
from app.api.pairs import LoadedPairs
from app.api.schemas.extensions import HcfyAnswer, HcfyRequest
from app.api.services import Services, ServicesDependency
from app.text.chinese_names import chinese_name, code_of
from app.text.languages import closest

router = APIRouter(tags=["Extensions"], route_class=ExtensionRoute)


@router.post("/hcfy", summary="Translate a text (Selection Translator)", response_model=HcfyAnswer, responses=REFUSED)
async def hcfy(body: HcfyRequest, request: Request, services: ServicesDependency) -> Any:
    """For Selection Translator: enter this address as a custom source. `result` has one entry for each line of `text`;
    a text that is in the first language of `destination` is translated into the second."""
    services.limits.check_texts([body.text], "text")
    lines = body.text.split("\n")
    services.limits.check_texts(lines, "text")
    source = code_of(body.source) if body.source else None
    target = await _target(body, source, services)
    (whole,) = await asked([body.text], source, code_of(target), services)
    # The text has one language: a line of it may be too short to show which.
    asks = [Asked(whole.source, whole.target, whole.stays)] * len(lines)
    translations = await translate_asked(lines, asks, request, services)
    return HcfyAnswer(
        text=body.text,
        **{"from": chinese_name(whole.source)},
        to=target,
        result=[each.text for each in translations],
    )


async def _target(body: HcfyRequest, source: str | None, services: Services) -> str:
    """The first that is not the text's own language."""
    if len(body.destination) == 1:
        return body.destination[0]
    known = list(dict.fromkeys(code for pair in LoadedPairs.of(services.engine).pairs for code in pair))
    if source is None and known:
        source = (await run_in_threadpool(services.detector.detect, body.text, known)).language
    others = [name for name in body.destination if source is None or not closest(code_of(name), [source])]
    return others[0] if others else body.destination[0]
