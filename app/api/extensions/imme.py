"""POST /imme: what Immersive Translate asks of a custom API."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from app.api.asked import asked, translate_asked
from app.api.extensions.route import REFUSED, ExtensionRoute
from app.api.schemas.extensions import ImmeAnswer, ImmeRequest, ImmeTranslation
from app.api.services import ServicesDependency
from app.text.languages import google_code

router = APIRouter(tags=["Extensions"], route_class=ExtensionRoute)


@router.post("/imme", summary="Translate texts (Immersive Translate)", response_model=ImmeAnswer, responses=REFUSED)
async def imme(body: ImmeRequest, request: Request, services: ServicesDependency) -> Any:
    """For Immersive Translate: enter this address, with ?token=KEY where keys are needed, as its custom API."""
    services.limits.check_texts(body.text_list, "text_list")
    asks = await asked(body.text_list, body.source_lang, body.target_lang, services)
    translations = await translate_asked(body.text_list, asks, request, services)
    return ImmeAnswer(
        translations=[
            ImmeTranslation(detected_source_lang=google_code(ask.source), text=each.text)
            for ask, each in zip(asks, translations, strict=True)
        ]
    )
