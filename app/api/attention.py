"""POST /attention: how a translator's parts attend to each other in one sentence."""

from __future__ import annotations

from dataclasses import replace

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.api.answers import packed
from app.api.attention_answer import BINARY, answer_of, timing_of
from app.api.attention_forms import FORMS
from app.api.disconnect import while_connected
from app.api.errors import OF_A_LOOK, documented
from app.api.route import LookRoute
from app.api.schemas.attention.answer import AttentionAnswer
from app.api.schemas.attention.choices import HeadChoice, RowChoice, Search
from app.api.schemas.attention.request import AttentionRequest
from app.api.services import ServicesDependency
from app.api.wording import value_shown
from app.engine import findings
from app.engine.errors import InvalidRequest
from app.engine.look_jobs import AttentionJob

router = APIRouter(tags=["Inspect"], route_class=LookRoute)


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
                "schema": {"type": "string", "enum": ["json", *FORMS], "default": "json"},
            }
        ]
    },
    responses=documented(
        s404="No translator of that name is loaded.",
        s422="The request cannot be answered as it is: a field is wrong, or the answer would be too large.",
        **OF_A_LOOK,
    ),
)
async def attention(body: AttentionRequest, request: Request, services: ServicesDependency) -> Response:
    """Attention weights of the model's own translation of `source`, or of the `target` that is given, from one
    teacher-forced pass in fp32; and what else is asked of that pass."""
    check(body)
    form = form_of(request)
    for name in ("source", "target", "prefix"):
        services.limits.check_texts([getattr(body, name) or ""], name)
    digits = form is not None or body.encoding == "json"
    limit = services.limits.max_attention_values
    job = job_of(body, limit, digits=digits, encodes=form is None)
    if form == "nematus":
        job = replace(job, one_map=True)
    if form == "pharaoh":
        job = replace(job, include=("alignment",), kinds=("cross",), layers=(0,), heads=(0,))
    report = await while_connected(request, services.engine.attention(job))
    if form is not None:
        media_type, written = FORMS[form]
        return await packed(request, lambda: written(report), media_type)
    # Encoded as it is: checking hundreds of thousands of numbers against the schema would cost more than the model.
    return await packed(request, lambda: answer_of(report, body, limit), timed=lambda s: timing_of(report.took, s))


def check(body: AttentionRequest) -> None:
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


def form_of(request: Request) -> str | None:
    """`?format=`; None: JSON."""
    form = request.query_params.get("format", "json")
    if form != "json" and form not in FORMS:
        takes = ", ".join(["json", *FORMS])
        raise InvalidRequest(f'"format" is {value_shown(form)}; it takes one of {takes}.', field="format")
    return None if form == "json" else form


def job_of(body: AttentionRequest, limit: int, *, digits: bool, encodes: bool) -> AttentionJob:
    """limit: of numbers as digits. encodes: whether these could be bytes."""
    search = body.decode or Search()
    return AttentionJob(
        source=body.source,
        target=body.target,
        model=body.model,
        kinds=tuple(body.kinds),
        layers=None if body.layers == "all" else tuple(body.layers),
        heads=None if body.heads == "all" else tuple(body.heads),
        max_values=limit if digits else limit * BINARY,
        max_bytes=limit * BINARY if encodes else 0,
        max_digits=limit,
        source_ids=None if body.source_ids is None else tuple(body.source_ids),
        prefix=body.prefix,
        beam=search.beam_size or 0,
        length_penalty=search.length_penalty,
        max_new_tokens=search.max_new_tokens,
        reduce_heads=body.reduce.heads,
        reduce_layers=body.reduce.layers,
        include=tuple(body.include),
        top_k=body.top_k,
        masked=tuple(head(each) for each in body.mask_heads),
        row=None if body.qk is None else row(body.qk),
    )


def head(choice: HeadChoice) -> findings.HeadChoice:
    return findings.HeadChoice(choice.kind, choice.layer, choice.head)


def row(choice: RowChoice) -> findings.RowChoice:
    return findings.RowChoice(choice.kind, choice.layer, choice.head, choice.row)
