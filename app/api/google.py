"""Google's Translation API v2: translate, detect, languages, and their fields.
https://cloud.google.com/translate/docs/reference/rest/v2/translate"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, ClassVar, Literal, Self, TypeVar

from fastapi import APIRouter, Query, Request
from pydantic import BeforeValidator
from starlette.concurrency import run_in_threadpool

from app.access.authorization import KeyMissing, KeyWrong
from app.api.access_control import charge, refund
from app.api.deepl.schemas import TextList
from app.api.errors import TEXT_ERRORS, ErrorAnswer, Statuses, documented
from app.api.language_pairs import UNSPECIFIED_LANGUAGE, LoadedPairs, translate_body
from app.api.request_body import parse_fields
from app.api.request_fields import EncodableText, Examples, NonBlankText, RequestFields, doc, example_of, optional
from app.api.responses import Answer
from app.api.route import ApiRoute, validate
from app.api.services import ServicesDependency
from app.errors import InvalidRequest, TextTooLong
from app.text.language_codes import google_code, language_name
from app.text.language_detection import Detection

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


class GoogleTranslateRequest(RequestFields):
    """Texts of one target language, as HTML unless `format` is "text"."""

    examples: ClassVar[Examples] = {
        "A text": {"q": "Ich möchte ein Bier", "target": "en", "format": "text"},
        "HTML": {"q": ["<b>hallo</b> welt", "ich möchte ein bier"], "source": "de", "target": "en"},
    }

    charged_fields = ("texts",)

    texts: TextList = doc(
        "A text, or a list; in a form or query the field is there once for each.",
        ["Ich möchte ein Bier"],
        min_length=1,
        alias="q",
    )
    target: NonBlankText = doc("Language to translate to.", "en")
    source: EncodableText | None = optional("Language of the texts; nothing: that of each is detected.", "de")
    format: Annotated[Literal["html", "text"], BeforeValidator(lambda value: value or "html")] = doc(
        "What the texts are.", "text", default="html"
    )
    model: EncodableText | None = optional("Accepted, and of no account: a pair has one model here.", "nmt")


class GoogleDetectRequest(RequestFields):
    """The texts of a request to detect languages."""

    examples: ClassVar[Examples] = {"Two texts": {"q": ["Ich möchte ein Bier", "I would like a beer"]}}

    q: TextList = doc("A text, or a list.", ["Ich möchte ein Bier"], min_length=1)


class GoogleTranslation(Answer):
    """One text."""

    translatedText: str = doc("The translation.", "I want a beer")
    detectedSourceLanguage: str | None = optional("Only without `source`.", "de")


class GoogleTranslations(Answer):
    """In the order of the texts."""

    translations: list[GoogleTranslation] = doc("One for each text.", [{"translatedText": "I want a beer"}])


class GoogleTranslateAnswer(Answer):
    """As Google answers."""

    data: GoogleTranslations = doc("The translations.", example_of(GoogleTranslations))


class GoogleDetection(Answer):
    """A language that a text may be in."""

    language: str = doc("Code of the language.", "de")
    confidence: float = doc("0 to 1.", 0.99, ge=0, le=1)
    isReliable: bool = doc("Always false; Google no longer fills it in.", False)

    @classmethod
    def of(cls, detection: Detection) -> Self:
        confidence = round(detection.confidence / 100, 3)
        return cls(language=google_code(detection.language), confidence=confidence, isReliable=False)


class GoogleDetections(Answer):
    """In the order of the texts."""

    detections: list[list[GoogleDetection]] = doc("A list of one for each text.", [[example_of(GoogleDetection)]])


class GoogleDetectAnswer(Answer):
    """As Google answers."""

    data: GoogleDetections = doc("The detections.", example_of(GoogleDetections))


class GoogleLanguage(Answer):
    """A language that some loaded model reads or writes."""

    language: str = doc("Code.", "de")
    name: str | None = optional("English name, only with `target`.", "German")


class GoogleLanguages(Answer):
    """Sorted by code."""

    languages: list[GoogleLanguage] = doc("All of them.", [{"language": "de"}])


class GoogleLanguagesAnswer(Answer):
    """As Google answers."""

    data: GoogleLanguages = doc("The languages.", example_of(GoogleLanguages))


class GoogleFault(Answer):
    """What is wrong."""

    code: int = doc("The status.", 400)
    message: str = doc(
        "One sentence: what is wrong, where the limit is, and the way out.",
        "There is no model for de → fr here. Loaded pairs: de → en, en → es.",
    )
    errors: list[dict[str, object]] = doc(
        "The same once more, as clients of version 2 read it.",
        [{"message": "There is no model into fr here.", "domain": "global", "reason": "invalid"}],
    )
    status: str = doc("Google's name of the status.", "INVALID_ARGUMENT")


class GoogleError(Answer):
    """The body of every error of this family."""

    error: GoogleFault = doc(
        "The status, and what is wrong.", {"code": 400, "message": "No.", "errors": [], "status": "INVALID_ARGUMENT"}
    )

    @classmethod
    def from_error(cls, status: int, error: ErrorAnswer) -> Self:
        name, reason = _STATUS_NAMES.get(status, _STATUS_NAMES[500 if status >= 500 else 400])
        again: dict[str, object] = {"message": error.error, "domain": "global", "reason": reason}
        return cls(error=GoogleFault(code=status, message=error.error, errors=[again], status=name))


_PREFIX = "/language/translate/v2"
Body = TypeVar("Body", bound=RequestFields)
T = TypeVar("T")


class GoogleRoute(ApiRoute):
    """JSON, a form or a query, with `q` as often as there are texts. Google answers an invalid key with 400."""

    statuses: ClassVar[Statuses] = {InvalidRequest: 400, TextTooLong: 400, KeyMissing: 403, KeyWrong: 400}
    error_schema = GoogleError
    takes_forms = True
    repeated_fields = frozenset({"q"})
    key_fields: ClassVar[tuple[str, ...]] = ("key",)


router = APIRouter(route_class=GoogleRoute)
_TEXT_ERRORS = documented(GoogleError, TEXT_ERRORS)
Texts = Annotated[list[str] | None, Query(description="A text; once for each.", examples=[["Ich möchte ein Bier"]])]
Target = Annotated[str | None, Query(description="Language to translate to.", examples=["en"])]
Source = Annotated[str | None, Query(description="Language of the texts; nothing: detected.", examples=["de"])]
Format = Annotated[str | None, Query(description='"html" (the default) or "text".', examples=["text"])]
Named = Annotated[
    str | None, Query(alias="target", description="Any code: with it, names come along, in English.", examples=["en"])
]


@router.post(_PREFIX, summary="Translate texts (Google v2)", responses=_TEXT_ERRORS)
async def google_translate(
    body: GoogleTranslateRequest, request: Request, services: ServicesDependency
) -> GoogleTranslateAnswer:
    """For clients of Google's Translation API v2. Texts are HTML unless `format` is "text"."""
    translations = await translate_body(body, request, services, field="q", text_format=body.format)
    is_detected = body.source is None or body.source.strip().lower() in UNSPECIFIED_LANGUAGE
    answers = [
        GoogleTranslation(
            translatedText=translation.text, detectedSourceLanguage=google_code(pair.source) if is_detected else None
        )
        for pair, translation in translations
    ]
    return GoogleTranslateAnswer(data=GoogleTranslations(translations=answers))


