"""POST /translate, /detect and /translate_file, GET /languages, /frontend/settings and /download_file."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from functools import partial
from pathlib import PurePath
from typing import Annotated, ClassVar, Literal
from urllib.parse import quote

from fastapi import APIRouter, Form, Path, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from app import documents
from app.access.authorization import KeyMissing, KeyWrong
from app.api.access_control import charge, given_keys, owner_of
from app.api.errors import (
    TEXT_ERRORS,
    TEXT_TOO_LONG,
    ErrorAnswer,
    ErrorExample,
    Meaning,
    Statuses,
    documented,
    not_found,
)
from app.api.event_stream import EventStream, documented_stream
from app.api.language_pairs import LoadedPairs, charge_second_models, find_glossaries, find_pairs, translate_jobs
from app.api.libretranslate import schemas
from app.api.libretranslate.document_translation import DocumentTranslator, check_extension, file_response
from app.api.request_body import MULTIPART, URLENCODED, also_takes, while_connected
from app.api.responses import copied
from app.api.route import ApiRoute
from app.api.services import Services, ServicesDependency
from app.engine.interface import TranslationOptions
from app.errors import InvalidRequest
from app.text.language_codes import language_name
from app.text.language_detection import Detection
from app.translation.pivot import Pair

_GLOSSARY: dict[str, object] = {"glossary": {"contentType": "application/json"}}
_FORMS = {URLENCODED: {**_GLOSSARY, "return": {"style": "form", "explode": False}}, MULTIPART: _GLOSSARY}
_HOST = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?")
_EVENTS = """\
event: token
data: {"text":"I want"}

event: token
data: {"text":" a beer"}

event: done
data: {"translatedText":"I want a beer","usage":{"source_tokens":6,"new_tokens":5},\
"timing":{"queued_ms":0.4,"first_token_ms":9.1,"total_ms":21.7}}

"""
_FORM_ERRORS: dict[str, Meaning] = {
    "s413": "The body is too large.",
    "s415": "The body is neither JSON nor a form.",
    "s422": ("A text is too long: `error` names its length and the limit.", TEXT_TOO_LONG),
}
_SHOWN_LANGUAGES = 3
_FRONTEND_TIMEOUT_MS = 500  # LibreTranslate's own: how long its page waits after a key before it translates


class LibreTranslateRoute(ApiRoute):
    """A route of LibreTranslate's clients: also forms and query parameters; invalid input is 400."""

    statuses: ClassVar[Statuses] = {InvalidRequest: 400, KeyMissing: 400, KeyWrong: 403}
    takes_forms = True
    key_fields = ("api_key", "apiKey")  # the second: npm libretranslate


router = APIRouter(route_class=LibreTranslateRoute)
settings_router = APIRouter(route_class=LibreTranslateRoute)


@router.post(
    "/translate",
    summary="Translate texts",
    response_model=schemas.TranslateAnswer,
    openapi_extra=also_takes("TranslateRequest", _FORMS),
    responses=documented_stream(_EVENTS)
    | documented(
        ErrorAnswer,
        TEXT_ERRORS,
        s400="The request cannot be answered as it is: a field is wrong, a language not there.",
        s404="No model of that name is loaded, or no such glossary is there.",
        **_FORM_ERRORS,
    ),
)
async def translate(
    body: schemas.TranslateRequest, request: Request, services: ServicesDependency
) -> Response | schemas.TranslateAnswer:
    """Translates `q`, in LibreTranslate's form. Also takes the fields as a form or as query parameters."""
    texts, limits = body.texts, services.limits
    limits.check_texts(texts, "q")
    limits.check_numbers(alternatives=body.alternatives)
    if body.prefix:
        limits.check_texts([body.prefix], "prefix")
    limits.check_numbers(beam_size=body.beam_size, max_new_tokens=body.max_new_tokens)
    assigned = await find_pairs(texts, body.source, body.target, services, body.format)
    detections = [each.detection for each in assigned if each.detection] or None
    terms: dict[Pair, Mapping[str, str]] = {}
    if body.glossary:
        translated = [each.pair for each in assigned if not each.unchanged]
        terms = await find_glossaries(body.glossary, translated, owner_of(request), services)
    decoding = body.decoding_options()
    options = {
        pair: TranslationOptions(*pair, body.model, body.alternatives, body.prefix, body.wanted, decoding)
        for pair in {each.pair for each in assigned}
    }
    jobs = [
        each.text_request(text, options[each.pair], body.format, terms.get(each.pair, {}), split=body.split)
        for text, each in zip(texts, assigned, strict=True)
    ]
    if body.stream:
        await charge_second_models(jobs, request, services)
        done = partial(schemas.TranslateDone.of_stream, body, detections=detections)
        return EventStream(services.translator.stream(jobs[0]), done, limits.request_timeout_s)
    return schemas.TranslateAnswer.of(body, await translate_jobs(jobs, request, services), detections)


