"""LibreTranslate's family: POST /detect, GET /languages and GET /frontend/settings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool

from app import documents
from app.api.answers import JsonAnswer
from app.api.errors import documented
from app.api.forms import MULTIPART, URLENCODED, also_takes
from app.api.pairs import LoadedPairs
from app.api.route import LibreTranslateRoute
from app.api.schemas.languages import DetectRequest, FrontendLanguages, FrontendSettings, NamedCode
from app.api.schemas.translate import DetectedLanguage, Language
from app.api.services import ServicesDependency
from app.text.detection import Detection
from app.text.languages import language_name

router = APIRouter(tags=["Translate"], route_class=LibreTranslateRoute)

_SHOWN_LANGUAGES = 3
_FRONTEND_TIMEOUT_MS = 500  # LibreTranslate's own: how long its page waits after a key before it translates


@router.post(
    "/detect",
    summary="Detect a language",
    response_model=list[DetectedLanguage],
    openapi_extra=also_takes("DetectRequest", {URLENCODED: {}, MULTIPART: {}}),
    responses=documented(
        s400="`q` is missing or no text, or no translator is loaded.",
        s413="The body is too large.",
        s415="The body is neither JSON nor a form.",
        s422="A text is too long: `error` names its length and the limit.",
        s503="Models are still loading; Retry-After says when to try again.",
    ),
)
async def detect(body: DetectRequest, request: Request, services: ServicesDependency) -> Any:
    """The three likeliest languages of `q`, best first, among those that are loaded. Of several texts one ranking: each
    language with its best text. A text without any language has a confidence of 0."""
    texts = body.texts
    services.limits.check_texts(texts, "q")
    candidates = _english_first(LoadedPairs.of(services.engine).languages())
    top = services.detector.top
    found = await run_in_threadpool(
        lambda: [each for text in texts for each in top(text, candidates, _SHOWN_LANGUAGES)]
    )
    return JsonAnswer([{"confidence": each.confidence, "language": each.language} for each in _merged(found)])


@router.post("/languages", include_in_schema=False)  # libretranslatepy's way to ask, at 2.1.1, which `translate` needs
@router.get("/languages", summary="List languages", responses=documented())
async def languages(services: ServicesDependency) -> list[Language]:
    """Every language that a loaded translator reads or writes."""
    pairs = LoadedPairs.of(services.engine).pairs
    targets: dict[str, list[str]] = {code: [] for pair in pairs for code in pair}
    for source, target in dict.fromkeys(pairs):
        targets[source].append(target)
    return [Language(code=code, name=language_name(code), targets=targets[code]) for code in sorted(targets)]


@router.get("/frontend/settings", summary="Settings for frontends", responses=documented())
async def frontend_settings(services: ServicesDependency) -> FrontendSettings:
    """What LibreTranslate's clients ask before they show a page: limits, and what is switched on."""
    pairs = LoadedPairs.of(services.engine).pairs
    target = pairs[0][1] if pairs else "en"
    gate = services.gate
    return FrontendSettings(
        charLimit=services.limits.max_text_characters,
        frontendTimeout=_FRONTEND_TIMEOUT_MS,
        apiKeys=gate.keys_used,
        keyRequired=gate.key_required,
        suggestions=services.suggestions is not None,
        filesTranslation=bool(documents.SUPPORTED),
        supportedFilesFormat=list(documents.SUPPORTED),
        language=FrontendLanguages(
            source=NamedCode(code="auto", name="Auto Detect"), target=NamedCode(code=target, name=language_name(target))
        ),
    )


def _english_first(codes: Sequence[str]) -> list[str]:
    """The first is what a text without any language is taken for, and LibreTranslate's clients know it as English."""
    return sorted(codes, key=lambda code: code.lower() != "en")


def _merged(found: Iterable[Detection]) -> list[Detection]:
    best: dict[str, Detection] = {}
    for each in found:
        if each.language not in best or best[each.language].confidence < each.confidence:
            best[each.language] = each
    ranked = sorted(best.values(), key=lambda each: -each.confidence)
    return [each for each in ranked if each.confidence][:_SHOWN_LANGUAGES] or ranked[:1]
