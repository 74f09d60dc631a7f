"""POST /v1/completions: lyricists for OpenAI's clients."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.api.answers import JsonAnswer
from app.api.disconnect import while_connected
from app.api.openai import asking
from app.api.openai.choices import Prompt, choices, usage
from app.api.openai.chunks import Chunks, opened
from app.api.openai.prompts import read, written
from app.api.openai.route import OpenAIRoute, documented
from app.api.schemas.openai.answer import CompletionAnswer
from app.api.schemas.openai.completion import CompletionRequest
from app.api.services import Services, ServicesDependency
from app.api.sse import documented_stream
from app.engine.jobs import Generation, GenerationJob

router = APIRouter(tags=["OpenAI"], route_class=OpenAIRoute)

_EVENTS = """\
data: {"id":"cmpl-5f0c0f7b","object":"text_completion","created":1795324329,"model":"lyrics-zh",\
"system_fingerprint":"lyrics-zh@1","choices":[{"index":0,"text":"后的","logprobs":null,"finish_reason":null}]}

data: {"id":"cmpl-5f0c0f7b","object":"text_completion","created":1795324329,"model":"lyrics-zh",\
"system_fingerprint":"lyrics-zh@1","choices":[{"index":0,"text":"","logprobs":null,"finish_reason":"length",\
"stop_reason":null,"seed":7}]}

data: [DONE]

"""


@router.post(
    "/v1/completions",
    summary="Continue texts, as OpenAI's clients ask it",
    response_model=CompletionAnswer,
    responses=documented_stream(_EVENTS, "A chunk for each bit of text; the last line is `data: [DONE]`.")
    | documented(
        s400="The request cannot be answered as it is: a field is wrong or beyond a limit.",
        s401="The key is missing or wrong.",
        s404="No lyricist of that name is loaded.",
        s413="The body is too large.",
        s415="The body is not JSON.",
        s429="The queue is full; Retry-After says when to try again.",
        s503="No device can write right now; Retry-After says when to try again.",
        s504="The answer took too long.",
    ),
)
async def completions(body: CompletionRequest, request: Request, services: ServicesDependency) -> Any:
    """Continues each prompt `n` times. `temperature` is 1 and `max_tokens` 16 unless you say otherwise, as OpenAI's
    are; `suffix`, `logit_bias`, `min_p` and `best_of` above `n` are refused, and fields that are not known ignored."""
    model = asking.lyricist(services.engine.models(), body.model)
    jobs = asking.jobs(body, services.limits, model.name if model else body.model)
    name, version = (model.name, model.version) if model else (body.model or "", 0)
    head = {
        "id": f"cmpl-{request.scope['state']['request_id']}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": name,
        "system_fingerprint": f"{name}@{version}",
    }
    if body.stream:
        return await _streamed(body, request, services, jobs, head)
    prompts, generations = await while_connected(request, _whole(body, services, jobs))
    told = choices(prompts, generations, with_logprobs=body.logprobs is not None)
    return JsonAnswer({**head, "choices": told, "usage": usage(generations)})


async def _whole(
    body: CompletionRequest, services: Services, jobs: Sequence[GenerationJob]
) -> tuple[list[Prompt], list[Generation]]:
    prompts = await read(services.engine, body, jobs)
    return prompts, await written(services.engine, jobs, prompts)


async def _streamed(
    body: CompletionRequest, request: Request, services: Services, jobs: list[GenerationJob], head: dict[str, Any]
) -> Response:
    prompts = await while_connected(request, read(services.engine, body, jobs))
    return Chunks(
        opened(services.engine, jobs, prompts),
        list,
        services.write_timeout_s,
        head=head,
        prompts=prompts,
        n=body.n,
        with_logprobs=body.logprobs is not None,
        with_usage=body.stream_options is not None and body.stream_options.include_usage,
        counting=body.counting,
    )
