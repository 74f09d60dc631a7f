"""LibreTranslate's family: POST /translate and GET /languages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool

from app.api.disconnect import while_connected
from app.api.errors import documented
from app.api.pairs import LoadedPairs
from app.api.route import LibreTranslateRoute
from app.api.schemas.streaming import TimingAnswer
from app.api.schemas.translate import (
    DetectedLanguage,
    Language,
    TranslateAnswer,
    TranslateDone,
    TranslateRequest,
    TranslateUsage,
)
from app.api.services import Services, ServicesDependency
from app.api.sse import EventStream, documented_stream
from app.text.detection import Detection
from app.text.languages import language_name
from app.translation.job import TextJob, TranslatedText

router = APIRouter(tags=["Translate"], route_class=LibreTranslateRoute)

_FORM_BODY: dict[str, Any] = {
    "requestBody": {
        "content": {"application/x-www-form-urlencoded": {"schema": {"$ref": "#/components/schemas/TranslateRequest"}}}
    }
}
_EVENTS = """\
event: token
data: {"text":"I want"}

event: token
data: {"text":" a beer"}

event: done
data: {"translatedText":"I want a beer","usage":{"source_tokens":6,"new_tokens":5},\
"timing":{"queued_ms":0.4,"first_token_ms":9.1,"total_ms":21.7}}

"""


@router.post(
    "/translate",
    summary="Translate texts",
    response_model=TranslateAnswer,
    response_model_exclude_none=True,
    openapi_extra=_FORM_BODY,
    responses=documented_stream(_EVENTS)
    | documented(
        s400="The request cannot be answered as it is: a field is wrong, a language not there.",
        s413="The body is too large.",
        s415="The body is neither JSON nor a form.",
        s422="A text is too long: `error` names its length and the limit.",
        s429="The queue is full; Retry-After says when to try again.",
        s503="No device can translate right now; Retry-After says when to try again.",
        s504="The translation took too long.",
    ),
)
async def translate(body: TranslateRequest, request: Request, services: ServicesDependency) -> Any:
    """Translates `q`, in LibreTranslate's form. Also takes the fields as a form or as query parameters."""
    texts = [body.q] if isinstance(body.q, str) else body.q
    services.limits.check_texts(texts, "q")
    services.limits.check_alternatives(body.alternatives)
    pairs, detections = await _pairs(body, texts, services)
    jobs = [
        TextJob(text, *pair, model=body.model, alternatives=body.alternatives)
        for text, pair in zip(texts, pairs, strict=True)
    ]
    if body.stream:
        opened = services.translator.stream(jobs[0])
        return EventStream(opened, lambda each: _done(body, each, detections), services.write_timeout_s)
    translations = await while_connected(request, services.translator.translate(jobs))
    return _answer(body, translations, detections)


@router.get("/languages", summary="List languages", responses=documented())
async def languages(services: ServicesDependency) -> list[Language]:
    """Every language that a loaded translator reads or writes."""
    pairs = LoadedPairs.of(services.engine).pairs
    targets: dict[str, list[str]] = {code: [] for pair in pairs for code in pair}
    for source, target in dict.fromkeys(pairs):
        targets[source].append(target)
    return [Language(code=code, name=language_name(code), targets=targets[code]) for code in sorted(targets)]


async def _pairs(
    body: TranslateRequest, texts: Sequence[str], services: Services
) -> tuple[list[tuple[str, str]], list[Detection] | None]:
    """The (source, target) of each text and, where the source was to be detected, how sure that is."""
    loaded = LoadedPairs.of(services.engine)
    if body.source.lower() != "auto":
        return [loaded.find(body.source, body.target)] * len(texts), None
    by_source = dict(loaded.into(body.target))
    detect, candidates = services.detector.detect, list(by_source)
    # In a thread: the first call loads the detector, and a large batch takes a while.
    detections = await run_in_threadpool(lambda: [detect(text, candidates) for text in texts])
    return [(each.language, by_source[each.language]) for each in detections], detections


def _answer(
    body: TranslateRequest, translations: Sequence[TranslatedText], detections: Sequence[Detection] | None
) -> TranslateAnswer:
    """Lists for a list in `q`, or else their only member."""
    columns: dict[str, list[Any]] = {"translatedText": [each.text for each in translations]}
    if detections is not None:
        columns["detectedLanguage"] = [
            DetectedLanguage(confidence=each.confidence, language=each.language) for each in detections
        ]
    if body.alternatives:
        columns["alternatives"] = [list(each.alternatives) for each in translations]
    if any(each.finish_reason != "stop" for each in translations):
        columns["finishReason"] = [each.finish_reason for each in translations]
    if isinstance(body.q, str):
        return TranslateAnswer(**{name: column[0] for name, column in columns.items()})
    return TranslateAnswer(**columns)


def _done(
    body: TranslateRequest, translation: TranslatedText, detections: Sequence[Detection] | None
) -> dict[str, Any]:
    usage = translation.usage
    last = TranslateDone(
        **dict(_answer(body, [translation], detections)),
        usage=TranslateUsage(source_tokens=usage.read_tokens, new_tokens=usage.new_tokens),
        timing=TimingAnswer.of(usage),
    )
    return last.model_dump(exclude_none=True)
