"""Glossaries of one pair: /v2/glossaries. They are the same as those of /v3 that have a single dictionary."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from app.api.deepl.route import DeepLRoute
from app.api.errors import documented_as
from app.api.forms import URLENCODED, also_takes
from app.api.owner import owner_of
from app.api.pairs import LoadedPairs
from app.api.schemas.deepl import DeepLError
from app.api.schemas.deepl_glossaries import (
    DeepLGlossaries,
    DeepLGlossary,
    DeepLGlossaryRequest,
    DeepLPair,
    DeepLPairs,
)
from app.api.services import Services, ServicesDependency
from app.engine.errors import UnknownGlossary
from app.storage.glossaries import Glossary
from app.storage.terms import as_tsv
from app.text.languages import base_language

router = APIRouter(tags=["DeepL"], route_class=DeepLRoute)

GlossaryId = Annotated[
    str, Path(description="Id of a glossary of yours.", examples=["559192ed-8e23-4b3c-b7a3-2fa1c6f5a9a2"])
]
ANSWERS = {"s403": "The key is missing or wrong.", "s404": "There is no such glossary, or it is another's."}
WRITTEN = {
    "s400": "An entry, a name or a number is beyond a limit, or a field is wrong.",
    "s403": ANSWERS["s403"],
    "s413": "The body is too large.",
    "s415": "The body is neither JSON nor a form.",
}
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
    response_model=DeepLGlossary,
    openapi_extra=also_takes("DeepLGlossaryRequest", {URLENCODED: {}}),
    responses=documented_as(DeepLError, **WRITTEN),
)
async def deepl_add_glossary(body: DeepLGlossaryRequest, request: Request, services: ServicesDependency) -> Any:
    """Keeps source terms and what each becomes, under the key that sends them."""
    owner, stored = owner_of(request), await run_in_threadpool(lambda: body.stored)
    return DeepLGlossary.shown(await run_in_threadpool(services.glossaries.add, owner, body.name, [stored]))


@router.get(
    "/v2/glossaries", summary="List glossaries (DeepL)", responses=documented_as(DeepLError, s403=ANSWERS["s403"])
)
async def deepl_glossaries(request: Request, services: ServicesDependency) -> DeepLGlossaries:
    """Yours that have one pair."""
    found = await run_in_threadpool(services.glossaries.all, owner_of(request), _shown_if_single)
    return DeepLGlossaries(glossaries=[each for each in found if each is not None])


@router.get(
    "/v2/glossaries/{glossary_id}", summary="Show a glossary (DeepL)", responses=documented_as(DeepLError, **ANSWERS)
)
async def deepl_glossary(glossary_id: GlossaryId, request: Request, services: ServicesDependency) -> DeepLGlossary:
    """What it is for, and how many terms it has."""
    return DeepLGlossary.shown(await _single(glossary_id, request, services))


@router.get(
    "/v2/glossaries/{glossary_id}/entries",
    summary="Entries of a glossary (DeepL)",
    response_class=Response,
    responses=documented_as(DeepLError, **ANSWERS)
    | {
        200: {
            "description": "A line for each term: what it is, a tab, what it becomes.",
            "content": {TSV: {"schema": {"type": "string"}, "example": "Bier\tale\nWirt\thost"}},
        }
    },
)
async def deepl_glossary_entries(glossary_id: GlossaryId, request: Request, services: ServicesDependency) -> Response:
    """All of them, as tab-separated lines."""
    (only,) = (await _single(glossary_id, request, services)).dictionaries
    return Response(as_tsv(only.entries), media_type=f"{TSV}; charset=utf-8")


@router.delete(
    "/v2/glossaries/{glossary_id}",
    summary="Delete a glossary (DeepL)",
    status_code=204,
    response_class=Response,
    responses=documented_as(DeepLError, **ANSWERS),
)
async def deepl_delete_glossary(glossary_id: GlossaryId, request: Request, services: ServicesDependency) -> Response:
    """For good."""
    await _single(glossary_id, request, services)
    await run_in_threadpool(services.glossaries.delete, owner_of(request), glossary_id)
    return Response(status_code=204)


def _shown_if_single(glossary: Glossary) -> DeepLGlossary | None:
    return DeepLGlossary.shown(glossary) if len(glossary.dictionaries) == 1 else None


async def _single(glossary_id: str, request: Request, services: Services) -> Glossary:
    found = await run_in_threadpool(services.glossaries.get, owner_of(request), glossary_id)
    if len(found.dictionaries) != 1:
        raise UnknownGlossary(
            f"This glossary has {len(found.dictionaries)} pairs; ask for it at /v3/glossaries/{found.id}."
        )
    return found