@router.post(
    "/detect",
    summary="Detect a language",
    openapi_extra=also_takes("DetectRequest", {URLENCODED: {}, MULTIPART: {}}),
    responses=documented(
        s400="`q` is missing or no text, or no translator is loaded.",
        **_FORM_ERRORS,
        s503="Models are still loading; Retry-After says when to try again.",
    ),
)
async def detect(
    body: schemas.DetectRequest, request: Request, services: ServicesDependency
) -> list[schemas.DetectedLanguage]:
    """The three likeliest languages of `q`, best first: of those that are loaded, and another one where the text is
    evidently in it. Of several texts one ranking: each language with its best text. A text without any language has a
    confidence of 0."""
    services.limits.check_texts(body.texts, "q")
    # English first: a text without any language is taken for the first candidate, and LibreTranslate says English
    candidates = sorted(LoadedPairs(services.engine).languages(), key=lambda code: code.lower() != "en")
    ranked_languages = services.detector.ranked
    detections = await run_in_threadpool(
        lambda: [detection for text in body.texts for detection in ranked_languages(text, candidates, _SHOWN_LANGUAGES)]
    )
    best: dict[str, Detection] = {}
    for detection in detections:
        if detection.language not in best or best[detection.language].confidence < detection.confidence:
            best[detection.language] = detection
    ranked = sorted(best.values(), key=lambda detection: -detection.confidence)
    shown = [detection for detection in ranked if detection.confidence][:_SHOWN_LANGUAGES] or ranked[:1]
    return copied(shown, list[schemas.DetectedLanguage])


@router.post("/languages", include_in_schema=False)  # libretranslatepy 2.1.1 posts, and `translate` uses it
@router.get("/languages", summary="List languages", responses=documented())
async def languages(services: ServicesDependency) -> list[schemas.Language]:
    """Every language that a loaded translator reads or writes, with the targets of one model first, then those through
    a third language."""
    return [
        schemas.Language(code=code, name=language_name(code), targets=services.routes.targets(code))
        for code in sorted(LoadedPairs(services.engine).codes)
    ]


@settings_router.get("/frontend/settings", summary="Settings for frontends", responses=documented())
async def frontend_settings(request: Request, services: ServicesDependency) -> schemas.FrontendSettings:
    """What LibreTranslate's clients ask before they show a page: limits, and what is switched on."""
    pairs = LoadedPairs(services.engine).pairs
    target = pairs[0][1] if pairs else "en"
    return schemas.FrontendSettings(
        charLimit=services.limits.max_text_characters,
        frontendTimeout=_FRONTEND_TIMEOUT_MS,
        apiKeys=services.access.keys_used,
        keyRequired=services.access.key_required,
        suggestions=False,
        filesTranslation=bool(documents.SUPPORTED),
        supportedFilesFormat=list(documents.SUPPORTED),
        beamSize=services.limits.beam_size,
        modelChanges=await _model_changes(request, services),
        language=schemas.FrontendLanguages(
            source=schemas.NamedCode(code="auto", name="Auto Detect"),
            target=schemas.NamedCode(code=target, name=language_name(target)),
        ),
    )


