"""LibreTranslate's family: POST /suggest, where readers leave better translations."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from app.api.errors import documented
from app.api.forms import MULTIPART, URLENCODED, also_takes
from app.api.pairs import pairs_of
from app.api.route import LibreTranslateRoute
from app.api.schemas.files import SuggestAnswer, SuggestRequest
from app.api.services import ServicesDependency
from app.engine.errors import EngineUnavailable
from app.storage.suggestions import Suggestion, SuggestionsFull

router = APIRouter(tags=["Translate"], route_class=LibreTranslateRoute)


@router.post(
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
    (pair,), _ = await pairs_of([body.q], body.source, body.target, services)
    try:
        await run_in_threadpool(services.suggestions.add, Suggestion(body.q, body.s, *pair))
    except SuggestionsFull:
        raise HTTPException(507, "This server has room for no more suggestions; ask its operator for some.") from None
    except OSError:
        raise EngineUnavailable(
            "This server cannot keep suggestions: it cannot write to its folder PARLANCE_DATA."
        ) from None
    return SuggestAnswer()
