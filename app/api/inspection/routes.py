"""POST /attention, /walkthrough, /gates and /score."""

from __future__ import annotations

from dataclasses import replace
from typing import TypedDict

from fastapi import APIRouter, Request
from msgspec import structs
from starlette.responses import Response

from app.api.errors import ErrorAnswer, Responses, common_errors, documented
from app.api.inspection import schemas
from app.api.inspection.attention_answer import FORMATS, AttentionAnswer, TimingMs, UntimedAttention
from app.api.inspection.attention_request import AttentionRequest, InspectionFields
from app.api.language_pairs import find_translator
from app.api.request_body import while_connected
from app.api.request_fields import describe_value
from app.api.responses import large_response
from app.api.route import ApiRoute
from app.api.services import Services, ServicesDependency
from app.engine.interface import WalkthroughQuery
from app.errors import InvalidRequest
from models.inspection.selection import WalkthroughFocus

router = APIRouter(route_class=ApiRoute)


def _documented(kind: str, problem: str) -> Responses:
    return documented(
        ErrorAnswer,
        common_errors("answer", "answer"),
        s404=f"No {kind} of that name is loaded.",
        s422=f"The request cannot be answered as it is: {problem}.",
    )


def _check_texts(body: InspectionFields, services: Services) -> None:
    for name in ("source", "target", "prefix", "text"):
        services.limits.check_texts([getattr(body, name, None) or ""], name)


class _Chosen(TypedDict):
    """Fields of a query."""

    model: str | None
    target_language: str | None


async def _translator(
    body: AttentionRequest | schemas.WalkthroughRequest | schemas.ScoreRequest, services: Services
) -> _Chosen:
    """As the request names it, or by the languages of its texts."""
    named = (body.target_language, body.model)
    model, target_language = await find_translator(body.source, body.target, *named, services)
    return {"model": model, "target_language": target_language}


@router.post(
    "/attention",
    summary="Look at attention",
    response_model=AttentionAnswer,
    openapi_extra={
        "parameters": [
            {
                "name": "format",
                "in": "query",
                "description": "JSON, or text for other tools: the alignment as Pharaoh pairs, one map as Nematus'"
                " block, or a table of all weights, in which an apostrophe keeps a piece that begins with = + - @ or"
                " white space from being a formula.",
                "schema": {"type": "string", "enum": ["json", *FORMATS], "default": "json"},
            }
        ]
    },
    responses=_documented("translator", "a field is wrong, or the answer would be too large")
    | {
        200: {
            "description": "Attention as JSON, or in the `format` that was asked for.",
            "content": {
                media_type.partition(";")[0]: {"schema": {"type": "string"}, "example": "0-0 1-1 2-2 3-3\n"}
                for media_type, _ in FORMATS.values()
            },
        }
    },
)
async def attention(body: AttentionRequest, request: Request, services: ServicesDependency) -> Response:
    """Attention weights of the model's own translation of `source`, or of the `target` that is given, from one
    teacher-forced pass in fp32; and what else is asked of that pass."""
    _check_attention(body)
    form = request.query_params.get("format", "json")
    if form not in ("json", *FORMATS):
        takes = ", ".join(["json", *FORMATS])
        raise InvalidRequest(f'"format" is {describe_value(form)}; it takes one of {takes}.', field="format")
    _check_texts(body, services)
    limit = services.limits.max_attention_values
    query = replace(body.query(limit, as_text=form in FORMATS), **await _translator(body, services))
    if form == "nematus":
        query = replace(query, one_map=True)
    if form == "pharaoh":
        one_map = structs.replace(query.selection, include=("alignment",), kinds=("cross",), layers=(0,), heads=(0,))
        query = replace(query, selection=one_map)
    result = await while_connected(request, services.engine.attention(query), services.limits.request_timeout_s)
    if form in FORMATS:
        media_type, write = FORMATS[form]
        return await large_response(request, lambda: write(result), media_type)
    return await large_response(
        request,
        lambda: UntimedAttention.of(result, body, limit),
        timing=lambda seconds: TimingMs.of(result.took, seconds),
    )


def _check_attention(body: AttentionRequest) -> None:
    """InvalidRequest for fields that contradict each other."""
    if body.source is None and body.source_ids is None:
        sentence = '"source" is missing: send a text, or the ids of its tokens as "source_ids".'
        raise InvalidRequest(sentence, field="source")
    if body.source is not None and body.source_ids is not None:
        raise InvalidRequest('"source" and "source_ids" say the same twice: send one of them.', field="source_ids")
    if body.target is not None and (body.decode is not None or body.prefix is not None):
        name = "decode" if body.prefix is None else "prefix"
        raise InvalidRequest(f'With a "target" nothing is decoded: leave "{name}" out.', field=name)
    if body.top_k and "steps" not in body.include:
        raise InvalidRequest('"top_k" is of steps: add "steps" to "include".', field="top_k")


@router.post(
    "/walkthrough",
    summary="Walk through a forward pass",
    response_model=schemas.WalkthroughAnswer,
    responses=_documented("translator", "a field is wrong, or there is no such layer, head or position"),
)
async def walkthrough(body: schemas.WalkthroughRequest, request: Request, services: ServicesDependency) -> Response:
    """Every intermediate of one forward pass for one layer, head and position: embedding, queries, keys and values,
    scores, mask, softmax, context, feed-forward, logits, probabilities. The numbers are those of POST /attention."""
    _check_texts(body, services)
    focus = WalkthroughFocus(body.side, body.layer, body.head, body.position, body.values, body.places)
    chosen = await _translator(body, services)
    query = WalkthroughQuery(source=body.source, target=body.target, focus=focus, **chosen)
    result = await while_connected(request, services.engine.walkthrough(query), services.limits.request_timeout_s)
    return await large_response(request, lambda: schemas.WalkthroughAnswer.of(result, body.side))


@router.post(
    "/gates",
    summary="Look at gates",
    response_model=schemas.GatesAnswer,
    responses=_documented("lyricist", "a field is wrong, or the answer would be too large"),
)
async def gates(body: schemas.GatesRequest, request: Request, services: ServicesDependency) -> Response:
    """Gates and hidden state of a lyricist after each character of `text`, and the probability of the next one.

    Computed in fp32, whatever the number format that it writes in."""
    _check_texts(body, services)
    query = body.query(services.limits.max_attention_values)
    result = await while_connected(request, services.engine.gates(query), services.limits.request_timeout_s)
    return await large_response(request, lambda: schemas.GatesAnswer.of(result, body))


@router.post(
    "/score",
    summary="Score a text",
    response_model=schemas.ScoreAnswer,
    responses=_documented("model", "a field is wrong or beyond a limit"),
)
async def score(body: schemas.ScoreRequest, request: Request, services: ServicesDependency) -> Response:
    """Log-probability of each token of `target` as a translation of `source`, or of a lyricist's `text`."""
    query = body.query()
    _check_texts(body, services)
    if query.source is not None:
        query = replace(query, **await _translator(body, services))
    result = await while_connected(request, services.engine.score(query), services.limits.request_timeout_s)
    return await large_response(request, lambda: schemas.ScoreAnswer.of(result, body))
