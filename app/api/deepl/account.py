"""GET and POST /v2/languages, /v2/usage."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request

from app.api.access import caller_of
from app.api.deepl.codes import sources, targets
from app.api.deepl.route import DeepLRoute
from app.api.errors import documented_as
from app.api.pairs import LoadedPairs
from app.api.route import read
from app.api.schemas.deepl import DeepLError, DeepLLanguage, DeepLUsage
from app.api.services import ServicesDependency
from app.api.wording import value_shown
from app.engine.errors import InvalidRequest

router = APIRouter(tags=["DeepL"], route_class=DeepLRoute)

Side = Annotated[
    str | None,
    Query(
        alias="type",
        description='"source" (the default) or "target"; also as a field of a form.',
        examples=["target"],
        json_schema_extra={"enum": ["source", "target"]},
    ),
]
_REFUSED = documented_as(DeepLError, s400="`type` is neither source nor target.", s403="The key is missing or wrong.")


@router.get("/v2/languages", summary="List languages (DeepL)", response_model_exclude_none=True, responses=_REFUSED)
async def deepl_languages(request: Request, services: ServicesDependency, side: Side = None) -> list[DeepLLanguage]:
    """Languages that a loaded model reads, or writes. DeepL's Python client sends `type` as the body of a GET."""
    pairs = LoadedPairs.of(services.engine).pairs
    if await _side(request, side) == "target":
        codes = targets(target for _, target in pairs)
        return [DeepLLanguage(language=code, name=name, supports_formality=False) for code, name in codes.items()]
    return [DeepLLanguage(language=code, name=name) for code, name in sources(source for source, _ in pairs).items()]


@router.post("/v2/languages", summary="List languages (DeepL)", response_model_exclude_none=True, responses=_REFUSED)
async def deepl_languages_posted(
    request: Request, services: ServicesDependency, side: Side = None
) -> list[DeepLLanguage]:
    """As GET /v2/languages."""
    return await deepl_languages(request, services, side)


@router.get(
    "/v2/usage",
    summary="Characters used (DeepL)",
    responses=documented_as(DeepLError, s403="The key is missing or wrong."),
)
async def deepl_usage(request: Request, services: ServicesDependency) -> DeepLUsage:
    """What this key had translated, and its quota."""
    used, limit = await services.usage.of(caller_of(request), services.gate)
    return DeepLUsage(character_count=used, character_limit=limit)


@router.post(
    "/v2/usage",
    summary="Characters used (DeepL)",
    responses=documented_as(DeepLError, s403="The key is missing or wrong."),
)
async def deepl_usage_posted(request: Request, services: ServicesDependency) -> DeepLUsage:
    """As GET /v2/usage."""
    return await deepl_usage(request, services)


async def _side(request: Request, side: str | None) -> Literal["source", "target"]:
    if side is None:
        side = (await read(request, takes_forms=True)).get("type", "source")
    match side:
        case "source" | "":
            return "source"
        case "target":
            return "target"
    raise InvalidRequest(f'"type" is {value_shown(side)}; it takes "source" or "target".', field="type")
