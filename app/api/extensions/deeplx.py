"""POST /deeplx: DeepLX's form, one text at a time. POST /deepl: DeepL's own, for who enters a whole address."""

from __future__ import annotations

import secrets
from typing import Any

from fastapi import APIRouter, Request

from app.api.asked import asked, translate_asked
from app.api.deepl.codes import source_code
from app.api.deepl.route import DeepLRoute
from app.api.deepl.translate import FORM, REFUSED_TEXTS, deepl_translate
from app.api.errors import documented_as
from app.api.extensions.route import OF_TEXTS, ExtensionRoute
from app.api.schemas.deepl import DeepLTranslateAnswer, DeepLTranslateRequest
from app.api.schemas.extensions import DeepLXAnswer, DeepLXError, DeepLXRequest
from app.api.services import ServicesDependency
from app.translation.job import TextFormat


class DeepLByToken(DeepLRoute):
    """Extensions cannot always set a header."""

    key_fields = ("auth_key", "token")


def deeplx_error(status: int, body: dict[str, Any]) -> dict[str, Any]:
    return {"code": status, "message": body["error"]}


class DeepLXRoute(ExtensionRoute):
    error_form = staticmethod(deeplx_error)


router = APIRouter(tags=["Extensions"], route_class=DeepLXRoute)
deepl_router = APIRouter(tags=["Extensions"], route_class=DeepLByToken)


@router.post(
    "/deeplx",
    summary="Translate a text (DeepLX)",
    response_model=DeepLXAnswer,
    responses=documented_as(DeepLXError, **OF_TEXTS),
)
async def deeplx(body: DeepLXRequest, request: Request, services: ServicesDependency) -> Any:
    """For clients of DeepLX. `alternatives` is there and empty: these clients translate pages, and show one."""
    services.limits.check_texts([body.text], "text")
    (ask,) = asks = await asked([body.text], body.source_lang, body.target_lang, services)
    text_format: TextFormat | None = "html" if body.tag_handling else None
    (translation,) = await translate_asked([body.text], asks, request, services, text_format=text_format)
    return DeepLXAnswer(
        code=200,
        id=secrets.randbelow(9 * 10**9) + 10**9,
        data=translation.text,
        alternatives=[],
        source_lang=source_code(ask.source),
        target_lang=body.target_lang.upper(),
        method="Free",
    )


@deepl_router.post(
    "/deepl",
    summary="Translate texts (DeepL's form)",
    response_model=DeepLTranslateAnswer,
    response_model_exclude_none=True,
    openapi_extra=FORM,
    responses=REFUSED_TEXTS,
)
async def deepl_by_token(body: DeepLTranslateRequest, request: Request, services: ServicesDependency) -> Any:
    """As POST /v2/translate, with the key as ?token= where a header cannot be set."""
    return await deepl_translate(body, request, services)
