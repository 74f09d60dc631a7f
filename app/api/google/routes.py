"""Google's Translation API v2: translate, detect, languages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, ClassVar, TypeVar

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool

from app.access.authorization import KeyMissing, KeyWrong
from app.api.access_control import charge, refund
from app.api.errors import TEXT_ERRORS, Statuses, documented
from app.api.google import schemas
from app.api.language_pairs import UNSPECIFIED_LANGUAGE, LoadedPairs, find_pairs, translate_texts
from app.api.request_body import parse_fields
from app.api.request_fields import RequestFields
from app.api.route import ApiRoute, validate
from app.api.services import Services, ServicesDependency
from app.errors import InvalidRequest, TextTooLong
from app.text.language_codes import google_code, language_name

_PREFIX = "/language/translate/v2"
Body = TypeVar("Body", bound=RequestFields)
Answer = TypeVar("Answer")


class GoogleRoute(ApiRoute):
    """JSON, a form or a query, with `q` as often as there are texts. Google answers an invalid key with 400."""

    statuses: ClassVar[Statuses] = {InvalidRequest: 400, TextTooLong: 400, KeyMissing: 403, KeyWrong: 400}
    error_schema = schemas.GoogleError
    takes_forms = True
    repeated_fields = frozenset({"q"})
    key_fields: ClassVar[tuple[str, ...]] = ("key",)


router = APIRouter(tags=["Google"], route_class=GoogleRoute)
_TEXT_ERRORS = documented(schemas.GoogleError, TEXT_ERRORS)
Texts = Annotated[list[str] | None, Query(description="A text; once for each.", examples=[["Ich möchte ein Bier"]])]
Target = Annotated[str | None, Query(description="Language to translate to.", examples=["en"])]
Source = Annotated[str | None, Query(description="Language of the texts; nothing: detected.", examples=["de"])]
Format = Annotated[str | None, Query(description='"html" (the default) or "text".', examples=["text"])]
Named = Annotated[
    str | None, Query(alias="target", description="Any code: with it, names come along, in English.", examples=["en"])
]


@router.post(_PREFIX, summary="Translate texts (Google v2)", response_model_exclude_none=True, responses=_TEXT_ERRORS)
async def google_translate(
    body: schemas.GoogleTranslateRequest, request: Request, services: ServicesDependency
) -> schemas.GoogleTranslateAnswer:
    """For clients of Google's Translation API v2. Texts are HTML unless `format` is "text"."""
    services.limits.check_texts(body.q, "q")
    pairs = await find_pairs(body.q, body.source, body.target, services)
    is_detected = body.source is None or body.source.strip().lower() in UNSPECIFIED_LANGUAGE
    translations = await translate_texts(body.q, pairs, request, services, text_format=body.format)
    answers = [
        schemas.GoogleTranslation(
            translatedText=translation.text, detectedSourceLanguage=google_code(pair.source) if is_detected else None
        )
        for pair, translation in zip(pairs, translations, strict=True)
    ]
    return schemas.GoogleTranslateAnswer(data=schemas.GoogleTranslations(translations=answers))


@router.get(_PREFIX, summary="Translate texts (Google v2)", response_model_exclude_none=True, responses=_TEXT_ERRORS)
async def google_translate_queried(
    request: Request,
    services: ServicesDependency,
    q: Texts = None,
    target: Target = None,
    source: Source = None,
    text_format: Annotated[Format, Query(alias="format")] = None,
) -> schemas.GoogleTranslateAnswer:
    """As the POST, for clients that ask with a query."""
    del q, target, source, text_format  # for the documentation: they are read as a form's
    return await _queried(
        request, schemas.GoogleTranslateRequest, lambda body: google_translate(body, request, services)
    )


@router.post(f"{_PREFIX}/detect", summary="Detect languages (Google v2)", responses=_TEXT_ERRORS)
async def google_detect(
    body: schemas.GoogleDetectRequest, request: Request, services: ServicesDependency
) -> schemas.GoogleDetectAnswer:
    """The likeliest language of each text: a loaded one, or another where the text is evidently in it."""
    services.limits.check_texts(body.q, "q")
    codes = _loaded_codes(services)
    identify = services.detector.identify
    likeliest = await run_in_threadpool(lambda: [identify(text, codes).detection for text in body.q] if codes else [])
    detections = [[schemas.GoogleDetection.of(detection)] for detection in likeliest] or [[] for _ in body.q]
    return schemas.GoogleDetectAnswer(data=schemas.GoogleDetections(detections=detections))


@router.get(f"{_PREFIX}/detect", summary="Detect languages (Google v2)", responses=_TEXT_ERRORS)
async def google_detect_queried(
    request: Request, services: ServicesDependency, q: Texts = None
) -> schemas.GoogleDetectAnswer:
    """As the POST, for clients that ask with a query."""
    del q  # for the documentation: it is read as a form's
    return await _queried(request, schemas.GoogleDetectRequest, lambda body: google_detect(body, request, services))


@router.get(
    f"{_PREFIX}/languages",
    summary="List languages (Google v2)",
    response_model_exclude_none=True,
    responses=documented(schemas.GoogleError),
)
async def google_languages(services: ServicesDependency, named: Named = None) -> schemas.GoogleLanguagesAnswer:
    """Every language that a loaded model reads or writes."""
    languages = [
        schemas.GoogleLanguage(language=google_code(code), name=language_name(code) if named else None)
        for code in _loaded_codes(services)
    ]
    return schemas.GoogleLanguagesAnswer(data=schemas.GoogleLanguages(languages=languages))


async def _queried(request: Request, schema: type[Body], answer: Callable[[Body], Awaitable[Answer]]) -> Answer:
    """The answer to the fields of a query. `ApiRoute` has charged one request, as for any GET."""
    sent, repeated = request.scope["state"]["body"], GoogleRoute.repeated_fields
    body = validate(schema, parse_fields(request, sent, takes_forms=True, repeated=repeated))
    texts = list(body.charged_texts())
    await charge(request, len(texts) - 1, sum(map(len, texts)))
    try:
        return await answer(body)
    except Exception:
        await refund(request)
        raise


def _loaded_codes(services: Services) -> list[str]:
    return sorted({code for pair in LoadedPairs(services.engine).pairs for code in pair})


for _route in [route for route in router.routes if isinstance(route, GoogleRoute)]:
    router.add_api_route(  # where MTranServer has it
        f"/google{_route.path}",
        _route.endpoint,
        methods=_route.methods,
        response_model=_route.response_model,
        response_model_exclude_none=_route.response_model_exclude_none,
        include_in_schema=False,
    )
