"""POST /attention, /walkthrough, /gates and /score."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from fastapi import APIRouter, Request
from msgspec import structs
from starlette.responses import Response

from app.api.errors import INSPECTION_ERRORS, documented
from app.api.event_stream import while_connected
from app.api.expectations import round_nats, step_fields, token_fields
from app.api.field_types import describe_value
from app.api.inspection.attention_answer import AttentionAnswer
from app.api.inspection.attention_fields import BINARY_FACTOR, attention_answer, timing_fields
from app.api.inspection.attention_formats import FORMATS
from app.api.inspection.attention_request import AttentionRequest, HeadChoice, RowChoice, Search
from app.api.inspection.encoded_arrays import encode_array
from app.api.inspection.schemas import (
    GATE_AXES,
    GatesAnswer,
    GatesRequest,
    ScoreAnswer,
    ScoreRequest,
    WalkthroughAnswer,
    WalkthroughRequest,
)
from app.api.responses import large_response
from app.api.route import InspectionRoute
from app.api.services import ServicesDependency
from app.engine.errors import InvalidRequest
from app.engine.interface import (
    AttentionQuery,
    FloatArray,
    GatesQuery,
    GatesResult,
    GateSummary,
    ScoreQuery,
    ScoreResult,
    WalkthroughQuery,
    WalkthroughResult,
)
from app.engine.protocol import inspection_messages
from app.engine.protocol.inspection_messages import WalkthroughStep

attention_router = APIRouter(tags=["Inspect"], route_class=InspectionRoute)


@attention_router.post(
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
        job = replace(job, include=("alignment",), kinds=("cross",), layers=(0,), heads=(0,))
    report = await while_connected(request, services.engine.attention(job))
    if form is not None:
        media_type, written = FORMATS[form]
        return await large_response(request, lambda: written(report), media_type)
    # Encoded as it is: checking hundreds of thousands of numbers against the schema would cost more than the model.
    return await large_response(
        request, lambda: attention_answer(report, body, limit), timed=lambda s: timing_fields(report.took, s)
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
        kinds=tuple(body.kinds),
        layers=None if body.layers == "all" else tuple(body.layers),
        heads=None if body.heads == "all" else tuple(body.heads),
        max_values=limit if digits else limit * BINARY_FACTOR,
        max_bytes=limit * BINARY_FACTOR if encodes else 0,
        max_digits=limit,
        source_ids=None if body.source_ids is None else tuple(body.source_ids),
        prefix=body.prefix,
        decoding=(body.decode or Search()).decoding,
        reduce_heads=body.reduce.heads,
        reduce_layers=body.reduce.layers,
        include=tuple(body.include),
        top_k=body.top_k,
        masked=tuple(_head_choice(each) for each in body.mask_heads),
        row=None if body.qk is None else _row_choice(body.qk),
    )


def _head_choice(choice: HeadChoice) -> inspection_messages.HeadChoice:
    return inspection_messages.HeadChoice(choice.kind, choice.layer, choice.head)


def _row_choice(choice: RowChoice) -> inspection_messages.RowChoice:
    return inspection_messages.RowChoice(choice.kind, choice.layer, choice.head, choice.row)


STEP_REASONS = {
    "token embedding": "Each token of the vocabulary has a row of learnt numbers; this is where it becomes something"
    " that can be computed with.",
    "scale": "The row is made as large as the positions, so that neither drowns the other.",
    "position": "Attention looks at all places at once and would not know their order; this vector says where the token"
    " stands.",
    "sum": "From here on one vector holds what the token is and where it stands.",
    "layer input": "What the layers below have made of this place.",
    "norm": "The vector is brought to mean 0 and variance 1, and scaled by learnt numbers, so that layers above can"
    " rely on its size.",
    "query": "What this place looks for.",
    "keys": "What each place offers to be found by.",
    "values": "What each place hands over where it is looked at.",
    "scores": "How well each key answers the query; the factor keeps the sums from growing with the width of a head.",
    "masked scores": "Padding is never looked at, and the decoder never looks at what comes later.",
    "softmax": "The scores become shares that sum to 1: the row of the attention map.",
    "context": "The values, mixed by these shares: what the head brings back.",
    "heads concatenated": "Every head looks in its own way; their findings are put side by side.",
    "output projection": "The findings of all heads are mixed into one vector of the model's width.",
    "residual": "What was found is added to what was there, so that nothing is lost on the way up.",
    "widen": "Each place alone, without the others, is spread over more numbers.",
    "activation": "The only step that is not linear: without it all layers would be one.",
    "narrow": "The numbers are brought back to the model's width.",
    "final norm": "With norms before the sublayers, the sum of all layers has one of its own.",
    "logits": "Each token of the vocabulary is compared with the vector; the largest numbers fit best.",
    "probabilities": "The logits as shares that sum to 1, without the tokens that are never written.",
}


walkthrough_router = APIRouter(tags=["Inspect"], route_class=InspectionRoute)
WALKTHROUGH_SCHEMA = "walkthrough/1"


@walkthrough_router.post(
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
        side=body.side,
        layer=body.layer,
        head=body.head,
        position=body.position,
        most=body.values,
        most_keys=body.places,
    )
    report = await while_connected(request, services.engine.walkthrough(job))
    return await large_response(request, lambda: _walkthrough_answer(report, job))


def _walkthrough_answer(report: WalkthroughResult, job: WalkthroughQuery) -> dict[str, Any]:
    names = ("layer", "head", "position", "source_text", "target_text", "forced", "source_tokens", "input_tokens")
    return {
        "schema": WALKTHROUGH_SCHEMA,
        "model": report.model,
        "side": job.side,
        **{name: getattr(report, name) for name in names},
        "steps": [_walkthrough_step(each) for each in report.steps],
    }


def _walkthrough_step(told: WalkthroughStep) -> dict[str, Any]:
    fields = {name: value for name, value in structs.asdict(told).items() if value is not None}
    values = [
        [round_float32(each) for each in row] if isinstance(row, list) else round_float32(row) for row in told.values
    ]
    return {**fields, "values": values, "why": STEP_REASONS[told.name]}


def round_float32(value: float | None) -> float | None:
    """With seven digits, which is what the float32 of a network has."""
    return None if value is None else float(f"{value:.7g}") + 0.0  # no -0.0


gates_router = APIRouter(tags=["Inspect"], route_class=InspectionRoute)


@gates_router.post(
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
        gates=None if body.gates == "all" else tuple(body.gates),
        layers=None if body.layers == "all" else tuple(body.layers),
        units=body.units if isinstance(body.units, int) else tuple(body.units),
        top_k=body.top_k,
        max_values=services.limits.max_attention_values,
    )
    report = await while_connected(request, services.engine.gates(job))
    # Encoded as it is: checking hundreds of thousands of numbers against the schema would cost more than the model.
    return await large_response(request, lambda: _gates_answer(report, body))


def _gates_answer(report: GatesResult, body: GatesRequest) -> dict[str, Any]:
    return {
        "model": {
            "name": report.model,
            "cell": report.cell,
            "layers": report.depth,
            "hidden": report.hidden,
            "convention": report.convention,
        },
        "text": report.text,
        "tokens": [token_fields(token) for token in report.tokens],
        "gates": {
            name: {
                "axes": GATE_AXES,
                "layers": report.layers,
                "units": report.units,
                **encode_array(each, body.encoding, decimals=body.decimals, bounds=report.bounds[name]),
            }
            for name, each in report.values.items()
        },
        "summaries": [_gates_summary(each, body.decimals) for each in report.summaries],
        "steps": [step_fields(step) for step in report.steps],
    }


def _gates_summary(each: GateSummary, decimals: int) -> dict[str, Any]:
    def written(values: FloatArray) -> Any:
        return (np.round(values.astype(np.float64), decimals) + 0.0).tolist()

    parts = {"mean": each.mean, "low": each.low, "high": each.high}
    return {
        "layer": each.layer,
        **{part: {name: written(values) for name, values in gates.items()} for part, gates in parts.items()},
        "hidden_change": written(each.hidden_change),
    }


score_router = APIRouter(tags=["Inspect"], route_class=InspectionRoute)

MAX_EXPONENT = 700.0  # e to that power is still a number


@score_router.post(
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
    report = await while_connected(request, services.engine.score(job))
    return await large_response(request, lambda: _score_answer(report, body))


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


def _score_answer(report: ScoreResult, body: ScoreRequest) -> dict[str, Any]:
    surprise = -report.log_probability
    by_token = surprise / report.predicted
    by_character = surprise / report.characters if report.characters else None
    return {
        "model": report.model,
        "text": report.text,
        "distribution": body.distribution,
        "tokens": [
            {**token_fields(token), **step_fields(step)}
            for token, step in zip(report.tokens, report.steps, strict=True)
        ],
        "logprob": round_nats(report.log_probability),
        "counted": {"tokens": report.predicted, "characters": report.characters},
        "perplexity": round(math.exp(min(by_token, MAX_EXPONENT)), 4),
        "nats_per_token": round(by_token, 4),
        "bits_per_token": round(by_token / math.log(2), 4),
        "nats_per_character": None if by_character is None else round(by_character, 4),
        "bits_per_character": None if by_character is None else round(by_character / math.log(2), 4),
    }
