"""POST /gates: what a lyricist's gates do at each character of a text."""

from __future__ import annotations

from typing import Any

import numpy as np
from fastapi import APIRouter, Request
from starlette.responses import Response

from app.api.answers import packed
from app.api.disconnect import while_connected
from app.api.encoding import encoded
from app.api.errors import OF_A_LOOK, documented
from app.api.expectations import step_fields, token_fields
from app.api.route import LookRoute
from app.api.schemas.gates import GATE_AXES, GatesAnswer, GatesRequest
from app.api.services import ServicesDependency
from app.engine.insights import Floats, GatesJob, GatesReport, GateSummary

router = APIRouter(tags=["Inspect"], route_class=LookRoute)


@router.post(
    "/gates",
    summary="Look at gates",
    response_model=GatesAnswer,
    responses=documented(
        s404="No lyricist of that name is loaded.",
        s422="The request cannot be answered as it is: a field is wrong, or the answer would be too large.",
        **OF_A_LOOK,
    ),
)
async def gates(body: GatesRequest, request: Request, services: ServicesDependency) -> Response:
    """Gates and hidden state of a lyricist after each character of `text`, and the probability of the next one.

    Computed in fp32, whatever the number format that it writes in."""
    services.limits.check_texts([body.text], "text")
    job = GatesJob(
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
    return await packed(request, lambda: _answer(report, body))


def _answer(report: GatesReport, body: GatesRequest) -> dict[str, Any]:
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
                **encoded(each, body.encoding, decimals=body.decimals, bounds=report.bounds[name]),
            }
            for name, each in report.values.items()
        },
        "summaries": [_summary(each, body.decimals) for each in report.summaries],
        "steps": [step_fields(step) for step in report.steps],
    }


def _summary(each: GateSummary, decimals: int) -> dict[str, Any]:
    def written(values: Floats) -> Any:
        return (np.round(values.astype(np.float64), decimals) + 0.0).tolist()

    parts = {"mean": each.mean, "low": each.low, "high": each.high}
    return {
        "layer": each.layer,
        **{part: {name: written(values) for name, values in gates.items()} for part, gates in parts.items()},
        "hidden_change": written(each.hidden_change),
    }
