"""POST /kiss: what Kiss Translator asks of a custom API, text by text or, where it aggregates, many at once."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from app.api.asked import asked, translate_asked
from app.api.extensions.route import REFUSED, ExtensionRoute
from app.api.schemas.extensions import KissAnswer, KissRequest, KissTranslation
from app.api.services import ServicesDependency
from app.text.languages import google_code

router = APIRouter(tags=["Extensions"], route_class=ExtensionRoute)


@router.post(
    "/kiss",
    summary="Translate texts (Kiss Translator)",
    response_model=KissAnswer,
    response_model_exclude_none=True,
    responses=REFUSED,
)
async def kiss(body: KissRequest, request: Request, services: ServicesDependency) -> Any:
    """For Kiss Translator: enter this address, and the key where one is needed, as a custom API."""
    texts = body.texts if body.texts is not None else [body.text or ""]
    services.limits.check_texts(texts, "text" if body.texts is None else "texts")
    asks = await asked(texts, body.source, body.to, services)
    translations = [
        KissTranslation(text=each.text, src=google_code(ask.source))
        for ask, each in zip(asks, await translate_asked(texts, asks, request, services), strict=True)
    ]
    if body.texts is None:
        return KissAnswer(text=translations[0].text, src=translations[0].src)
    return KissAnswer(translations=translations)
