"""POST /score: how probable a given translation or text is."""

from __future__ import annotations

import math
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.api.answers import packed
from app.api.disconnect import while_connected
from app.api.errors import OF_A_LOOK, documented
from app.api.expectations import nats, step_fields, token_fields
from app.api.route import LookRoute
from app.api.schemas.score import ScoreAnswer, ScoreRequest
from app.api.services import ServicesDependency
from app.engine.errors import InvalidRequest
from app.engine.insights import ScoreJob, ScoreReport

router = APIRouter(tags=["Inspect"], route_class=LookRoute)

MOST_NATS = 700.0  # e to that power is still a number


@router.post(
    "/score",
    summary="Score a text",
    response_model=ScoreAnswer,
    responses=documented(
        s404="No model of that name is loaded.",
        s422="The request cannot be answered as it is: a field is wrong or beyond a limit.",
        **OF_A_LOOK,
    ),
)
async def score(body: ScoreRequest, request: Request, services: ServicesDependency) -> Response:
    """Log-probability of each token of `target` as a translation of `source`, or of a lyricist's `text`."""
    job = _job(body)
    for field in ("source", "target", "text"):
        services.limits.check_texts([getattr(body, field) or ""], field)
    report = await while_connected(request, services.engine.score(job))
    return await packed(request, lambda: _answer(report, body))


def _job(body: ScoreRequest) -> ScoreJob:
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
    return ScoreJob(text, source, body.model, body.top_k, by_rules=body.distribution == "decoding")


def _answer(report: ScoreReport, body: ScoreRequest) -> dict[str, Any]:
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
        "logprob": nats(report.log_probability),
        "counted": {"tokens": report.predicted, "characters": report.characters},
        "perplexity": round(math.exp(min(by_token, MOST_NATS)), 4),
        "nats_per_token": round(by_token, 4),
        "bits_per_token": round(by_token / math.log(2), 4),
        "nats_per_character": None if by_character is None else round(by_character, 4),
        "bits_per_character": None if by_character is None else round(by_character / math.log(2), 4),
    }
