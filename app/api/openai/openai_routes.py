"""POST /v1/completions, GET /v1/models and /v1/models/{model}."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from app.api.event_stream import documented_stream, while_connected
from app.api.field_types import ModelName, quotable
from app.api.openai.completion_output import (
    CompletionStream,
    PromptOutput,
    choices,
    generate_all,
    open_stream,
    read_prompts,
    usage,
)
from app.api.openai.errors import OpenAIRoute, documented
from app.api.openai.schemas import CompletionAnswer, CompletionRequest, OpenAIModel, OpenAIModels
from app.api.responses import JsonResponse
from app.api.services import Limits, Services, ServicesDependency
from app.engine.errors import InvalidRequest, UnknownModel
from app.engine.interface import GenerationRequest, GenerationResult, ModelInfo


def find_lyricist(models: Sequence[ModelInfo], name: str | None) -> ModelInfo | None:
    """The one of that name, or the first; None if it is the engine that has to say what is wrong."""
    for each in models:
        if each.name == name or (name is None and each.kind == "lyrics"):
            check_lyricist(each)
            return each
    return None


def check_lyricist(model: ModelInfo) -> None:
    if model.kind != "lyrics":
        raise UnknownModel(
            f"{model.name} is a translator, which completes no text: send it to /translate, or name a lyricist"
            " (GET /v1/models).",
            field="model",
        )


def generation_requests(body: CompletionRequest, limits: Limits, model: str | None) -> list[GenerationRequest]:
    """One for each prompt."""
    prompts = body.prompts
    limits.check_texts([each if isinstance(each, str) else "" for each in prompts], "prompt")
    limits.check_samples(body.n)
    if len(prompts) * body.n > limits.max_batch_texts:
        raise InvalidRequest(
            f'{len(prompts):,} prompts with "n" {body.n:,} are {len(prompts) * body.n:,} texts; one request writes'
            f" {limits.max_batch_texts:,}. Send them in several.",
            field="n",
        )
    if "max_tokens" in body.model_fields_set:
        limits.check_new_tokens(body.max_tokens, "max_tokens")
    decoding = body.decoding(min(body.max_tokens, limits.max_new_tokens))  # the default may lie above the limit
    return [
        GenerationRequest("", model, body.n, body.stops, tuple(prompt), decoding)
        if isinstance(prompt, list)
        else GenerationRequest(prompt, model, body.n, body.stops, decoding=decoding)
        for prompt in prompts
    ]


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
    model = find_lyricist(services.engine.models(), body.model)
    jobs = generation_requests(body, services.limits, model.name if model else body.model)
    name, version = (model.name, model.version) if model else (body.model or "", 0)
    head = {
        "id": f"cmpl-{request.scope['state']['request_id']}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": name,
        "system_fingerprint": f"{name}@{version}",
    }
    if body.stream:
        return await _stream(body, request, services, jobs, head)
    prompts, generations = await while_connected(request, _complete(body, services, jobs))
    told = choices(prompts, generations, with_logprobs=body.logprobs is not None)
    return JsonResponse({**head, "choices": told, "usage": usage(generations)})


async def _complete(
    body: CompletionRequest, services: Services, jobs: Sequence[GenerationRequest]
) -> tuple[list[PromptOutput], list[GenerationResult]]:
    prompts = await read_prompts(services.engine, body, jobs)
    return prompts, await generate_all(services.engine, body, jobs, prompts)


async def _stream(
    body: CompletionRequest, request: Request, services: Services, jobs: list[GenerationRequest], head: dict[str, Any]
) -> Response:
    prompts = await while_connected(request, read_prompts(services.engine, body, jobs))
    return CompletionStream(
        open_stream(services.engine, body, jobs, prompts),
        list,
        services.write_timeout_s,
        head=head,
        prompts=prompts,
        n=body.n,
        with_logprobs=body.logprobs is not None,
        with_usage=body.stream_options is not None and body.stream_options.include_usage,
        counting=body.counting,
    )


models_router = APIRouter(tags=["OpenAI"], route_class=OpenAIRoute)

Name = Annotated[ModelName, Path(description="Name of a lyricist.", examples=["lyrics-zh"])]


@models_router.get("/v1/models", summary="List lyricists", responses=documented())
async def openai_models(services: ServicesDependency) -> OpenAIModels:
    """Every model that POST /v1/completions takes, in the order in which requests without a model take them."""
    return OpenAIModels(data=[_model_info(each) for each in services.engine.models() if each.kind == "lyrics"])


@models_router.get(
    "/v1/models/{model}", summary="One lyricist", responses=documented(s404="No such lyricist is loaded.")
)
async def openai_model(model: Name, services: ServicesDependency) -> OpenAIModel:
    """The same of one model."""
    for each in services.engine.models():
        if each.name == model:
            check_lyricist(each)
            return _model_info(each)
    raise UnknownModel(f"There is no model {quotable(model)} here; GET /v1/models lists them.", field="model")


def _model_info(info: ModelInfo) -> OpenAIModel:
    return OpenAIModel(id=info.name, created=int(info.loaded_at.timestamp()), max_model_len=info.max_new_tokens)
