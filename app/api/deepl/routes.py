"""POST /v2/translate, /v2/document; /v2/languages and /v2/usage."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, ClassVar

from fastapi import APIRouter, Form, Path, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from app import documents
from app.access.authorization import KeyMissing, KeyWrong, QuotaExceeded
from app.api.access_control import caller_of, owner_of
from app.api.deepl import schemas
from app.api.errors import NO_GLOSSARY, TEXT_ERRORS, ErrorExample, Statuses, documented, not_found
from app.api.language_pairs import LoadedPairs, find_pairs, models_needed, translate_texts
from app.api.libretranslate.document_translation import (
    DocumentTranslator,
    check_extension,
    download_name,
    file_response,
)
from app.api.libretranslate.schemas import TranslationFields
from app.api.request_body import URLENCODED, also_takes, hold_upload, parse_fields
from app.api.request_fields import describe_value, quotable
from app.api.route import ApiRoute
from app.api.services import Services, ServicesDependency
from app.errors import EngineUnavailable, InvalidRequest, TextTooLong
from app.interpreter import in_thread_if_long
from app.text.language_codes import base_language, language_name
from app.text.page_parser import TagRules
from app.text.xml_page import check_well_formed
from app.translation import TextFormat

_REGIONAL_TARGETS = {  # DeepL's clients refuse to send EN and PT without a region
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


class DeepLRoute(ApiRoute):
    """JSON or a form. DeepL's clients retry 429 and 5xx up to five times, so that a lasting error is 4xx."""

    statuses: ClassVar[Statuses] = {
        InvalidRequest: 400,
        TextTooLong: 400,
        KeyMissing: 403,
        KeyWrong: 403,
        QuotaExceeded: 456,
    }
    error_schema = schemas.DeepLError
    takes_forms = True
    key_fields: ClassVar[tuple[str, ...]] = ("auth_key",)
    repeated_fields = frozenset(
        {"text", "custom_instructions", "glossary_ids", "splitting_tags", "non_splitting_tags", "ignore_tags"}
    )


router = APIRouter(route_class=DeepLRoute)
document_router = APIRouter(route_class=DeepLRoute)  # after the glossaries in the documentation

