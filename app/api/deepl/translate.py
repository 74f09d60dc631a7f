"""POST /v2/translate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool

from app.api.access import caller_of
from app.api.asked import Asked, asked, translate_asked
from app.api.deepl.codes import source_code
from app.api.deepl.route import DeepLRoute
from app.api.errors import documented_as
from app.api.forms import URLENCODED, also_takes
from app.api.owner import owner_of
from app.api.schemas.deepl import DeepLError, DeepLTranslateAnswer, DeepLTranslateRequest, DeepLTranslation
from app.api.services import Services, ServicesDependency
from app.text.tags import check_well_formed, marked, unmarked
from app.translation.job import TranslatedText

router = APIRouter(tags=["DeepL"], route_class=DeepLRoute)

FORM = also_takes("DeepLTranslateRequest", {URLENCODED: {}})


REFUSED_TEXTS = documented_as(
    DeepLError,
    s400="The request cannot be answered as it is: a field is wrong, a text too long, a language not there.",
    s403="The key is missing or wrong.",
    s404="There is no such glossary.",
    s413="The body is too large.",
    s415="The body is neither JSON nor a form.",
    s429="The queue is full; Retry-After says when to try again.",
    s456="The quota of this key is used up.",
    s503="No device can translate right now; Retry-After says when to try again.",
    s504="The translation took too long.",
)


@router.post(
    "/v2/translate",
    summary="Translate texts (DeepL)",
    response_model=DeepLTranslateAnswer,
    response_model_exclude_none=True,
    openapi_extra=FORM,
    responses=REFUSED_TEXTS,
)
async def deepl_translate(body: DeepLTranslateRequest, request: Request, services: ServicesDependency) -> Any:
    """Translates `text`, in DeepL's form: point its clients here with `server_url`."""
    services.limits.check_texts(body.text, "text")
    if body.tag_handling == "xml":
        for text in body.text:
            check_well_formed(text, "text")
    asks = await asked(body.text, body.source_lang, body.target_lang, services)
    translations = await translate_asked(
        [marked(text, body.ignore_tags) for text in body.text],
        asks,
        request,
        services,
        text_format="html" if body.tag_handling else "text",
        glossary=await _glossary(body, asks[0], owner_of(request), services),
        split=body.split_sentences != "0",
    )
    services.usage.count(caller_of(request), sum(map(len, body.text)))
    return _answer(body, asks, translations)


async def _glossary(body: DeepLTranslateRequest, pair: Asked, owner: str, services: Services) -> Mapping[str, str]:
    """Of all that are named together: with a glossary, all texts have one pair."""
    find, merged = services.glossaries.find, dict[str, str]()
    for glossary_id in reversed(body.glossaries):
        merged |= await run_in_threadpool(find, owner, glossary_id, pair.source, pair.target)
    return merged


def _answer(
    body: DeepLTranslateRequest, asks: Sequence[Asked], translations: Sequence[TranslatedText]
) -> DeepLTranslateAnswer:
    model_type = body.model_type.removeprefix("prefer_") if body.model_type else None
    return DeepLTranslateAnswer(
        translations=[
            DeepLTranslation(
                detected_source_language=source_code(ask.source),
                text=unmarked(each.text, body.ignore_tags),
                billed_characters=len(text),
                model_type_used=model_type,
                finish_reason=None if each.finish_reason == "stop" else each.finish_reason,
            )
            for text, ask, each in zip(body.text, asks, translations, strict=True)
        ]
    )
