"""Glossaries of one pair (/v2/glossaries) and of many (/v3/glossaries), in one storage."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from app.api.access_control import owner_of
from app.api.deepl.errors import DeepLError, DeepLRoute
from app.api.deepl.schemas import (
    DeepLDictionary,
    DeepLDictionaryInfo,
    DeepLEntries,
    DeepLGlossaries,
    DeepLGlossary,
    DeepLGlossaryRequest,
    DeepLMultilingual,
    DeepLMultilingualChange,
    DeepLMultilingualRequest,
    DeepLMultilinguals,
    DeepLPair,
    DeepLPairs,
)
from app.api.errors import documented_as
from app.api.language_pairs import LoadedPairs
from app.api.request_body import URLENCODED, also_takes
from app.api.services import Services, ServicesDependency
from app.errors import InvalidRequest, UnknownGlossary
from app.storage.glossary_store import Glossary, entries_as_tsv
from app.text.language_codes import base_language

router = APIRouter(tags=["DeepL"], route_class=DeepLRoute)

GlossaryId = Annotated[
    str, Path(description="Id of a glossary of yours.", examples=["559192ed-8e23-4b3c-b7a3-2fa1c6f5a9a2"])
]
_KEY = {"s403": "The key is missing or wrong."}
_FIND = _KEY | {"s404": "There is no such glossary, or it is another's."}
_WRITE = {
    "s400": "An entry, a name or a number is beyond a limit, or a field is wrong.",
    **_KEY,
    "s413": "The body is too large.",
    "s415": "The body is neither JSON nor a form.",
}
_KEY_ERRORS, _FIND_ERRORS = documented_as(DeepLError, **_KEY), documented_as(DeepLError, **_FIND)
_WRITE_ERRORS, _CHANGE_ERRORS = documented_as(DeepLError, **_WRITE), documented_as(DeepLError, **(_WRITE | _FIND))
_PAIR_ERRORS = documented_as(DeepLError, s400="A language is missing.", **_FIND)
TSV = "text/tab-separated-values"


@router.get("/v2/glossary-language-pairs", summary="Pairs of glossaries (DeepL)", responses=documented_as(DeepLError))
async def deepl_glossary_pairs(services: ServicesDependency) -> DeepLPairs:
    """A glossary can be for every loaded pair."""
    found = {(base_language(source), base_language(target)) for source, target in LoadedPairs.of(services.engine).pairs}
    return DeepLPairs(
        supported_languages=[DeepLPair(source_lang=source, target_lang=target) for source, target in sorted(found)]
    )


@router.post(
    "/v2/glossaries",
    summary="Store a glossary (DeepL)",
    status_code=201,
    openapi_extra=also_takes("DeepLGlossaryRequest", {URLENCODED: {}}),
    responses=_WRITE_ERRORS,
)
async def deepl_add_glossary(
    body: DeepLGlossaryRequest, request: Request, services: ServicesDependency
) -> DeepLGlossary:
    """Keeps source terms and what each becomes, under the key that sends them."""
    owner, stored = owner_of(request), await run_in_threadpool(lambda: body.stored)
    return DeepLGlossary.from_glossary(await run_in_threadpool(services.glossaries.add, owner, body.name, [stored]))


@router.get("/v2/glossaries", summary="List glossaries (DeepL)", responses=_KEY_ERRORS)
async def deepl_glossaries(request: Request, services: ServicesDependency) -> DeepLGlossaries:
    """Yours that have one pair."""

    def single_pair(glossary: Glossary) -> DeepLGlossary | None:
        return DeepLGlossary.from_glossary(glossary) if len(glossary.dictionaries) == 1 else None

    found = await run_in_threadpool(services.glossaries.all, owner_of(request), single_pair)
    return DeepLGlossaries(glossaries=[glossary for glossary in found if glossary is not None])


@router.get("/v2/glossaries/{glossary_id}", summary="Show a glossary (DeepL)", responses=_FIND_ERRORS)
async def deepl_glossary(glossary_id: GlossaryId, request: Request, services: ServicesDependency) -> DeepLGlossary:
    """What it is for, and how many terms it has."""
    return DeepLGlossary.from_glossary(await _find_single_pair(glossary_id, request, services))


@router.get(
    "/v2/glossaries/{glossary_id}/entries",
    summary="Entries of a glossary (DeepL)",
    response_class=Response,
    responses=_FIND_ERRORS
    | {
        200: {
            "description": "A line for each term: what it is, a tab, what it becomes.",
            "content": {TSV: {"schema": {"type": "string"}, "example": "Bier\tale\nWirt\thost"}},
        }
    },
)
async def deepl_glossary_entries(glossary_id: GlossaryId, request: Request, services: ServicesDependency) -> Response:
    """All of them, as tab-separated lines."""
    (only,) = (await _find_single_pair(glossary_id, request, services)).dictionaries
    return Response(entries_as_tsv(only.entries), media_type=f"{TSV}; charset=utf-8")


@router.delete(
    "/v2/glossaries/{glossary_id}",
    summary="Delete a glossary (DeepL)",
    status_code=204,
    response_class=Response,
    responses=_FIND_ERRORS,
)
async def deepl_delete_glossary(glossary_id: GlossaryId, request: Request, services: ServicesDependency) -> Response:
    """For good."""
    await _find_single_pair(glossary_id, request, services)
    await run_in_threadpool(services.glossaries.delete, owner_of(request), glossary_id)
    return Response(status_code=204)


async def _find_single_pair(glossary_id: str, request: Request, services: Services) -> Glossary:
    found = await run_in_threadpool(services.glossaries.get, owner_of(request), glossary_id)
    if len(found.dictionaries) != 1:
        raise UnknownGlossary(
            f"This glossary has {len(found.dictionaries)} pairs; ask for it at /v3/glossaries/{found.id}."
        )
    return found


SourceLang = Annotated[str, Query(description="Language of the source terms.", examples=["de"], max_length=35)]
TargetLang = Annotated[str, Query(description="Language of the target terms.", examples=["en"], max_length=35)]


@router.post(
    "/v3/glossaries",
    summary="Store a glossary of many pairs (DeepL)",
    status_code=201,
    openapi_extra=also_takes("DeepLMultilingualRequest", {URLENCODED: {}}),
    responses=_WRITE_ERRORS,
)
async def deepl_add_multilingual(
    body: DeepLMultilingualRequest, request: Request, services: ServicesDependency
) -> DeepLMultilingual:
    """Keeps a dictionary for each pair, under the key that sends them."""
    stored = await run_in_threadpool(lambda: [each.stored for each in body.dictionaries])
    added = await run_in_threadpool(services.glossaries.add, owner_of(request), body.name, stored)
    return DeepLMultilingual.from_glossary(added)


@router.get("/v3/glossaries", summary="List all glossaries (DeepL)", responses=_KEY_ERRORS)
async def deepl_multilinguals(request: Request, services: ServicesDependency) -> DeepLMultilinguals:
    """All of yours."""
    found = await run_in_threadpool(services.glossaries.all, owner_of(request), DeepLMultilingual.from_glossary)
    return DeepLMultilinguals(glossaries=found)


@router.get("/v3/glossaries/{glossary_id}", summary="Show a glossary of many pairs (DeepL)", responses=_FIND_ERRORS)
async def deepl_multilingual(
    glossary_id: GlossaryId, request: Request, services: ServicesDependency
) -> DeepLMultilingual:
    """Its pairs, and how many terms each has."""
    return DeepLMultilingual.from_glossary(
        await run_in_threadpool(services.glossaries.get, owner_of(request), glossary_id)
    )


@router.patch(
    "/v3/glossaries/{glossary_id}",
    summary="Change a glossary of many pairs (DeepL)",
    openapi_extra=also_takes("DeepLMultilingualChange", {URLENCODED: {}}),
    responses=_CHANGE_ERRORS,
)
async def deepl_change_multilingual(
    body: DeepLMultilingualChange, request: Request, services: ServicesDependency, glossary_id: GlossaryId
) -> DeepLMultilingual:
    """Another name, or terms to be added to its dictionaries."""
    owner, glossaries = owner_of(request), services.glossaries
    if body.name is None and not body.dictionaries:
        raise InvalidRequest('There is nothing to change; send "name", "dictionaries", or both.')
    if body.dictionaries:
        stored = await run_in_threadpool(lambda: [each.stored for each in body.dictionaries])
        changed = await run_in_threadpool(glossaries.merge, owner, glossary_id, stored)
    if body.name is not None:
        changed = await run_in_threadpool(glossaries.rename, owner, glossary_id, body.name)
    return DeepLMultilingual.from_glossary(changed)


@router.delete(
    "/v3/glossaries/{glossary_id}",
    summary="Delete a glossary of many pairs (DeepL)",
    status_code=204,
    response_class=Response,
    responses=_FIND_ERRORS,
)
async def deepl_delete_multilingual(
    glossary_id: GlossaryId, request: Request, services: ServicesDependency
) -> Response:
    """For good, with all of its dictionaries."""
    await run_in_threadpool(services.glossaries.delete, owner_of(request), glossary_id)
    return Response(status_code=204)


@router.get("/v3/glossaries/{glossary_id}/entries", summary="Entries of one pair (DeepL)", responses=_PAIR_ERRORS)
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
    entries = await run_in_threadpool(entries_as_tsv, found.entries)
    only = DeepLDictionary.model_construct(
        source_lang=found.source, target_lang=found.target, entries=entries, entries_format="tsv"
    )
    return DeepLEntries.model_construct(dictionaries=[only])


@router.put(
    "/v3/glossaries/{glossary_id}/dictionaries",
    summary="Replace a dictionary (DeepL)",
    openapi_extra=also_takes("DeepLDictionary", {URLENCODED: {}}),
    responses=_CHANGE_ERRORS,
)
async def deepl_put_dictionary(
    body: DeepLDictionary, request: Request, services: ServicesDependency, glossary_id: GlossaryId
) -> DeepLDictionaryInfo:
    """In the place of the one of this pair, or as a new one."""
    stored = await run_in_threadpool(lambda: body.stored)
    await run_in_threadpool(services.glossaries.put, owner_of(request), glossary_id, stored)
    return DeepLDictionaryInfo.from_dictionary(stored)


@router.delete(
    "/v3/glossaries/{glossary_id}/dictionaries",
    summary="Delete a dictionary (DeepL)",
    status_code=204,
    response_class=Response,
    responses=_PAIR_ERRORS,
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
