"""POST /walkthrough: one forward pass of a translator, told step by step."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from msgspec import structs
from starlette.responses import Response

from app.api.answers import packed
from app.api.disconnect import while_connected
from app.api.errors import OF_A_LOOK, documented
from app.api.route import LookRoute
from app.api.schemas.walkthrough import WalkthroughAnswer, WalkthroughRequest
from app.api.services import ServicesDependency
from app.api.walkthrough_why import WHY
from app.engine.findings import Told
from app.engine.look_jobs import WalkthroughJob, WalkthroughReport

router = APIRouter(tags=["Inspect"], route_class=LookRoute)
SCHEMA = "walkthrough/1"


@router.post(
    "/walkthrough",
    summary="Walk through a forward pass",
    response_model=WalkthroughAnswer,
    responses=documented(
        s404="No translator of that name is loaded.",
        s422="The request cannot be answered as it is: a field is wrong, or there is no such layer, head or position.",
        **OF_A_LOOK,
    ),
)
async def walkthrough(body: WalkthroughRequest, request: Request, services: ServicesDependency) -> Response:
    """Every intermediate of one forward pass for one layer, head and position: embedding, queries, keys and values,
    scores, mask, softmax, context, feed-forward, logits, probabilities. The numbers are those of POST /attention."""
    for name in ("source", "target"):
        services.limits.check_texts([getattr(body, name) or ""], name)
    job = WalkthroughJob(
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
    return await packed(request, lambda: _answer(report, job))


def _answer(report: WalkthroughReport, job: WalkthroughJob) -> dict[str, Any]:
    names = ("layer", "head", "position", "source_text", "target_text", "forced", "source_tokens", "input_tokens")
    return {
        "schema": SCHEMA,
        "model": report.model,
        "side": job.side,
        **{name: getattr(report, name) for name in names},
        "steps": [_step(each) for each in report.steps],
    }


def _step(told: Told) -> dict[str, Any]:
    fields = {name: value for name, value in structs.asdict(told).items() if value is not None}
    values = [[written(each) for each in row] if isinstance(row, list) else written(row) for row in told.values]
    return {**fields, "values": values, "why": WHY[told.name]}


def written(value: float | None) -> float | None:
    """With seven digits, which is what the float32 of a network has."""
    return None if value is None else float(f"{value:.7g}") + 0.0  # no -0.0
