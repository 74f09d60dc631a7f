"""POST /generate: a character model continues a text."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.api.errors import ErrorAnswer, common_errors, documented
from app.api.event_stream import EventStream, documented_stream, while_connected
from app.api.generation.schemas import GenerateAnswer, GenerateRequest
from app.api.request_body import Fields
from app.api.route import ApiRoute
from app.api.services import ServicesDependency
from app.api.shared_schemas import decoding_options
from app.engine.interface import GenerationRequest

router = APIRouter(tags=["Generate"], route_class=ApiRoute)

_EVENTS = """\
event: token
data: {"text":"后的"}

event: token
data: {"text":"街道下着旧雨"}

event: done
data: {"text":"后的街道下着旧雨","finish_reason":"length","seed":7,"model":"lyrics-zh",\
"usage":{"prompt_tokens":2,"new_tokens":8},"timing":{"queued_ms":0.4,"first_token_ms":3.1,"total_ms":11.7}}

"""


@router.post(
    "/generate",
    summary="Continue a text",
    response_model=GenerateAnswer,
    responses=documented_stream(_EVENTS)
    | documented(
        ErrorAnswer,
        common_errors("generate", "generation"),
        s404="No model of that name is loaded.",
        s422="The request cannot be answered as it is: a field is wrong or beyond a limit.",
    ),
)
async def generate(body: GenerateRequest, request: Request, services: ServicesDependency) -> Response | Fields:
    """Continues `prompt`. The answer's `seed` writes the same text again. With `logprobs` the answer and each event
    `token` have `tokens`, whose texts join to their text."""
    limits = services.limits
    limits.check_texts([body.prompt], "prompt")
    limits.check_numbers(n=body.n)
    if "max_new_tokens" in body.model_fields_set:
        limits.check_numbers(max_new_tokens=body.max_new_tokens)
    max_new_tokens = min(body.max_new_tokens, limits.max_new_tokens)  # the default may lie above the limit
    decoding = decoding_options(body, max_new_tokens=max_new_tokens)
    job = GenerationRequest(body.prompt, body.model, body.n, body.stops, decoding=decoding)
    if body.stream:
        opened, write_timeout_s = services.engine.stream_generation(job), limits.request_timeout_s
        return EventStream(opened, GenerateAnswer.fields_of_done, write_timeout_s, indexed=job.n > 1)
    return GenerateAnswer.fields_of_result(
        await while_connected(request, services.engine.generate(job), services.limits.request_timeout_s)
    )
