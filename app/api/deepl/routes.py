"""POST /v2/translate, /v2/document; /v2/languages and /v2/usage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, Form, Path, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from app import documents
from app.api.access_control import caller_of, owner_of
from app.api.deepl.errors import DeepLError, DeepLRoute
from app.api.deepl.schemas import (
    DeepLDocument,
    DeepLDocumentKey,
    DeepLDocumentRequest,
    DeepLDocumentStatus,
    DeepLLanguage,
    DeepLTranslateAnswer,
    DeepLTranslateRequest,
    DeepLTranslation,
    DeepLUsage,
)
from app.api.errors import documented_as, not_found, text_errors
from app.api.field_types import describe_value, quotable
from app.api.language_pairs import LoadedPairs, assign_pairs, translate_texts
from app.api.libretranslate.document_translation import DocumentTranslator, check_extension, file_response
from app.api.libretranslate.schemas import TranslationFields
from app.api.request_body import URLENCODED, also_takes, parse_fields
from app.api.services import Services, ServicesDependency
from app.errors import EngineUnavailable, InvalidRequest
from app.text.html_page import check_well_formed, with_ignored_tags, without_ignored_marks
from app.text.language_codes import base_language, language_name
from app.translation import TextFormat

_REGIONAL_TARGETS = {
    "en": {"EN-GB": "English (British)", "EN-US": "English (American)"},
    "pt": {"PT-PT": "Portuguese (European)", "PT-BR": "Portuguese (Brazilian)"},
    "zh": {"ZH": "Chinese", "ZH-HANS": "Chinese (simplified)"},
    "zh-hans": {"ZH": "Chinese", "ZH-HANS": "Chinese (simplified)"},
    "pt-br": {"PT-BR": "Portuguese (Brazilian)"},
    "no": {"NB": "Norwegian"},
}


def source_code(code: str) -> str:
    """DeepL's code of a loaded language: "ZH" for "zh-Hans", "DE" for "de"."""
    base = base_language(code)
    return "NB" if base == "no" else base.upper()


def source_languages(codes: Iterable[str]) -> dict[str, str]:
    """Names by DeepL's codes, sorted by code."""
    return dict(sorted({source_code(code): language_name(base_language(code)) for code in codes}.items()))


def target_languages(codes: Iterable[str]) -> dict[str, str]:
    """As `source_languages`, but EN and PT have regions: DeepL's clients refuse to send them without."""
    names: dict[str, str] = {}
    for code in codes:
        names.update(_REGIONAL_TARGETS.get(code.lower(), {code.upper(): language_name(code)}))
    return dict(sorted(names.items()))


router = APIRouter(tags=["DeepL"], route_class=DeepLRoute)
document_router = APIRouter(tags=["DeepL"], route_class=DeepLRoute)  # after the glossaries in the documentation

TRANSLATE_FORM = also_takes("DeepLTranslateRequest", {URLENCODED: {}})


DEEPL_ERRORS = documented_as(
    DeepLError,
    **text_errors(
        s403="The key is missing or wrong.",
        s404="There is no such glossary.",
        s415="The body is neither JSON nor a form.",
        s456="The quota of this key is used up.",
    ),
)


@router.post(
    "/v2/translate",
    summary="Translate texts (DeepL)",
    response_model_exclude_none=True,
    openapi_extra=TRANSLATE_FORM,
    responses=DEEPL_ERRORS,
)
async def deepl_translate(
    body: DeepLTranslateRequest, request: Request, services: ServicesDependency
) -> DeepLTranslateAnswer:
    """Translates `text`, in DeepL's form: point its clients here with `server_url`."""
    services.limits.check_texts(body.text, "text")
    if body.tag_handling == "xml":
        for text in body.text:
            check_well_formed(text, "text")
    pairs = await assign_pairs(body.text, body.source_lang, body.target_lang, services)
    glossary: dict[str, str] = {}  # of all named ones, earlier ones first; with a glossary, all texts have one pair
    for glossary_id in reversed(body.glossaries):
        find, (source, target, _) = services.glossaries.find, pairs[0]
        glossary |= await run_in_threadpool(find, owner_of(request), glossary_id, source, target)
    translations = await translate_texts(
        [with_ignored_tags(text, body.ignore_tags) for text in body.text],
        pairs,
        request,
        services,
        text_format="html" if body.tag_handling else "text",
        glossary=glossary,
        split=body.split_sentences != "0",
    )
    services.usage.count(caller_of(request), sum(map(len, body.text)))
    model_type = body.model_type.removeprefix("prefer_") if body.model_type else None
    return DeepLTranslateAnswer(
        translations=[
            DeepLTranslation(
                detected_source_language=source_code(pair.source),
                text=without_ignored_marks(translation.text, body.ignore_tags),
                billed_characters=len(text),
                model_type_used=model_type,
                finish_reason=None if translation.finish_reason == "stop" else translation.finish_reason,
            )
            for text, pair, translation in zip(body.text, pairs, translations, strict=True)
        ]
    )


LanguageSide = Annotated[
    str | None,
    Query(
        alias="type",
        description='"source" (the default) or "target"; also as a field of a form.',
        examples=["target"],
        json_schema_extra={"enum": ["source", "target"]},
    ),
]
_LANGUAGE_ERRORS = documented_as(
    DeepLError, s400="`type` is neither source nor target.", s403="The key is missing or wrong."
)


