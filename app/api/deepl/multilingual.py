"""Glossaries of many pairs: /v3/glossaries."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from app.api.deepl.glossaries import ANSWERS, WRITTEN, GlossaryId
from app.api.deepl.route import DeepLRoute
from app.api.errors import documented_as
from app.api.forms import URLENCODED, also_takes
from app.api.owner import owner_of
from app.api.schemas.deepl import DeepLError
from app.api.schemas.deepl_glossaries import (
    DeepLDictionary,
    DeepLDictionaryInfo,
    DeepLEntries,
    DeepLMultilingual,
    DeepLMultilingualChange,
    DeepLMultilingualRequest,
    DeepLMultilinguals,
)
from app.api.services import ServicesDependency
from app.engine.errors import InvalidRequest, UnknownGlossary
from app.storage.terms import as_tsv

router = APIRouter(tags=["DeepL"], route_class=DeepLRoute)

SourceLang = Annotated[str, Query(description="Language of the source terms.", examples=["de"], max_length=35)]
TargetLang = Annotated[str, Query(description="Language of the target terms.", examples=["en"], max_length=35)]


@router.post(
    "/v3/glossaries",
    summary="Store a glossary of many pairs (DeepL)",
    status_code=201,
    response_model=DeepLMultilingual,
    openapi_extra=also_takes("DeepLMultilingualRequest", {URLENCODED: {}}),
    responses=documented_as(DeepLError, **WRITTEN),
)
async def deepl_add_multilingual(body: DeepLMultilingualRequest, request: Request, services: ServicesDependency) -> Any:
    """Keeps a dictionary for each pair, under the key that sends them."""
    stored = await run_in_threadpool(lambda: [each.stored for each in body.dictionaries])
    added = await run_in_threadpool(services.glossaries.add, owner_of(request), body.name, stored)
    return DeepLMultilingual.shown(added)


@router.get(
    "/v3/glossaries", summary="List all glossaries (DeepL)", responses=documented_as(DeepLError, s403=ANSWERS["s403"])
)
async def deepl_multilinguals(request: Request, services: ServicesDependency) -> DeepLMultilinguals:
    """All of yours."""
    found = await run_in_threadpool(services.glossaries.all, owner_of(request), DeepLMultilingual.shown)
    return DeepLMultilinguals(glossaries=found)


@router.get(
    "/v3/glossaries/{glossary_id}",
    summary="Show a glossary of many pairs (DeepL)",
    responses=documented_as(DeepLError, **ANSWERS),
)
async def deepl_multilingual(
    glossary_id: GlossaryId, request: Request, services: ServicesDependency
) -> DeepLMultilingual:
    """Its pairs, and how many terms each has."""
    return DeepLMultilingual.shown(await run_in_threadpool(services.glossaries.get, owner_of(request), glossary_id))


@router.patch(
    "/v3/glossaries/{glossary_id}",
    summary="Change a glossary of many pairs (DeepL)",
    response_model=DeepLMultilingual,
    openapi_extra=also_takes("DeepLMultilingualChange", {URLENCODED: {}}),
    responses=documented_as(DeepLError, **(WRITTEN | ANSWERS)),
)
async def deepl_change_multilingual(
    body: DeepLMultilingualChange, request: Request, services: ServicesDependency, glossary_id: GlossaryId
) -> Any:
    """Another name, or terms to be added to its dictionaries."""
    owner, glossaries = owner_of(request), services.glossaries
    if body.name is None and not body.dictionaries:
        raise InvalidRequest('There is nothing to change; send "name", "dictionaries", or both.')
    if body.dictionaries:
        stored = await run_in_threadpool(lambda: [each.stored for each in body.dictionaries])
        changed = await run_in_threadpool(glossaries.merge, owner, glossary_id, stored)
    if body.name is not None:
        changed = await run_in_threadpool(glossaries.rename, owner, glossary_id, body.name)
    return DeepLMultilingual.shown(changed)


@router.delete(
    "/v3/glossaries/{glossary_id}",
    summary="Delete a glossary of many pairs (DeepL)",
    status_code=204,
    response_class=Response,
    responses=documented_as(DeepLError, **ANSWERS),
)
async def deepl_delete_multilingual(
    glossary_id: GlossaryId, request: Request, services: ServicesDependency
) -> Response:
    """For good, with all of its dictionaries."""
    await run_in_threadpool(services.glossaries.delete, owner_of(request), glossary_id)
    return Response(status_code=204)


@router.get(
    "/v3/glossaries/{glossary_id}/entries",
    summary="Entries of one pair (DeepL)",
    responses=documented_as(DeepLError, s400="A language is missing.", **ANSWERS),
)
async def deepl_multilingual_entries(
    glossary_id: GlossaryId,
    request: Request,
    services: ServicesDependency,
    source_lang: SourceLang,
    target_lang: TargetLang,
) -> DeepLEntries:
    """All terms of one of its dictionaries, as tab-separated lines."""
    glossary = await run_in_threadpool(services.glossaries.get, owner_of(request), glossary_id)
    found = glossary.dictionary(source_lang, target_lang)
    if found is None:
        raise UnknownGlossary("This glossary has no dictionary for these languages; GET it to see which it has.")
    entries = await run_in_threadpool(as_tsv, found.entries)
    only = DeepLDictionary.model_construct(
        source_lang=found.source, target_lang=found.target, entries=entries, entries_format="tsv"
    )
    return DeepLEntries.model_construct(dictionaries=[only])


@router.put(
    "/v3/glossaries/{glossary_id}/dictionaries",
    summary="Replace a dictionary (DeepL)",
    response_model=DeepLDictionaryInfo,
    openapi_extra=also_takes("DeepLDictionary", {URLENCODED: {}}),
    responses=documented_as(DeepLError, **(WRITTEN | ANSWERS)),
)
async def deepl_put_dictionary(
    body: DeepLDictionary, request: Request, services: ServicesDependency, glossary_id: GlossaryId
) -> Any:
    """In the place of the one of this pair, or as a new one."""
    stored = await run_in_threadpool(lambda: body.stored)
    await run_in_threadpool(services.glossaries.put, owner_of(request), glossary_id, stored)
    return DeepLDictionaryInfo.of(stored)


@router.delete(
    "/v3/glossaries/{glossary_id}/dictionaries",
    summary="Delete a dictionary (DeepL)",
    status_code=204,
    response_class=Response,
    responses=documented_as(DeepLError, s400="A language is missing.", **ANSWERS),
)
async def deepl_delete_dictionary(
    glossary_id: GlossaryId,
    request: Request,
    services: ServicesDependency,
    source_lang: SourceLang,
    target_lang: TargetLang,
) -> Response:
    """That of one pair; the others stay."""
    await run_in_threadpool(services.glossaries.drop, owner_of(request), glossary_id, source_lang, target_lang)
    return Response(status_code=204)
