"""Glossaries of one pair (/v2/glossaries) and of many (/v3/glossaries), in one storage. Endpoints without `async` run
in threads, because the storage reads and writes files."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.responses import Response

from app.api.access_control import owner_of
from app.api.deepl import schemas
from app.api.deepl.routes import DeepLRoute, deepl_errors, deepl_form
from app.api.errors import NO_GLOSSARY, Meaning, documented
from app.api.language_pairs import LoadedPairs
from app.api.services import Services, ServicesDependency
from app.errors import InvalidRequest, UnknownGlossary
from app.storage.glossary_store import Dictionary, Glossary, entries_as_tsv
from app.text.language_codes import base_language, is_language

router = APIRouter(route_class=DeepLRoute)

TSV = "text/tab-separated-values"
_KEY_ERRORS = deepl_errors()
_FIND: dict[str, Meaning] = {"s404": ("There is no such glossary, or it is another's.", NO_GLOSSARY)}
_FIND_ERRORS, _PAIR_ERRORS = deepl_errors(**_FIND), deepl_errors(s400="A language is missing.", **_FIND)
_WRITE: dict[str, Meaning] = {
    "s400": "An entry, a name or a number is beyond a limit, or a field is wrong.",
    "s413": "The body is too large.",
    "s415": "The body is neither JSON nor a form.",
}
_CHANGE_ERRORS = deepl_errors(**_WRITE, **_FIND)
_store = partial(router.post, status_code=201, responses=deepl_errors(**_WRITE))
_delete = partial(router.delete, status_code=204, response_class=Response)
GlossaryId = Annotated[
    str, Path(description="Id of a glossary of yours.", examples=["559192ed-8e23-4b3c-b7a3-2fa1c6f5a9a2"])
]
SourceLang = Annotated[str, Query(description="Language of the source terms.", examples=["de"], max_length=35)]
TargetLang = Annotated[str, Query(description="Language of the target terms.", examples=["en"], max_length=35)]


def find_single_pair(glossary_id: GlossaryId, request: Request, services: ServicesDependency) -> Glossary:
    glossary = services.glossaries.get(owner_of(request), glossary_id)
    if (pairs := len(glossary.dictionaries)) != 1:
        raise UnknownGlossary(f"This glossary has {pairs} pairs; ask for it at /v3/glossaries/{glossary.id}.")
    return glossary


def _of_languages(dictionary: Dictionary, services: Services) -> Dictionary:
    """`InvalidRequest` for a code that is no language's and no loaded model's."""
    loaded = LoadedPairs(services.engine).codes
    for field, code in (("source_lang", dictionary.source), ("target_lang", dictionary.target)):
        if not is_language(code, loaded):
            listed = "GET /v2/glossary-language-pairs lists those of the models here."
            raise InvalidRequest(f"Value for '{field}' not supported: {code} is no language; {listed}", field=field)
    return dictionary


SinglePair = Annotated[Glossary, Depends(find_single_pair)]


@router.get(
    "/v2/glossary-language-pairs",
    summary="Pairs of glossaries (DeepL)",
    responses=documented(schemas.DeepLError),
)
async def deepl_glossary_pairs(services: ServicesDependency) -> schemas.DeepLPairs:
    """A glossary can be for every loaded pair."""
    pairs = {(base_language(source), base_language(target)) for source, target in LoadedPairs(services.engine).pairs}
    listed = [schemas.DeepLPair(source_lang=source, target_lang=target) for source, target in sorted(pairs)]
    return schemas.DeepLPairs(supported_languages=listed)


@_store("/v2/glossaries", summary="Store a glossary (DeepL)", openapi_extra=deepl_form("DeepLGlossaryRequest"))
def deepl_add_glossary(
    body: schemas.DeepLGlossaryRequest, request: Request, services: ServicesDependency
) -> schemas.DeepLGlossary:
    """Keeps source terms and what each becomes, under the key that sends them."""
    stored = [_of_languages(body.stored, services)]
    return schemas.DeepLGlossary.from_glossary(services.glossaries.add(owner_of(request), body.name, stored))


@router.get("/v2/glossaries", summary="List glossaries (DeepL)", responses=_KEY_ERRORS)
def deepl_glossaries(request: Request, services: ServicesDependency) -> schemas.DeepLGlossaries:
    """Yours that have one pair."""

    def single_pair(glossary: Glossary) -> schemas.DeepLGlossary | None:
        return schemas.DeepLGlossary.from_glossary(glossary) if len(glossary.dictionaries) == 1 else None

    glossaries = services.glossaries.all(owner_of(request), single_pair)
    return schemas.DeepLGlossaries(glossaries=list(filter(None, glossaries)))


@router.get("/v2/glossaries/{glossary_id}", summary="Show a glossary (DeepL)", responses=_FIND_ERRORS)
async def deepl_glossary(glossary: SinglePair) -> schemas.DeepLGlossary:
    """What it is for, and how many terms it has."""
    return schemas.DeepLGlossary.from_glossary(glossary)


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
def deepl_glossary_entries(glossary: SinglePair) -> Response:
    """All of them, as tab-separated lines."""
    return Response(entries_as_tsv(glossary.dictionaries[0].entries), media_type=TSV)


@_delete("/v2/glossaries/{glossary_id}", summary="Delete a glossary (DeepL)", responses=_FIND_ERRORS)
def deepl_delete_glossary(glossary: SinglePair, request: Request, services: ServicesDependency) -> None:
    """For good."""
    services.glossaries.delete(owner_of(request), glossary.id)


@_store(
    "/v3/glossaries",
    summary="Store a glossary of many pairs (DeepL)",
    openapi_extra=deepl_form("DeepLMultilingualRequest"),
)
def deepl_add_multilingual(
    body: schemas.DeepLMultilingualRequest, request: Request, services: ServicesDependency
) -> schemas.DeepLMultilingual:
    """Keeps a dictionary for each pair, under the key that sends them."""
    stored = [_of_languages(each.stored, services) for each in body.dictionaries]
    return schemas.DeepLMultilingual.from_glossary(services.glossaries.add(owner_of(request), body.name, stored))


@router.get("/v3/glossaries", summary="List all glossaries (DeepL)", responses=_KEY_ERRORS)
def deepl_multilinguals(request: Request, services: ServicesDependency) -> schemas.DeepLMultilinguals:
    """All of yours."""
    glossaries = services.glossaries.all(owner_of(request), schemas.DeepLMultilingual.from_glossary)
    return schemas.DeepLMultilinguals(glossaries=glossaries)


@router.get("/v3/glossaries/{glossary_id}", summary="Show a glossary of many pairs (DeepL)", responses=_FIND_ERRORS)
def deepl_multilingual(
    glossary_id: GlossaryId, request: Request, services: ServicesDependency
) -> schemas.DeepLMultilingual:
    """Its pairs, and how many terms each has."""
    return schemas.DeepLMultilingual.from_glossary(services.glossaries.get(owner_of(request), glossary_id))


@router.patch(
    "/v3/glossaries/{glossary_id}",
    summary="Change a glossary of many pairs (DeepL)",
    openapi_extra=deepl_form("DeepLMultilingualChange"),
    responses=_CHANGE_ERRORS,
)
def deepl_change_multilingual(
    body: schemas.DeepLMultilingualChange, request: Request, services: ServicesDependency, glossary_id: GlossaryId
) -> schemas.DeepLMultilingual:
    """Another name, or terms to be added to its dictionaries."""
    owner, glossaries = owner_of(request), services.glossaries
    if body.name is None and not body.dictionaries:
        raise InvalidRequest('There is nothing to change; send "name", "dictionaries", or both.')
    if body.dictionaries:
        stored = [_of_languages(each.stored, services) for each in body.dictionaries]
        changed = glossaries.merge(owner, glossary_id, stored)
    if body.name is not None:
        changed = glossaries.rename(owner, glossary_id, body.name)
    return schemas.DeepLMultilingual.from_glossary(changed)


@_delete("/v3/glossaries/{glossary_id}", summary="Delete a glossary of many pairs (DeepL)", responses=_FIND_ERRORS)
def deepl_delete_multilingual(glossary_id: GlossaryId, request: Request, services: ServicesDependency) -> None:
    """For good, with all of its dictionaries."""
    services.glossaries.delete(owner_of(request), glossary_id)


@router.get("/v3/glossaries/{glossary_id}/entries", summary="Entries of one pair (DeepL)", responses=_PAIR_ERRORS)
def deepl_multilingual_entries(
    glossary_id: GlossaryId,
    request: Request,
    services: ServicesDependency,
    source_lang: SourceLang,
    target_lang: TargetLang,
) -> schemas.DeepLEntries:
    """All terms of one of its dictionaries, as tab-separated lines."""
    glossary = services.glossaries.get(owner_of(request), glossary_id)
    dictionary = glossary.dictionary(source_lang, target_lang)
    if dictionary is None:
        raise UnknownGlossary("This glossary has no dictionary for these languages; GET it to see which it has.")
    source, target, entries = dictionary.source, dictionary.target, entries_as_tsv(dictionary.entries)
    only = schemas.DeepLDictionaryAnswer(source_lang=source, target_lang=target, entries=entries)
    return schemas.DeepLEntries(dictionaries=[only])


@router.put(
    "/v3/glossaries/{glossary_id}/dictionaries",
    summary="Replace a dictionary (DeepL)",
    openapi_extra=deepl_form("DeepLDictionary"),
    responses=_CHANGE_ERRORS,
)
def deepl_put_dictionary(
    body: schemas.DeepLDictionary, request: Request, services: ServicesDependency, glossary_id: GlossaryId
) -> schemas.DeepLDictionaryInfo:
    """In the place of the one of this pair, or as a new one."""
    stored = _of_languages(body.stored, services)
    services.glossaries.put(owner_of(request), glossary_id, stored)
    return schemas.DeepLDictionaryInfo.from_dictionary(stored)


@_delete("/v3/glossaries/{glossary_id}/dictionaries", summary="Delete a dictionary (DeepL)", responses=_PAIR_ERRORS)
def deepl_delete_dictionary(
    glossary_id: GlossaryId,
    request: Request,
    services: ServicesDependency,
    source_lang: SourceLang,
    target_lang: TargetLang,
) -> None:
    """That of one pair; the others stay."""
    services.glossaries.drop(owner_of(request), glossary_id, source_lang, target_lang)