@router.post(
    "/v2/languages",
    name="deepl_languages_posted",
    description="As GET /v2/languages.",
    summary="List languages (DeepL)",
    response_model_exclude_none=True,
    responses=_LANGUAGE_ERRORS,
)
@router.get(
    "/v2/languages", summary="List languages (DeepL)", response_model_exclude_none=True, responses=_LANGUAGE_ERRORS
)
async def deepl_languages(
    request: Request, services: ServicesDependency, side: LanguageSide = None
) -> list[DeepLLanguage]:
    """Languages that a loaded model reads, or writes. DeepL's Python client sends `type` as the body of a GET."""
    pairs = LoadedPairs.of(services.engine).pairs
    if _read_side(request, side) == "target":
        codes = target_languages(target for _, target in pairs)
        return [DeepLLanguage(language=code, name=name, supports_formality=False) for code, name in codes.items()]
    codes = source_languages(source for source, _ in pairs)
    return [DeepLLanguage(language=code, name=name) for code, name in codes.items()]


@router.post(
    "/v2/usage",
    name="deepl_usage_posted",
    description="As GET /v2/usage.",
    summary="Characters used (DeepL)",
    responses=documented_as(DeepLError, s403="The key is missing or wrong."),
)
@router.get(
    "/v2/usage",
    summary="Characters used (DeepL)",
    responses=documented_as(DeepLError, s403="The key is missing or wrong."),
)
async def deepl_usage(request: Request, services: ServicesDependency) -> DeepLUsage:
    """What this key had translated, and its quota."""
    used, limit = await services.usage.of(caller_of(request), services.access)
    return DeepLUsage(character_count=used, character_limit=limit)


def _read_side(request: Request, side: object) -> Literal["source", "target"]:
    if side is None:
        side = parse_fields(request, request.scope["state"]["body"], takes_forms=True).get("type", "source")
    match side:
        case "source" | "":
            return "source"
        case "target":
            return "target"
    raise InvalidRequest(f'"type" is {describe_value(side)}; it takes "source" or "target".', field="type")


DocumentId = Annotated[
    str, Path(description="As POST /v2/document gave it.", examples=["04DE5AD98A02647D83285A36021911C6"])
]
_DOCUMENT_ERRORS = {"s403": "The key is missing or wrong.", "s404": "There is no such document, or its key is another."}
_NO_DOCUMENT = "There is no such document here, or its document_key is another; send it again."


@document_router.post(
    "/v2/document",
    summary="Translate a document (DeepL)",
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
) -> DeepLDocument:
    """Takes a file and begins to translate it; its layout stays. Ask POST /v2/document/{document_id} how far it is."""
    extension = _extension(body)
    translator = DocumentTranslator(await _options(body, request, services), services, owner_of(request))
    await translator.check()
    content, characters = body.file.content, 0

    async def counted(texts: Sequence[str], text_format: TextFormat) -> list[str]:
        nonlocal characters
        characters += sum(map(len, texts))
        return await translator(texts, text_format)

    async def work() -> tuple[bytes, int]:
        return await documents.translated(extension, content, counted), characters

    job = services.documents.start(extension, work)
    return DeepLDocument(document_id=job.id, document_key=job.key)


@document_router.post(
    "/v2/document/{document_id}",
    summary="Status of a document (DeepL)",
    response_model=DeepLDocumentStatus,
    response_model_exclude_none=True,
    responses=documented_as(DeepLError, s400="document_key is missing.", **_DOCUMENT_ERRORS),
)
async def deepl_document_status(
    body: DeepLDocumentKey, request: Request, services: ServicesDependency, document_id: DocumentId
) -> DeepLDocumentStatus | Response:
    """How far the translation is."""
    job = services.documents.find(document_id, body.document_key)
    if job is None:
        return not_found(request.scope, _NO_DOCUMENT)
    return DeepLDocumentStatus(
        document_id=job.id,
        status=job.state,
        billed_characters=job.characters if job.state == "done" else None,
        error_message=job.message or None,
    )


@document_router.post(
    "/v2/document/{document_id}/result",
    summary="Fetch a document (DeepL)",
    response_class=Response,
    responses=documented_as(
        DeepLError, s400="It could not be translated.", s503="It is not translated yet; ask again.", **_DOCUMENT_ERRORS
    )
    | {200: {"description": "The file.", "content": {"application/octet-stream": {}}}},
)
async def deepl_document_result(
    body: DeepLDocumentKey, request: Request, services: ServicesDependency, document_id: DocumentId
) -> Response:
    """The translated file, once it is done; for as long as the server keeps files (PARLANCE_FILE_RETENTION_S)."""
    job = services.documents.find(document_id, body.document_key)
    if job is not None and job.state == "error":
        raise InvalidRequest(job.message)
    if job is not None and job.state != "done":
        raise EngineUnavailable("The document is not translated yet; ask again in a few seconds.")
    content = await services.documents.content(job) if job else None
    if job is None or content is None:
        return not_found(request.scope, _NO_DOCUMENT)
    return file_response(job.extension, content)


def _extension(body: DeepLDocumentRequest) -> str:
    extension = check_extension(body.file.filename or body.filename or "")
    if body.output_format and f".{body.output_format.lower().lstrip('.')}" != extension:
        raise InvalidRequest(
            f'"output_format" is {quotable(body.output_format)}; a {extension} comes back as {extension}.'
            " Leave it out.",
            field="output_format",
        )
    return extension


async def _options(body: DeepLDocumentRequest, request: Request, services: Services) -> TranslationFields:
    glossary: dict[str, str] = {}
    if body.glossary_id:
        if body.source_lang is None:
            raise InvalidRequest('"glossary_id" needs "source_lang"; say which language the file is in.')
        pair = LoadedPairs.of(services.engine).find(body.source_lang, body.target_lang)
        glossary |= await run_in_threadpool(services.glossaries.find, owner_of(request), body.glossary_id, *pair)
    # Not validated again: a stored glossary may be larger than one that comes with a request.
    return TranslationFields.model_construct(
        source=body.source_lang or "auto", target=body.target_lang, glossary=glossary
    )
