"""LibreTranslate's family: POST /translate_file, and GET /download_file/{name} for what came of it."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Annotated, Any

from fastapi import APIRouter, Form, Path, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from app import documents
from app.access.caller import ANONYMOUS
from app.api.answers import JsonAnswer
from app.api.disconnect import while_connected
from app.api.errors import documented, error_answer
from app.api.owner import owner_of
from app.api.pairs import pairs_of
from app.api.route import LibreTranslateRoute
from app.api.schemas.files import TranslateFileAnswer, TranslateFileRequest
from app.api.schemas.translation import TranslationOptions
from app.api.services import Services, ServicesDependency
from app.api.terms import glossaries_of
from app.api.wording import shown
from app.engine.errors import EngineUnavailable, InvalidRequest, Overloaded
from app.translation.job import TextFormat, TextJob

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


router = APIRouter(tags=["Translate"], route_class=FileRoute)


@router.post(
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
    extension = known_extension(body.file.filename)
    services.limits.check_search(body.beam_size, body.max_new_tokens)
    asking = Asking(body, services, owner_of(request))
    await asking.check()
    content = await while_connected(
        request, services.documents.in_turn(documents.translated(extension, body.file.content, asking))
    )
    try:
        name = await run_in_threadpool(services.files.keep, extension, content)
    except OSError:
        raise EngineUnavailable("This server cannot keep files: it cannot write to its folder PARLANCE_DATA.") from None
    return JsonAnswer({"translatedFileUrl": f"{services.public_url or _base(request)}/download_file/{name}"})


@router.get(
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
        return error_answer(request.scope, 404, "not_found", f"There is no such file here: {kept}")
    return file_answer(PurePath(name).suffix, content)


def known_extension(name: str) -> str:
    """Of a file that comes in, in small letters; InvalidRequest where its kind is not translated."""
    extension = PurePath(name).suffix.lower()
    if extension not in documents.SUPPORTED:
        raise InvalidRequest(
            f'"file" is {shown(name) or "without a name"}; this server translates files that end in'
            f" {', '.join(documents.SUPPORTED)}.",
            field="file",
        )
    return extension


def file_answer(extension: str, content: bytes) -> Response:
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


class Asking:
    """Asks for the translations of one document, part by part: in a language that is detected once, and with the
    patience of somebody who has begun."""

    def __init__(self, body: TranslationOptions, services: Services, owner: str = ANONYMOUS.name) -> None:
        """owner: whose stored glossaries `body` may name."""
        self._body = body
        self._owner = owner
        self._services = services
        self._pair: tuple[str, str] | None = None
        self._begun = False
        self._waited_s = 0.0

    async def check(self) -> None:
        """What a missing pair is refused with, before the file is read."""
        pairs, detections = await pairs_of([""], self._body.source, self._body.target, self._services)
        if detections is None:
            await self._terms(pairs[0])

    async def __call__(self, texts: Sequence[str], text_format: TextFormat) -> list[str]:
        pair = self._pair or await self._found(texts, text_format)
        terms = await self._terms(pair)
        translations: list[str] = []
        for part in _parts(texts):
            translations += await self._translated([self._job(text, pair, text_format, terms) for text in part])
            await asyncio.sleep(0)  # texts without words are translated at once: of 50,000 of them all others wait
        return translations

    async def _found(self, texts: Sequence[str], text_format: TextFormat) -> tuple[str, str]:
        sample = "\n".join(texts)[:_SAMPLE_CHARACTERS]
        pairs, detections = await pairs_of([sample], self._body.source, self._body.target, self._services, text_format)
        if detections is None or detections[0].confidence:
            self._pair = pairs[0]
        return pairs[0]

    async def _translated(self, jobs: list[TextJob]) -> list[str]:
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
        found = await glossaries_of(self._body.glossary, [pair], self._owner, self._services)
        return found[pair]

    def _job(self, text: str, pair: tuple[str, str], text_format: TextFormat, terms: Mapping[str, str]) -> TextJob:
        body = self._body
        return TextJob(
            text,
            *pair,
            model=body.model,
            format=text_format,
            beam_size=body.beam_size,
            length_penalty=body.length_penalty,
            max_new_tokens=body.max_new_tokens,
            glossary=terms,
            no_repeat_ngram_size=body.no_repeat_ngram_size,
            split=body.split,
        )


def _parts(texts: Sequence[str]) -> list[list[str]]:
    parts: list[list[str]] = []
    characters = 0
    for text in texts:
        if not parts or len(parts[-1]) == _TEXTS_AT_ONCE or characters + len(text) > _CHARACTERS_AT_ONCE:
            parts.append([])
            characters = 0
        parts[-1].append(text)
        characters += len(text)
    return parts


def _base(request: Request) -> str:
    """As this client called us: who sends a Host header of its own gets it back, and nobody else does."""
    return str(request.base_url).rstrip("/")
