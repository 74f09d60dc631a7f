"""Google's Translation API v2: translate, detect, languages.

Below /language/translate/v2 as Google has it, and below /google/language/translate/v2 as MTranServer has it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool

from app.api.access_control import caller_of, charge
from app.api.errors import documented_as
from app.api.extensions.extensions_routes import TEXT_ERROR_MEANINGS
from app.api.google.schemas import (
    GoogleDetectAnswer,
    GoogleDetection,
    GoogleDetections,
    GoogleDetectRequest,
    GoogleError,
    GoogleLanguage,
    GoogleLanguages,
    GoogleLanguagesAnswer,
    GoogleTranslateAnswer,
    GoogleTranslateRequest,
    GoogleTranslation,
    GoogleTranslations,
)
from app.api.language_pairs import UNSPECIFIED_LANGUAGE, LoadedPairs, assign_pairs, translate_texts
from app.api.route import ApiRoute, read_fields, validate
from app.api.services import Services, ServicesDependency
from app.text.language_codes import google_code, language_name

_STATUS_NAMES = {
    400: ("INVALID_ARGUMENT", "invalid"),
    401: ("UNAUTHENTICATED", "authError"),
    403: ("PERMISSION_DENIED", "forbidden"),
    404: ("NOT_FOUND", "notFound"),
    429: ("RESOURCE_EXHAUSTED", "rateLimitExceeded"),
    500: ("INTERNAL", "backendError"),
    503: ("UNAVAILABLE", "backendError"),
    504: ("DEADLINE_EXCEEDED", "backendError"),
}
_PREFIX = "/language/translate/v2"


def google_error(status: int, body: dict[str, Any]) -> dict[str, Any]:
    name, reason = _STATUS_NAMES.get(status, _STATUS_NAMES[500 if status >= 500 else 400])
    once_more = {"message": body["error"], "domain": "global", "reason": reason}
    return {"error": {"code": status, "message": body["error"], "errors": [once_more], "status": name}}


class GoogleRoute(ApiRoute):
    """JSON, a form or a query, with `q` as often as there are texts."""

    invalid_status = 400
    too_long_status = 400
    missing_key_status = 403
    wrong_key_status = 400  # as Google answers a key that is not valid
    takes_forms = True
    repeated_fields = frozenset({"q"})
    key_fields: tuple[str, ...] = ("key",)
    error_form = staticmethod(google_error)


router = APIRouter(tags=["Extensions"], route_class=GoogleRoute)
_TEXT_ERRORS = documented_as(GoogleError, **TEXT_ERROR_MEANINGS)
Texts = Annotated[list[str] | None, Query(description="A text; once for each.", examples=[["Ich möchte ein Bier"]])]
Target = Annotated[str | None, Query(description="Language to translate to.", examples=["en"])]
Source = Annotated[str | None, Query(description="Language of the texts; nothing: detected.", examples=["de"])]
Format = Annotated[str | None, Query(description='"html" (the default) or "text".', examples=["text"])]
Named = Annotated[
    str | None, Query(alias="target", description="Any code: with it, names come along, in English.", examples=["en"])
]


@router.post(
    _PREFIX,
    summary="Translate texts (Google v2)",
    response_model=GoogleTranslateAnswer,
    response_model_exclude_none=True,
    responses=_TEXT_ERRORS,
)
async def google_translate(body: GoogleTranslateRequest, request: Request, services: ServicesDependency) -> Any:
    """For clients of Google's Translation API v2. Texts are HTML unless `format` is "text"."""
    services.limits.check_texts(body.q, "q")
    asks = await assign_pairs(body.q, body.source, body.target, services)
    is_detected = body.source is None or body.source.strip().lower() in UNSPECIFIED_LANGUAGE
    translations = await translate_texts(body.q, asks, request, services, text_format=body.format)
    return GoogleTranslateAnswer(
        data=GoogleTranslations(
            translations=[
                GoogleTranslation(
                    translatedText=each.text,
                    detectedSourceLanguage=google_code(ask.source) if is_detected else None,
                )
                for ask, each in zip(asks, translations, strict=True)
            ]
        )
    )


@router.get(
    _PREFIX,
    summary="Translate texts (Google v2)",
    response_model=GoogleTranslateAnswer,
    response_model_exclude_none=True,
    responses=_TEXT_ERRORS,
)
async def google_translate_queried(
    request: Request,
    services: ServicesDependency,
    q: Texts = None,
    target: Target = None,
    source: Source = None,
    text_format: Annotated[Format, Query(alias="format")] = None,
) -> Any:
    """As the POST, for clients that ask with a query."""
    del q, target, source, text_format  # for the documentation: they are read as those of a form
    fields = await read_fields(request, takes_forms=True, repeated=GoogleRoute.repeated_fields)
    body = validate(GoogleTranslateRequest, fields)
    characters = sum(map(len, body.q))
    await charge(request, len(body.q) - 1, characters)  # one request is charged already, as of any GET
    try:
        return await google_translate(body, request, services)
    except Exception:
        await services.gate.give_back(caller_of(request), characters)
        raise


@router.post(
    f"{_PREFIX}/detect",
    summary="Detect languages (Google v2)",
    response_model=GoogleDetectAnswer,
    responses=_TEXT_ERRORS,
)
async def google_detect(body: GoogleDetectRequest, request: Request, services: ServicesDependency) -> Any:
    """The likeliest of the loaded languages for each text."""
    services.limits.check_texts(body.q, "q")
    codes = _loaded_codes(services)
    detect = services.detector.detect
    found = await run_in_threadpool(lambda: [detect(text, codes) for text in body.q] if codes else [])
    detections = [
        [GoogleDetection(language=google_code(each.language), confidence=each.confidence / 100, isReliable=False)]
        for each in found
    ]
    return GoogleDetectAnswer(data=GoogleDetections(detections=detections or [[] for _ in body.q]))


@router.get(
    f"{_PREFIX}/languages",
    summary="List languages (Google v2)",
    response_model_exclude_none=True,
    responses=documented_as(GoogleError),
)
async def google_languages(services: ServicesDependency, named: Named = None) -> GoogleLanguagesAnswer:
    """Every language that a loaded model reads or writes."""
    languages = [
        GoogleLanguage(language=google_code(code), name=language_name(code) if named else None)
        for code in _loaded_codes(services)
    ]
    return GoogleLanguagesAnswer(data=GoogleLanguages(languages=languages))


def _loaded_codes(services: Services) -> list[str]:
    return sorted({code for pair in LoadedPairs.of(services.engine).pairs for code in pair})


for _route in [each for each in router.routes if isinstance(each, GoogleRoute)]:
    router.add_api_route(  # where MTranServer has it
        f"/google{_route.path}",
        _route.endpoint,
        methods=_route.methods,
        response_model=_route.response_model,
        response_model_exclude_none=_route.response_model_exclude_none,
        include_in_schema=False,
    )
