"""POST /attention, /walkthrough, /gates and /score."""

from __future__ import annotations

from dataclasses import replace

from fastapi import APIRouter, Request
from msgspec import structs
from starlette.responses import Response

from app.api.errors import INSPECTION_ERRORS, documented
from app.api.event_stream import while_connected
from app.api.field_types import describe_value
from app.api.inspection.attention_answer import BINARY_FACTOR, AttentionAnswer, TimingMs
from app.api.inspection.attention_formats import FORMATS
from app.api.inspection.attention_request import AttentionRequest, Search
from app.api.inspection.schemas import (
    GatesAnswer,
    GatesRequest,
    ScoreAnswer,
    ScoreRequest,
    WalkthroughAnswer,
    WalkthroughRequest,
)
from app.api.responses import large_response
from app.api.route import ApiRoute
from app.api.services import ServicesDependency
from app.engine.interface import AttentionQuery, GatesQuery, ScoreQuery, WalkthroughQuery
from app.errors import InvalidRequest
from models.inspection.selection import AttentionSelection, GateSelection, Head, Row, WalkthroughFocus

router = APIRouter(tags=["Inspect"], route_class=ApiRoute)


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
    responses=documented(
        s404="No translator of that name is loaded.",
        s422="The request cannot be answered as it is: a field is wrong, or the answer would be too large.",
        **INSPECTION_ERRORS,
    ),
)
async def attention(body: AttentionRequest, request: Request, services: ServicesDependency) -> Response:
    """Attention weights of the model's own translation of `source`, or of the `target` that is given, from one
    teacher-forced pass in fp32; and what else is asked of that pass."""
    _check_attention(body)
    form = _requested_format(request)
    for name in ("source", "target", "prefix"):
        services.limits.check_texts([getattr(body, name) or ""], name)
    digits = form is not None or body.encoding == "json"
    limit = services.limits.max_attention_values
    job = _attention_request(body, limit, digits=digits, encodes=form is None)
    if form == "nematus":
        job = replace(job, one_map=True)
    if form == "pharaoh":
        one_map = structs.replace(job.selection, include=("alignment",), kinds=("cross",), layers=(0,), heads=(0,))
        job = replace(job, selection=one_map)
    result = await while_connected(request, services.engine.attention(job))
    if form is not None:
        media_type, write = FORMATS[form]
        return await large_response(request, lambda: write(result), media_type)
    return await large_response(
        request,
        lambda: AttentionAnswer.fields_of(result, body, limit),
        timing=lambda seconds: TimingMs.fields_of(result.took, seconds),
    )


def _check_attention(body: AttentionRequest) -> None:
    """InvalidRequest for fields that contradict each other."""
    if body.source is None and body.source_ids is None:
        raise InvalidRequest(
            '"source" is missing: send a text, or the ids of its tokens as "source_ids".', field="source"
        )
    if body.source is not None and body.source_ids is not None:
        raise InvalidRequest('"source" and "source_ids" say the same twice: send one of them.', field="source_ids")
    if body.target is not None and (body.decode is not None or body.prefix is not None):
        name = "decode" if body.prefix is None else "prefix"
        raise InvalidRequest(f'With a "target" nothing is decoded: leave "{name}" out.', field=name)
    if body.top_k and "steps" not in body.include:
        raise InvalidRequest('"top_k" is of steps: add "steps" to "include".', field="top_k")


def _requested_format(request: Request) -> str | None:
    """`?format=`; None: JSON."""
    form = request.query_params.get("format", "json")
    if form != "json" and form not in FORMATS:
        takes = ", ".join(["json", *FORMATS])
        raise InvalidRequest(f'"format" is {describe_value(form)}; it takes one of {takes}.', field="format")
    return None if form == "json" else form


def _attention_request(body: AttentionRequest, limit: int, *, digits: bool, encodes: bool) -> AttentionQuery:
    """limit: of numbers as digits. encodes: whether these could be bytes."""
    return AttentionQuery(
        source=body.source,
        target=body.target,
        model=body.model,
        selection=AttentionSelection(
            kinds=tuple(body.kinds),
            layers=None if body.layers == "all" else tuple(body.layers),
            heads=None if body.heads == "all" else tuple(body.heads),
            reduce_heads=body.reduce.heads,
            reduce_layers=body.reduce.layers,
            include=tuple(body.include),
            top_k=body.top_k,
            masked=tuple(Head(head.kind, head.layer, head.head) for head in body.mask_heads),
            row=None if body.qk is None else Row(body.qk.kind, body.qk.layer, body.qk.head, body.qk.row),
        ),
        max_values=limit if digits else limit * BINARY_FACTOR,
        max_bytes=limit * BINARY_FACTOR if encodes else 0,
        max_digits=limit,
        source_ids=None if body.source_ids is None else tuple(body.source_ids),
        prefix=body.prefix,
        decoding=(body.decode or Search()).decoding,
    )


