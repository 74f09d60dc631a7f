"""LibreTranslate's family: POST /translate. Its other routes: languages.py, files.py, suggest.py, health.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Request

from app.api.answers import JsonAnswer
from app.api.disconnect import while_connected
from app.api.errors import documented
from app.api.expectations import nats, written_fields
from app.api.forms import MULTIPART, URLENCODED, also_takes
from app.api.limits import Limits
from app.api.owner import owner_of
from app.api.pairs import pairs_of
from app.api.route import LibreTranslateRoute
from app.api.schemas.streaming import TimingAnswer
from app.api.schemas.translate import AlignedWordAnswer, TranslateAnswer, TranslateRequest
from app.api.services import ServicesDependency
from app.api.sse import EventStream, documented_stream
from app.api.terms import glossaries_of
from app.engine.jobs import AlignedWord
from app.text.detection import Detection
from app.translation.job import TextJob, TranslatedText

router = APIRouter(tags=["Translate"], route_class=LibreTranslateRoute)

_NO_TERMS: Mapping[str, str] = {}
_GLOSSARY: dict[str, Any] = {"glossary": {"contentType": "application/json"}}
_FORMS = {URLENCODED: {**_GLOSSARY, "return": {"style": "form", "explode": False}}, MULTIPART: _GLOSSARY}
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
    openapi_extra=also_takes("TranslateRequest", _FORMS),
    responses=documented_stream(_EVENTS)
    | documented(
        s400="The request cannot be answered as it is: a field is wrong, a language not there.",
        s404="No model of that name is loaded, or no such glossary is there.",
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
    texts = body.texts
    check(body, texts, services.limits)
    pairs, detections = await pairs_of(texts, body.source, body.target, services, body.format)
    terms = await glossaries_of(body.glossary, pairs, owner_of(request), services) if body.glossary else {}
    jobs = [_job(body, text, pair, terms.get(pair, _NO_TERMS)) for text, pair in zip(texts, pairs, strict=True)]
    if body.stream:
        opened = services.translator.stream(jobs[0])
        return EventStream(opened, lambda each: _done(body, each, detections), services.write_timeout_s)
    translations = await while_connected(request, services.translator.translate(jobs))
    return JsonAnswer(_answer(body, translations, detections))


def check(body: TranslateRequest, texts: Sequence[str], limits: Limits) -> None:
    limits.check_texts(texts, "q")
    limits.check_alternatives(body.alternatives)
    if body.prefix:
        limits.check_texts([body.prefix], "prefix")
    limits.check_search(body.beam_size, body.max_new_tokens)


def _job(body: TranslateRequest, text: str, pair: tuple[str, str], terms: Mapping[str, str]) -> TextJob:
    return TextJob(
        text,
        *pair,
        body.model,
        body.format,
        body.alternatives,
        body.beam_size,
        body.length_penalty,
        body.max_new_tokens,
        body.prefix,
        terms,
        body.no_repeat_ngram_size,
        body.split,
        body.wanted,
    )


def _answer(
    body: TranslateRequest, translations: Sequence[TranslatedText], detections: Sequence[Detection] | None
) -> dict[str, Any]:
    """The fields of `TranslateAnswer`: lists for a list in `q`, or else their only member."""
    columns: dict[str, list[Any]] = {"translatedText": [each.text for each in translations]}
    if detections is not None:
        columns["detectedLanguage"] = [
            {"confidence": each.confidence, "language": each.language} for each in detections
        ]
    if body.alternatives:
        columns["alternatives"] = [list(each.alternatives) for each in translations]
    if any(each.finish_reason != "stop" for each in translations):
        columns["finishReason"] = [each.finish_reason for each in translations]
    if body.wanted:
        columns |= _told(body, translations)
    return columns if isinstance(body.q, list) else {name: column[0] for name, column in columns.items()}


def _told(body: TranslateRequest, translations: Sequence[TranslatedText]) -> dict[str, list[Any]]:
    """Empty lists for a text that no model was asked for."""
    told: dict[str, list[Any]] = {}
    if "scores" in body.wanted:
        told["scores"] = [[nats(score) for score in each.scores or ()] for each in translations]
    if "tokens" in body.wanted:
        told["tokens"] = [[written_fields(token) for token in each.tokens or ()] for each in translations]
    if "alignment" in body.wanted:
        told["alignment"] = [[_aligned(word) for word in each.alignment or ()] for each in translations]
    return told


def _done(
    body: TranslateRequest, translation: TranslatedText, detections: Sequence[Detection] | None
) -> dict[str, Any]:
    """The fields of `TranslateDone`."""
    usage = translation.usage
    return {
        **_answer(body, [translation], detections),
        "usage": {"source_tokens": usage.read_tokens, "new_tokens": usage.new_tokens},
        "timing": TimingAnswer.of(usage).model_dump(exclude_none=True),
    }


def _aligned(word: AlignedWord) -> dict[str, Any]:
    """Digits that mean something: the weight is a share of what was computed in fp32."""
    return {**AlignedWordAnswer.model_validate(word).model_dump(), "weight": round(word.weight, 6)}
