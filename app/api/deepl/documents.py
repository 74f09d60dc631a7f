"""POST /v2/document, and its status and result: files translated while the client waits or does not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Form, Path, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from app import documents
from app.api.deepl.route import DeepLRoute
from app.api.document_jobs import DocumentJob
from app.api.errors import documented_as, error_answer
from app.api.files import Asking, file_answer, known_extension
from app.api.owner import owner_of
from app.api.pairs import LoadedPairs
from app.api.schemas.deepl import DeepLError
from app.api.schemas.deepl_documents import (
    DeepLDocument,
    DeepLDocumentKey,
    DeepLDocumentRequest,
    DeepLDocumentStatus,
)
from app.api.schemas.translation import TranslationOptions
from app.api.services import Services, ServicesDependency
from app.api.wording import shown
from app.engine.errors import EngineUnavailable, InvalidRequest
from app.translation.job import TextFormat


class DocumentRoute(DeepLRoute):
    """Its form holds a file, whose bytes count as characters before anybody has read it."""

    takes_files = True

    def texts_of(self, body: Any) -> Iterator[str]:
        if isinstance(body, DeepLDocumentRequest):
            yield body.file.content.decode("latin-1")


router = APIRouter(tags=["DeepL"], route_class=DocumentRoute)

DocumentId = Annotated[
    str, Path(description="As POST /v2/document gave it.", examples=["04DE5AD98A02647D83285A36021911C6"])
]
_KNOWN = {"s403": "The key is missing or wrong.", "s404": "There is no such document, or its key is another."}
_GONE = "There is no such document here, or its document_key is another; send it again."


@router.post(
    "/v2/document",
    summary="Translate a document (DeepL)",
    response_model=DeepLDocument,
    responses=documented_as(
        DeepLError,
        s400="The file is of a kind that is not translated, a field is wrong, or a language is not there.",
        s403="The key is missing or wrong.",
        s404="There is no such glossary.",
        s413="The file is too large.",
        s415="The body is no form.",
        s429="Too many documents wait; Retry-After says when to try again.",
        s456="The quota of this key is used up.",
    ),
)
async def deepl_document(
    body: Annotated[DeepLDocumentRequest, Form(media_type="multipart/form-data")],
    request: Request,
    services: ServicesDependency,
) -> Any:
    """Takes a file and begins to translate it; its layout stays. Ask POST /v2/document/{document_id} how far it is."""
    extension = _extension(body)
    asking = Asking(await _options(body, request, services), services, owner_of(request))
    await asking.check()
    content, characters = body.file.content, 0

    async def counted(texts: Sequence[str], text_format: TextFormat) -> list[str]:
        nonlocal characters
        characters += sum(map(len, texts))
        return await asking(texts, text_format)

    async def work() -> tuple[bytes, int]:
        return await documents.translated(extension, content, counted), characters

    job = services.documents.start(extension, work)
    return DeepLDocument(document_id=job.id, document_key=job.key)


@router.post(
    "/v2/document/{document_id}",
    summary="Status of a document (DeepL)",
    response_model=DeepLDocumentStatus,
    response_model_exclude_none=True,
    responses=documented_as(DeepLError, s400="document_key is missing.", **_KNOWN),
)
async def deepl_document_status(
    body: DeepLDocumentKey, request: Request, services: ServicesDependency, document_id: DocumentId
) -> Any:
    """How far the translation is."""
    job = services.documents.find(document_id, body.document_key)
    if job is None:
        return error_answer(request.scope, 404, "not_found", _GONE)
    return DeepLDocumentStatus(
        document_id=job.id,
        status=job.state,
        billed_characters=job.characters if job.state == "done" else None,
        error_message=job.message or None,
    )


@router.post(
    "/v2/document/{document_id}/result",
    summary="Fetch a document (DeepL)",
    response_class=Response,
    responses=documented_as(
        DeepLError, s400="It could not be translated.", s503="It is not translated yet; ask again.", **_KNOWN
    )
    | {200: {"description": "The file.", "content": {"application/octet-stream": {}}}},
)
async def deepl_document_result(
    body: DeepLDocumentKey, request: Request, services: ServicesDependency, document_id: DocumentId
) -> Response:
    """The translated file, once it is done; for as long as the server keeps files (PARLANCE_FILE_RETENTION_S)."""
    job = services.documents.find(document_id, body.document_key)
    content = await services.documents.content(job) if job and _done(job) else None
    if job is None or content is None:
        return error_answer(request.scope, 404, "not_found", _GONE)
    return file_answer(job.extension, content)


def _done(job: DocumentJob) -> bool:
    if job.state == "error":
        raise InvalidRequest(job.message)
    if job.state != "done":
        raise EngineUnavailable("The document is not translated yet; ask again in a few seconds.")
    return True


def _extension(body: DeepLDocumentRequest) -> str:
    extension = known_extension(body.file.filename or body.filename or "")
    if body.output_format and f".{body.output_format.lower().lstrip('.')}" != extension:
        raise InvalidRequest(
            f'"output_format" is {shown(body.output_format)}; a {extension} comes back as {extension}. Leave it out.',
            field="output_format",
        )
    return extension


async def _options(body: DeepLDocumentRequest, request: Request, services: Services) -> TranslationOptions:
    glossary: dict[str, str] = {}
    if body.glossary_id:
        if body.source_lang is None:
            raise InvalidRequest('"glossary_id" needs "source_lang"; say which language the file is in.')
        pair = LoadedPairs.of(services.engine).find(body.source_lang, body.target_lang)
        glossary |= await run_in_threadpool(services.glossaries.find, owner_of(request), body.glossary_id, *pair)
    # Not validated again: a stored glossary may be larger than one that comes with a request.
    return TranslationOptions.model_construct(
        source=body.source_lang or "auto", target=body.target_lang, glossary=glossary
    )