deepl_errors = partial(documented, schemas.DeepLError, s403="The key is missing or wrong.")
deepl_form = partial(also_takes, encodings={URLENCODED: {}})
TRANSLATE_FORM = deepl_form("DeepLTranslateRequest")
TRANSLATE_ERRORS = deepl_errors(
    TEXT_ERRORS,
    s404=("There is no such glossary.", NO_GLOSSARY),
    s415="The body is neither JSON nor a form.",
    s456="The quota of this key is used up.",
)
_LANGUAGE_ERRORS = deepl_errors(s400="`type` is neither source nor target.")
_NO_DOCUMENT = "There is no such document here, or its document_key is another; send it again."
_NOT_YET = "The document is not translated yet; ask again in a few seconds."
_DOCUMENT_ERRORS = partial(
    deepl_errors, s404=("There is no such document, or its key is another.", ErrorExample("not_found", _NO_DOCUMENT))
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
DocumentId = Annotated[
    str, Path(description="As POST /v2/document gave it.", examples=["04DE5AD98A02647D83285A36021911C6"])
]


async def named_terms(
    body: schemas.GlossaryNames, pair: tuple[str, str], request: Request, services: Services
) -> dict[str, str]:
    """The terms of all glossaries that a request names; where two have a term, the earlier wins."""
    terms: dict[str, str] = {}
    for glossary_id in reversed(body.glossaries):
        terms |= await run_in_threadpool(services.glossaries.find, owner_of(request), glossary_id, *pair)
    return terms


@router.post(
    "/v2/translate",
    summary="Translate texts (DeepL)",
    openapi_extra=TRANSLATE_FORM,
    responses=TRANSLATE_ERRORS,
)
async def deepl_translate(
    body: schemas.DeepLTranslateRequest, request: Request, services: ServicesDependency
) -> schemas.DeepLTranslateAnswer:
    """Translates `text`, in DeepL's form: point its clients here with `server_url`."""
    services.limits.check_texts(body.texts, "text")
    if body.tag_handling == "xml":
        characters = sum(map(len, body.texts))
        await in_thread_if_long(characters, _check_xml, body.texts)
    text_format: TextFormat = body.tag_handling or "text"
    pairs = await find_pairs(body.texts, body.source, body.target, services, text_format)
    # with a glossary, all texts have one pair
    glossary = await named_terms(body, pairs[0].pair, request, services) if body.glossaries else {}
    translations = await translate_texts(
        body.texts,
        pairs,
        request,
        services,
        text_format=text_format,
        glossary=glossary,
        split=body.split_sentences != "0",
        tags=_tag_rules(body),
    )
    billed = [len(text) * models_needed(pair, services) for text, pair in zip(body.texts, pairs, strict=True)]
    services.usage.count(caller_of(request), sum(billed))
    model_type = body.model_type.removeprefix("prefer_") if body.model_type else None
    answers = [
        schemas.DeepLTranslation(
            detected_source_language=source_code(pair.source),
            text=translation.text,
            billed_characters=characters,
            model_type_used=model_type,
            finish_reason=None if translation.finish_reason == "stop" else translation.finish_reason,
        )
        for characters, pair, translation in zip(billed, pairs, translations, strict=True)
    ]
    return schemas.DeepLTranslateAnswer(translations=answers)


def _check_xml(texts: Sequence[str]) -> None:
    for text in texts:
        check_well_formed(text, "text")


def _tag_rules(body: schemas.DeepLTranslateRequest) -> TagRules:
    """HTML's names are in any case, XML's are not."""
    written = str if body.tag_handling == "xml" else str.lower
    return TagRules(
        frozenset(map(written, body.splitting_tags)),
        frozenset(map(written, body.non_splitting_tags)),
        frozenset(map(written, body.ignore_tags)),
        body.outline_detection,
    )


@router.get("/v2/languages", summary="List languages (DeepL)", responses=_LANGUAGE_ERRORS)
async def deepl_languages(
    request: Request, services: ServicesDependency, side: LanguageSide = None
) -> list[schemas.DeepLLanguage]:
    """Languages that a loaded model reads, or writes. DeepL's Python client sends `type` as the body of a GET."""
    kind: object = side
    if side is None:
        kind = parse_fields(request, request.scope["state"]["body"], takes_forms=True).get("type", "source")
    if kind not in ("source", "", "target"):
        raise InvalidRequest(f'"type" is {describe_value(kind)}; it takes "source" or "target".', field="type")
    pairs = LoadedPairs(services.engine).pairs
    if kind == "target":
        targets: dict[str, str] = {}
        for _, code in pairs:
            targets |= _REGIONAL_TARGETS.get(code.lower(), {code.upper(): language_name(code)})
        listed = sorted(targets.items())
        return [schemas.DeepLLanguage(language=code, name=name, supports_formality=False) for code, name in listed]
    sources = {source_code(code): language_name(base_language(code)) for code, _ in pairs}
    return [schemas.DeepLLanguage(language=code, name=sources[code]) for code in sorted(sources)]


@router.get("/v2/usage", summary="Characters used (DeepL)", responses=deepl_errors())
async def deepl_usage(request: Request, services: ServicesDependency) -> schemas.DeepLUsage:
    """What this key had translated, and its quota."""
    used, limit = await services.usage.of(caller_of(request), services.access)
    return schemas.DeepLUsage(character_count=used, character_limit=limit)


# DeepL's clients send both ways.
for _route in [route for route in router.routes if isinstance(route, DeepLRoute) and route.methods == {"GET"}]:
    router.post(
        _route.path,
        name=f"{_route.name}_posted",
        include_in_schema=False,
    )(_route.endpoint)


@document_router.post(
    "/v2/document",
    summary="Translate a document (DeepL)",
    responses=deepl_errors(
        s400="The file is of a kind that is not translated, a field is wrong, or a language is not there.",
        s404=("There is no such glossary.", NO_GLOSSARY),
        s413="The file is too large.",
        s415="The body is no form.",
        s429="Too many documents wait; Retry-After says when to try again.",
        s456="The quota of this key is used up.",
    ),
)
async def deepl_document(
    body: Annotated[schemas.DeepLDocumentRequest, Form(media_type="multipart/form-data")],
    request: Request,
    services: ServicesDependency,
) -> schemas.DeepLDocument:
    """Takes a file and begins to translate it; its layout stays. Ask POST /v2/document/{document_id} how far it is."""
    extension = check_extension(body.file.filename or body.filename or "")
    if body.output_format and f".{body.output_format.lower().lstrip('.')}" != extension:
        raise InvalidRequest(
            f'"output_format" is {quotable(body.output_format)}; a {extension} comes back as {extension}.'
            " Leave it out.",
            field="output_format",
        )
    terms: dict[str, str] | None = None
    if body.glossaries:
        field = "glossary_id" if body.glossary_id else "glossary_ids"
        if body.source_lang is None:
            raise InvalidRequest(f'"{field}" needs "source_lang"; say which language the file is in.')
        pair = LoadedPairs(services.engine).find(body.source_lang, body.target_lang)  # "auto" is none of a glossary's
        terms = await named_terms(body, pair, request, services)
    source, target = body.source_lang or "auto", body.target_lang
    fields = TranslationFields.model_construct(source=source, target=target, glossary=terms)
    translator = DocumentTranslator(fields, services, owner_of(request))
    await translator.check()
    content = body.file.content

    async def work() -> tuple[bytes, int]:
        readers = services.documents.readers
        translated = await documents.translated(extension, content, translator, translator.language, readers)
        return translated, translator.characters

    filename = download_name(body.file.filename or body.filename or "", body.source_lang or "", target.lower())
    job, key = await services.documents.start(
        extension, filename, work, hold_upload(request.scope), translator.progress
    )
    return schemas.DeepLDocument(document_id=job.id, document_key=key)


@document_router.post(
    "/v2/document/{document_id}",
    summary="Status of a document (DeepL)",
    response_model=schemas.DeepLDocumentStatus,
    responses=_DOCUMENT_ERRORS(s400="document_key is missing."),
)
async def deepl_document_status(
    body: schemas.DeepLDocumentKey, request: Request, services: ServicesDependency, document_id: DocumentId
) -> schemas.DeepLDocumentStatus | Response:
    """How far the translation is."""
    job = await services.documents.find(document_id, body.document_key)
    return not_found(request.scope, _NO_DOCUMENT) if job is None else schemas.DeepLDocumentStatus.of(job)


@document_router.post(
    "/v2/document/{document_id}/result",
    summary="Fetch a document (DeepL)",
    response_class=Response,
    responses=_DOCUMENT_ERRORS(
        s400="It could not be translated.",
        s503=("It is not translated yet; ask again.", ErrorExample("engine_unavailable", _NOT_YET)),
    )
    | {200: {"description": "The file.", "content": {"application/octet-stream": {}}}},
)
async def deepl_document_result(
    body: schemas.DeepLDocumentKey, request: Request, services: ServicesDependency, document_id: DocumentId
) -> Response:
    """The translated file, once it is done; for as long as the server keeps files (PARLANCE_FILE_RETENTION_S)."""
    job = await services.documents.find(document_id, body.document_key)
    if job is None:
        return not_found(request.scope, _NO_DOCUMENT)
    if job.state == "error":
        raise InvalidRequest(job.message)
    if job.state != "done":
        raise EngineUnavailable(_NOT_YET)
    content = await run_in_threadpool(services.files.read, job.name)  # None: it has expired
    return (
        not_found(request.scope, _NO_DOCUMENT)
        if content is None
        else file_response(job.extension, content, job.filename)
    )