@router.post(
    "/walkthrough",
    summary="Walk through a forward pass",
    response_model=WalkthroughAnswer,
    responses=documented(
        s404="No translator of that name is loaded.",
        s422="The request cannot be answered as it is: a field is wrong, or there is no such layer, head or position.",
        **INSPECTION_ERRORS,
    ),
)
async def walkthrough(body: WalkthroughRequest, request: Request, services: ServicesDependency) -> Response:
    """Every intermediate of one forward pass for one layer, head and position: embedding, queries, keys and values,
    scores, mask, softmax, context, feed-forward, logits, probabilities. The numbers are those of POST /attention."""
    for name in ("source", "target"):
        services.limits.check_texts([getattr(body, name) or ""], name)
    job = WalkthroughQuery(
        source=body.source,
        target=body.target,
        model=body.model,
        focus=WalkthroughFocus(body.side, body.layer, body.head, body.position, body.values, body.places),
    )
    result = await while_connected(request, services.engine.walkthrough(job))
    return await large_response(request, lambda: WalkthroughAnswer.fields_of(result, body.side))


@router.post(
    "/gates",
    summary="Look at gates",
    response_model=GatesAnswer,
    responses=documented(
        s404="No lyricist of that name is loaded.",
        s422="The request cannot be answered as it is: a field is wrong, or the answer would be too large.",
        **INSPECTION_ERRORS,
    ),
)
async def gates(body: GatesRequest, request: Request, services: ServicesDependency) -> Response:
    """Gates and hidden state of a lyricist after each character of `text`, and the probability of the next one.

    Computed in fp32, whatever the number format that it writes in."""
    services.limits.check_texts([body.text], "text")
    job = GatesQuery(
        text=body.text,
        model=body.model,
        selection=GateSelection(
            gates=None if body.gates == "all" else tuple(body.gates),
            layers=None if body.layers == "all" else tuple(body.layers),
            units=body.units if isinstance(body.units, int) else tuple(body.units),
        ),
        top_k=body.top_k,
        max_values=services.limits.max_attention_values,
    )
    result = await while_connected(request, services.engine.gates(job))
    return await large_response(request, lambda: GatesAnswer.fields_of(result, body))


@router.post(
    "/score",
    summary="Score a text",
    response_model=ScoreAnswer,
    responses=documented(
        s404="No model of that name is loaded.",
        s422="The request cannot be answered as it is: a field is wrong or beyond a limit.",
        **INSPECTION_ERRORS,
    ),
)
async def score(body: ScoreRequest, request: Request, services: ServicesDependency) -> Response:
    """Log-probability of each token of `target` as a translation of `source`, or of a lyricist's `text`."""
    job = _score_request(body)
    for field in ("source", "target", "text"):
        services.limits.check_texts([getattr(body, field) or ""], field)
    result = await while_connected(request, services.engine.score(job))
    return await large_response(request, lambda: ScoreAnswer.fields_of(result, body))


def _score_request(body: ScoreRequest) -> ScoreQuery:
    source, text = body.source, body.text if body.text is not None else body.target
    if body.text is not None and (body.source is not None or body.target is not None):
        message = '"text" stands alone, for a lyricist; leave it out, or leave out "source" and "target".'
        raise InvalidRequest(message, field="text")
    if text is None and source is None:
        message = (
            'There is nothing to score; send a "source" and its "target" to a translator, or a "text" to a lyricist.'
        )
        raise InvalidRequest(message, field="text")
    if text is None:
        raise InvalidRequest('"target" is missing; send the translation that is to be scored.', field="target")
    if body.text is None and source is None:
        message = '"source" is missing; send what "target" translates, or send a lyricist its "text" alone.'
        raise InvalidRequest(message, field="source")
    return ScoreQuery(text, source, body.model, body.top_k, by_rules=body.distribution == "decoding")
