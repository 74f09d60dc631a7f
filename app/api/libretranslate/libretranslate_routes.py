"""POST /translate, /detect, /translate_file and /suggest, GET /languages, /frontend/settings and /download_file."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Annotated, Any

from fastapi import APIRouter, Form, Path, Request
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import Response

from app import documents
from app.access.key_file import ANONYMOUS
from app.api.access_control import owner_of
from app.api.errors import documented, error_response
from app.api.event_stream import EventStream, documented_stream, while_connected
from app.api.expectations import round_nats, written_token_fields
from app.api.field_types import quotable
from app.api.language_pairs import LoadedPairs, find_glossaries, find_pairs
from app.api.libretranslate.schemas import (
    AlignedWordAnswer,
    DetectedLanguage,
    DetectRequest,
    FrontendLanguages,
    FrontendSettings,
    Language,
    NamedCode,
    SuggestAnswer,
    SuggestRequest,
    TranslateAnswer,
    TranslateFileAnswer,
    TranslateFileRequest,
    TranslateRequest,
    TranslationFields,
)
from app.api.request_body import MULTIPART, URLENCODED, also_takes
from app.api.responses import JsonResponse
from app.api.route import LibreTranslateRoute
from app.api.services import Limits, Services, ServicesDependency
from app.api.shared_schemas import TimingAnswer
from app.engine.errors import EngineUnavailable, InvalidRequest, Overloaded
from app.engine.interface import AlignedWord, TranslationOptions
from app.storage.suggestion_store import Suggestion, SuggestionsFull
from app.text.language_codes import language_name
from app.text.language_detection import Detection
from app.translation.text_request import TextFormat, TextRequest, TranslatedText

language_router = APIRouter(tags=["Translate"], route_class=LibreTranslateRoute)

_SHOWN_LANGUAGES = 3
_FRONTEND_TIMEOUT_MS = 500  # LibreTranslate's own: how long its page waits after a key before it translates


@language_router.post(
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
    return JsonResponse([{"confidence": each.confidence, "language": each.language} for each in _merged(found)])


@language_router.post(
    "/languages", include_in_schema=False
)  # libretranslatepy's way to ask, at 2.1.1, which `translate` needs
@language_router.get("/languages", summary="List languages", responses=documented())
async def languages(services: ServicesDependency) -> list[Language]:
    """Every language that a loaded translator reads or writes."""
    pairs = LoadedPairs.of(services.engine).pairs
    targets: dict[str, list[str]] = {code: [] for pair in pairs for code in pair}
    for source, target in dict.fromkeys(pairs):
        targets[source].append(target)
    return [Language(code=code, name=language_name(code), targets=targets[code]) for code in sorted(targets)]


@language_router.get("/frontend/settings", summary="Settings for frontends", responses=documented())
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
    _check_limits(body, texts, services.limits)
    pairs, detections = await find_pairs(texts, body.source, body.target, services, body.format)
    terms = await find_glossaries(body.glossary, pairs, owner_of(request), services) if body.glossary else {}
    options = {pair: _options(body, pair) for pair in set(pairs)}
    jobs = [
        TextRequest(text, options[pair], body.format, terms.get(pair, _NO_TERMS), body.split)
        for text, pair in zip(texts, pairs, strict=True)
    ]
    if body.stream:
        opened = services.translator.stream(jobs[0])
        return EventStream(opened, lambda each: _done(body, each, detections), services.write_timeout_s)
    translations = await while_connected(request, services.translator.translate(jobs))
    return JsonResponse(_answer(body, translations, detections))


def _check_limits(body: TranslateRequest, texts: Sequence[str], limits: Limits) -> None:
    limits.check_texts(texts, "q")
    limits.check_alternatives(body.alternatives)
    if body.prefix:
        limits.check_texts([body.prefix], "prefix")
    limits.check_search(body.beam_size, body.max_new_tokens)


def _options(body: TranslateRequest, pair: tuple[str, str]) -> TranslationOptions:
    return TranslationOptions(*pair, body.model, body.alternatives, body.prefix, body.wanted, body.decoding)


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
        columns |= _requested_details(body, translations)
    return columns if isinstance(body.q, list) else {name: column[0] for name, column in columns.items()}


def _requested_details(body: TranslateRequest, translations: Sequence[TranslatedText]) -> dict[str, list[Any]]:
    """Empty lists for a text that no model was asked for."""
    told: dict[str, list[Any]] = {}
    if "scores" in body.wanted:
        told["scores"] = [[round_nats(score) for score in each.scores or ()] for each in translations]
    if "tokens" in body.wanted:
        told["tokens"] = [[written_token_fields(token) for token in each.tokens or ()] for each in translations]
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


suggestion_router = APIRouter(tags=["Translate"], route_class=LibreTranslateRoute)


@suggestion_router.post(
    "/suggest",
    summary="Suggest a better translation",
    openapi_extra=also_takes("SuggestRequest", {URLENCODED: {}, MULTIPART: {}}),
    responses=documented(
        s400="A field is missing or wrong, or a language is not there.",
        s403="Suggestions are switched off here (PARLANCE_SUGGESTIONS), as they are by default.",
        s413="The body is too large.",
        s415="The body is neither JSON nor a form.",
        s422="A text is too long: `error` names its length and the limit.",
        s503="The suggestion cannot be written, or models are still loading; Retry-After says when to try again.",
        s507="The server keeps as many suggestions as it has room for.",
    ),
)
async def suggest(body: SuggestRequest, request: Request, services: ServicesDependency) -> SuggestAnswer:
    """Keeps the suggestion in a file of the server, for whoever trains its next model."""
    if services.suggestions is None:
        raise HTTPException(403, "Suggestions are switched off here; set PARLANCE_SUGGESTIONS=true to keep them.")
    services.limits.check_texts([body.q], "q")
    services.limits.check_texts([body.s], "s")
    (pair,), _ = await find_pairs([body.q], body.source, body.target, services)
    try:
        await run_in_threadpool(services.suggestions.add, Suggestion(body.q, body.s, *pair))
    except SuggestionsFull:
        raise HTTPException(507, "This server has room for no more suggestions; ask its operator for some.") from None
    except OSError:
        raise EngineUnavailable(
            "This server cannot keep suggestions: it cannot write to its folder PARLANCE_DATA."
        ) from None
    return SuggestAnswer()


_TEXTS_AT_ONCE = 64  # so that a book leaves room for everyone else's sentences
_CHARACTERS_AT_ONCE = 20_000
_LONGEST_WAIT_S = 120.0  # for room, once a file is begun
_SAMPLE_CHARACTERS = 4000  # of a document, whose language is to be detected
_MEDIA_TYPES = {
    ".txt": "text/plain",
    ".srt": "application/x-subrip",
    ".html": "text/html",
    ".htm": "text/html",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".odt": "application/vnd.oasis.opendocument.text",
}


class FileRoute(LibreTranslateRoute):
    """Its form holds a file."""

    takes_files = True

    def texts_of(self, body: Any) -> Iterator[str]:
        """What limits count, before anybody has read the file: each of its bytes as a character."""
        yield body.file.content.decode("latin-1")


file_router = APIRouter(tags=["Translate"], route_class=FileRoute)


@file_router.post(
    "/translate_file",
    summary="Translate a file",
    response_model=TranslateFileAnswer,
    responses=documented(
        s400="The request cannot be answered as it is: a field is wrong, the file cannot be read, or a language is not"
        " there.",
        s404="No model of that name is loaded, or no such glossary is there.",
        s413="The file is too large.",
        s415="The body is no form.",
        s422="A text is too long: `error` names its length and the limit.",
        s429="The queue, or the room for files, is full; Retry-After says when to try again.",
        s503="No device can translate right now; Retry-After says when to try again.",
        s504="The translation took too long.",
    ),
)
async def translate_file(
    body: Annotated[TranslateFileRequest, Form(media_type="multipart/form-data")],
    request: Request,
    services: ServicesDependency,
) -> Any:
    """Translates a file and keeps the layout that it has. The translation is kept for as long as the server was told
    to (PARLANCE_FILE_RETENTION_S), under an address that nobody guesses."""
    extension = check_extension(body.file.filename)
    services.limits.check_search(body.beam_size, body.max_new_tokens)
    asking = DocumentTranslator(body, services, owner_of(request))
    await asking.check()
    content = await while_connected(
        request, services.documents.in_turn(documents.translated(extension, body.file.content, asking))
    )
    try:
        name = await run_in_threadpool(services.files.keep, extension, content)
    except OSError:
        raise EngineUnavailable("This server cannot keep files: it cannot write to its folder PARLANCE_DATA.") from None
    return JsonResponse({"translatedFileUrl": f"{services.public_url or _base_url(request)}/download_file/{name}"})


@file_router.get(
    "/download_file/{name}",
    summary="Fetch a translated file",
    response_class=Response,
    responses=documented(s404="There is no such file, or no longer.")
    | {200: {"description": "The file.", "content": {"application/octet-stream": {}}}},
)
async def download_file(
    name: Annotated[str, Path(description="As `translatedFileUrl` has it.", examples=["6Qn1mS0dO8pYkq2W.txt"])],
    request: Request,
    services: ServicesDependency,
) -> Response:
    """A file that POST /translate_file made, to be saved and not shown: pages inside it never run here."""
    content = await run_in_threadpool(services.files.read, name)
    if content is None:
        kept = f"translated files are kept for {services.files.retention_s:,.0f} seconds; translate it again."
        return error_response(request.scope, 404, "not_found", f"There is no such file here: {kept}")
    return file_response(PurePath(name).suffix, content)


def check_extension(name: str) -> str:
    """Of a file that comes in, in small letters; InvalidRequest where its kind is not translated."""
    extension = PurePath(name).suffix.lower()
    if extension not in documents.SUPPORTED:
        raise InvalidRequest(
            f'"file" is {quotable(name) or "without a name"}; this server translates files that end in'
            f" {', '.join(documents.SUPPORTED)}.",
            field="file",
        )
    return extension


def file_response(extension: str, content: bytes) -> Response:
    """A translated file, to be saved and not shown."""
    headers = {
        "Content-Type": media_type(extension, content),
        "Content-Disposition": f'attachment; filename="translation{extension}"',
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "Cache-Control": "private, no-store",
    }
    return Response(content, headers=headers)


def media_type(extension: str, content: bytes) -> str:
    """Texts keep the encoding that they came in, so it is read off them."""
    found = _MEDIA_TYPES.get(extension, "application/octet-stream")
    if not found.startswith("text/"):
        return found
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return f"{found}; charset=utf-16"
    try:
        content.decode()
    except UnicodeDecodeError:
        return found
    return f"{found}; charset=utf-8"


class DocumentTranslator:
    """Asks for the translations of one document, part by part: in a language that is detected once, and with the
    patience of somebody who has begun."""

    def __init__(self, body: TranslationFields, services: Services, owner: str = ANONYMOUS.name) -> None:
        """owner: whose stored glossaries `body` may name."""
        self._body = body
        self._owner = owner
        self._services = services
        self._pair: tuple[str, str] | None = None
        self._begun = False
        self._waited_s = 0.0

    async def check(self) -> None:
        """What a missing pair is refused with, before the file is read."""
        pairs, detections = await find_pairs([""], self._body.source, self._body.target, self._services)
        if detections is None:
            await self._terms(pairs[0])

    async def __call__(self, texts: Sequence[str], text_format: TextFormat) -> list[str]:
        pair = self._pair or await self._found(texts, text_format)
        terms = await self._terms(pair)
        translations: list[str] = []
        options = TranslationOptions(*pair, self._body.model, decoding=self._body.decoding)
        for part in _split_batches(texts):
            jobs = [TextRequest(text, options, text_format, terms, self._body.split) for text in part]
            translations += await self._translated(jobs)
            await asyncio.sleep(0)  # texts without words are translated at once: of 50,000 of them all others wait
        return translations

    async def _found(self, texts: Sequence[str], text_format: TextFormat) -> tuple[str, str]:
        sample = "\n".join(texts)[:_SAMPLE_CHARACTERS]
        pairs, detections = await find_pairs(
            [sample], self._body.source, self._body.target, self._services, text_format
        )
        if detections is None or detections[0].confidence:
            self._pair = pairs[0]
        return pairs[0]

    async def _translated(self, jobs: list[TextRequest]) -> list[str]:
        while True:
            try:
                found = await self._services.translator.translate(jobs)
            except Overloaded as error:
                self._waited_s += error.retry_after_s
                if not self._begun or self._waited_s > _LONGEST_WAIT_S:
                    raise
                await asyncio.sleep(error.retry_after_s)
            else:
                self._begun = True
                return [each.text for each in found]

    async def _terms(self, pair: tuple[str, str]) -> Mapping[str, str]:
        found = await find_glossaries(self._body.glossary, [pair], self._owner, self._services)
        return found[pair]


def _split_batches(texts: Sequence[str]) -> list[list[str]]:
    parts: list[list[str]] = []
    characters = 0
    for text in texts:
        if not parts or len(parts[-1]) == _TEXTS_AT_ONCE or characters + len(text) > _CHARACTERS_AT_ONCE:
            parts.append([])
            characters = 0
        parts[-1].append(text)
        characters += len(text)
    return parts


def _base_url(request: Request) -> str:
    """As this client called us: who sends a Host header of its own gets it back, and nobody else does."""
    return str(request.base_url).rstrip("/")
