"""POST /imme, /kiss, /hcfy, /deeplx, and /deepl (as POST /v2/translate)."""

from __future__ import annotations

import secrets
from typing import ClassVar

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool

from app.api.deepl.routes import DeepLRoute, deepl_translate, source_code
from app.api.errors import TEXT_ERRORS, ErrorAnswer, Statuses, documented
from app.api.extensions import schemas
from app.api.language_pairs import LoadedPairs, find_pairs, translate_texts
from app.api.route import ApiRoute
from app.api.services import Services, ServicesDependency
from app.errors import InvalidRequest, TextTooLong
from app.text.language_codes import chinese_name, closest_codes, code_of_chinese_name, google_code
from app.translation import TextFormat

EXTENSION_ERRORS = documented(ErrorAnswer, TEXT_ERRORS)


class ExtensionRoute(ApiRoute):
    """JSON, with the key in a header or as ?token=. Errors are ours: the extensions show the body as it is."""

    statuses: ClassVar[Statuses] = {InvalidRequest: 400, TextTooLong: 400}
    key_fields: ClassVar[tuple[str, ...]] = ("token",)


class DeepLXRoute(ExtensionRoute):
    error_schema = schemas.DeepLXError


class DeepLTokenRoute(DeepLRoute):
    """DeepL's form for extensions, which cannot always set a header."""

    key_fields = ("auth_key", "token")


router = APIRouter(tags=["Extensions"], route_class=ExtensionRoute)
deeplx_router = APIRouter(tags=["Extensions"], route_class=DeepLXRoute)
deepl_router = APIRouter(tags=["Extensions"], route_class=DeepLTokenRoute)


@router.post("/imme", summary="Translate texts (Immersive Translate)", responses=EXTENSION_ERRORS)
async def imme(body: schemas.ImmeRequest, request: Request, services: ServicesDependency) -> schemas.ImmeAnswer:
    """For Immersive Translate: enter this address, with ?token=KEY where keys are needed, as its custom API."""
    services.limits.check_texts(body.text_list, "text_list")
    pairs = await find_pairs(body.text_list, body.source_lang, body.target_lang, services)
    translations = await translate_texts(body.text_list, pairs, request, services)
    answers = [
        schemas.ImmeTranslation(detected_source_lang=google_code(pair.source), text=each.text)
        for pair, each in zip(pairs, translations, strict=True)
    ]
    return schemas.ImmeAnswer(translations=answers)


@router.post(
    "/kiss", summary="Translate texts (Kiss Translator)", response_model_exclude_none=True, responses=EXTENSION_ERRORS
)
async def kiss(body: schemas.KissRequest, request: Request, services: ServicesDependency) -> schemas.KissAnswer:
    """For Kiss Translator: enter this address, and the key where one is needed, as a custom API."""
    texts = body.texts if body.texts is not None else [body.text or ""]
    services.limits.check_texts(texts, "text" if body.texts is None else "texts")
    pairs = await find_pairs(texts, body.source, body.to, services)
    translations = [
        schemas.KissTranslation(text=each.text, src=google_code(pair.source))
        for pair, each in zip(pairs, await translate_texts(texts, pairs, request, services), strict=True)
    ]
    if body.texts is None:
        return schemas.KissAnswer(text=translations[0].text, src=translations[0].src)
    return schemas.KissAnswer(translations=translations)


@router.post("/hcfy", summary="Translate a text (Selection Translator)", responses=EXTENSION_ERRORS)
async def hcfy(body: schemas.HcfyRequest, request: Request, services: ServicesDependency) -> schemas.HcfyAnswer:
    """For Selection Translator: enter this address as a custom source. `result` has one entry for each line of `text`;
    a text that is in the first language of `destination` is translated into the second."""
    services.limits.check_texts([body.text], "text")
    lines = body.text.split("\n")
    services.limits.check_texts(lines, "text")
    source = code_of_chinese_name(body.source) if body.source else None
    target = await _choose_target(body, source, services)
    (whole,) = await find_pairs([body.text], source, code_of_chinese_name(target), services)
    # The text has one language: a line of it may be too short to show which.
    translations = await translate_texts(lines, [whole] * len(lines), request, services)
    result = [each.text for each in translations]
    return schemas.HcfyAnswer(text=body.text, **{"from": chinese_name(whole.source)}, to=target, result=result)


async def _choose_target(body: schemas.HcfyRequest, source: str | None, services: Services) -> str:
    """The first language that is not the text's own."""
    if len(body.destination) == 1:
        return body.destination[0]
    known = list(dict.fromkeys(code for pair in LoadedPairs(services.engine).pairs for code in pair))
    if source is None and known:
        source = (await run_in_threadpool(services.detector.detect, body.text, known)).language
    for name in body.destination:
        if source is None or not closest_codes(code_of_chinese_name(name), [source]):
            return name
    return body.destination[0]


@deeplx_router.post("/deeplx", include_in_schema=False)
async def deeplx(body: schemas.DeepLXRequest, request: Request, services: ServicesDependency) -> schemas.DeepLXAnswer:
    """For clients of DeepLX. `alternatives` is there and empty: these clients translate pages, and show one."""
    services.limits.check_texts([body.text], "text")
    (pair,) = pairs = await find_pairs([body.text], body.source_lang, body.target_lang, services)
    text_format: TextFormat | None = "html" if body.tag_handling else None
    (translation,) = await translate_texts([body.text], pairs, request, services, text_format=text_format)
    return schemas.DeepLXAnswer(
        code=200,
        id=secrets.randbelow(9 * 10**9) + 10**9,
        data=translation.text,
        alternatives=[],
        source_lang=source_code(pair.source),
        target_lang=body.target_lang.upper(),
        method="Free",
    )


# As POST /v2/translate, with the key as ?token= where a header cannot be set.
deepl_router.post("/deepl", name="deepl_by_token", response_model_exclude_none=True, include_in_schema=False)(
    deepl_translate
)
