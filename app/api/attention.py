"""POST /attention: how a translator's parts attend to each other in one sentence."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from app.api.answers import JsonAnswer
from app.api.disconnect import while_connected
from app.api.errors import documented
from app.api.route import JsonRoute
from app.api.schemas.attention import AXES, AttentionAnswer, AttentionRequest
from app.api.services import ServicesDependency
from app.engine.jobs import AttentionJob, AttentionMap, AttentionReport

router = APIRouter(tags=["Inspect"], route_class=JsonRoute)


@router.post(
    "/attention",
    summary="Look at attention",
    response_model=AttentionAnswer,
    responses=documented(
        s404="No translator of that name is loaded.",
        s413="The body is too large.",
        s415="The body is not JSON.",
        s422="The request cannot be answered as it is: a field is wrong, or the answer would be too large.",
        s429="The queue is full; Retry-After says when to try again.",
        s503="No device can answer right now; Retry-After says when to try again.",
        s504="The answer took too long.",
    ),
)
async def attention(body: AttentionRequest, request: Request, services: ServicesDependency) -> JsonAnswer:
    """Attention weights of the model's own translation of `source`, or of the `target` that is given."""
    services.limits.check_texts([body.source], "source")
    services.limits.check_texts([body.target or ""], "target")
    job = AttentionJob(
        source=body.source,
        target=body.target,
        model=body.model,
        kinds=tuple(body.kinds),
        layers=None if body.layers == "all" else tuple(body.layers),
        heads=None if body.heads == "all" else tuple(body.heads),
        max_values=services.limits.max_attention_values,
    )
    report = await while_connected(request, services.engine.attention(job))
    shapes = {kind: _shape(each) for kind, each in report.maps.items()}
    services.limits.check_attention_values(sum(a * b * c * d for a, b, c, d in shapes.values()))
    # Encoded as it is: checking hundreds of thousands of numbers against the schema would cost more than the model.
    return JsonAnswer(_answer(report, shapes))


def _answer(report: AttentionReport, shapes: dict[Any, tuple[int, int, int, int]]) -> dict[str, Any]:
    return {
        "model": report.model,
        "source": {"text": report.source_text, "tokens": report.source_tokens},
        "target": {
            "text": report.target_text,
            "forced": report.forced,
            "input_tokens": report.input_tokens,
            "output_tokens": report.output_tokens,
        },
        "attention": {
            kind: {
                "axes": AXES,
                "layers": each.layers,
                "heads": each.heads,
                "shape": shapes[kind],
                "weights": each.weights,
            }
            for kind, each in report.maps.items()
        },
    }


def _shape(each: AttentionMap) -> tuple[int, int, int, int]:
    """(layers, heads, queries, keys)."""
    head = each.weights[0][0] if each.weights and each.weights[0] else []
    return len(each.layers), len(each.heads), len(head), len(head[0]) if head else 0