async def _model_changes(request: Request, services: Services) -> Literal["off", "key", "allowed"]:
    if not services.model_changes or not services.access.has_admin():
        return "off"
    keys = list(given_keys(request, {}, ()))
    may = services.access.admin(keys)
    if keys and may is False:
        await charge(request, 1, 0)  # guessing keys is limited here too
    return "allowed" if may else "key"


@router.post(
    "/translate_file",
    summary="Translate a file",
    responses=documented(
        ErrorAnswer,
        TEXT_ERRORS,
        s400="The request cannot be answered as it is: a field is wrong, the file cannot be read, or a language is"
        " not there.",
        s404="No model of that name is loaded, or no such glossary is there.",
        s413="The file is too large.",
        s415="The body is no form.",
        s422=("A text is too long: `error` names its length and the limit.", TEXT_TOO_LONG),
        s429="The queue, or the room for files, is full; Retry-After says when to try again.",
    ),
)
async def translate_file(
    body: Annotated[schemas.TranslateFileRequest, Form(media_type="multipart/form-data")],
    request: Request,
    services: ServicesDependency,
) -> schemas.TranslateFileAnswer:
    """Translates a file and keeps the layout that it has. The translation is kept for as long as the server was told
    to (PARLANCE_FILE_RETENTION_S), under an address that nobody guesses."""
    extension = check_extension(body.file.filename)
    services.limits.check_numbers(beam_size=body.beam_size, max_new_tokens=body.max_new_tokens)
    translator = DocumentTranslator(body, services, owner_of(request))
    await translator.check()
    readers, file = services.documents.readers, body.file.content
    work = partial(documents.translated, extension, file, translator, translator.language, readers)
    content = await while_connected(request, services.documents.in_turn(work))
    name = await run_in_threadpool(services.files.keep, extension, content)
    server = services.public_url or _called_address(request)
    shown = quote(translator.download_name(body.file.filename), safe="")
    return schemas.TranslateFileAnswer(translatedFileUrl=f"{server}/download_file/{name}?as={shown}")


def _called_address(request: Request) -> str:
    """What stands before the path in this client's request, where no stranger can have that name or address; "" for
    all others, which anybody may have put into the header Host: paths are relative then."""
    host = request.headers.get("host", "")
    if not _HOST.fullmatch(host):
        return ""
    name = request.url.hostname or ""
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        is_near = "." not in name  # localhost, or a machine or container on the same network
    else:
        is_near = address.is_private or name == (request.scope.get("server") or ("",))[0]
    return str(request.base_url).rstrip("/") if is_near else ""


@router.get(
    "/download_file/{name}",
    summary="Fetch a translated file",
    response_class=Response,
    responses=documented(
        s404=(
            "There is no such file, or no longer.",
            ErrorExample(
                "not_found",
                "There is no such file here: translated files are kept for 1,800 seconds; translate it again.",
            ),
        )
    )
    | {200: {"description": "The file.", "content": {"application/octet-stream": {}}}},
)
def download_file(
    name: Annotated[str, Path(description="As `translatedFileUrl` has it.", examples=["6Qn1mS0dO8pYkq2W.txt"])],
    request: Request,
    services: ServicesDependency,
    shown_as: Annotated[
        str, Query(alias="as", description="Name to save it under.", examples=["bericht.en.txt"], max_length=400)
    ] = "",
) -> Response:
    """A file that POST /translate_file made, to be saved and not shown: pages inside it never run here."""
    content = services.files.read(name)
    if content is None:
        kept = f"translated files are kept for {services.files.retention_s:,.0f} seconds; translate it again."
        return not_found(request.scope, f"There is no such file here: {kept}")
    return file_response(PurePath(name).suffix, content, shown_as)