@router.get(_PREFIX, summary="Translate texts (Google v2)", responses=_TEXT_ERRORS)
async def google_translate_queried(
    request: Request,
    services: ServicesDependency,
    q: Texts = None,
    target: Target = None,
    source: Source = None,
    text_format: Annotated[Format, Query(alias="format")] = None,
) -> GoogleTranslateAnswer:
    """As the POST, for clients that ask with a query."""
    del q, target, source, text_format  # for the documentation: they are read as a form's
    return await _queried(request, GoogleTranslateRequest, lambda body: google_translate(body, request, services))


@router.post(f"{_PREFIX}/detect", summary="Detect languages (Google v2)", responses=_TEXT_ERRORS)
async def google_detect(
    body: GoogleDetectRequest, request: Request, services: ServicesDependency
) -> GoogleDetectAnswer:
    """The likeliest language of each text: a loaded one, or another where the text is evidently in it."""
    services.limits.check_texts(body.q, "q")
    codes = sorted(LoadedPairs(services.engine).codes)
    identify = services.detector.identify
    likeliest = await run_in_threadpool(lambda: [identify(text, codes).detection for text in body.q] if codes else [])
    detections = [[GoogleDetection.of(detection)] for detection in likeliest] or [[] for _ in body.q]
    return GoogleDetectAnswer(data=GoogleDetections(detections=detections))


@router.get(f"{_PREFIX}/detect", summary="Detect languages (Google v2)", responses=_TEXT_ERRORS)
async def google_detect_queried(request: Request, services: ServicesDependency, q: Texts = None) -> GoogleDetectAnswer:
    """As the POST, for clients that ask with a query."""
    del q  # for the documentation: it is read as a form's
    return await _queried(request, GoogleDetectRequest, lambda body: google_detect(body, request, services))


@router.get(
    f"{_PREFIX}/languages",
    summary="List languages (Google v2)",
    responses=documented(GoogleError),
)
async def google_languages(services: ServicesDependency, named: Named = None) -> GoogleLanguagesAnswer:
    """Every language that a loaded model reads or writes."""
    languages = [
        GoogleLanguage(language=google_code(code), name=language_name(code) if named else None)
        for code in sorted(LoadedPairs(services.engine).codes)
    ]
    return GoogleLanguagesAnswer(data=GoogleLanguages(languages=languages))


async def _queried(request: Request, schema: type[Body], answer: Callable[[Body], Awaitable[T]]) -> T:
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


for _route in [route for route in router.routes if isinstance(route, GoogleRoute)]:
    router.add_api_route(  # where MTranServer has it
        f"/google{_route.path}",
        _route.endpoint,
        methods=_route.methods,
        response_model=_route.response_model,
        include_in_schema=False,
    )
