"""POST /v1/completions and GET /v1/models: character models alone, because translators complete no text."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

from fastapi import APIRouter, Path, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from app.api.errors import Statuses, common_errors, documented, not_found
from app.api.event_stream import documented_stream
from app.api.openai import schemas
from app.api.openai.completion_output import Completion, CompletionStream
from app.api.request_body import RequestLimits, while_connected
from app.api.request_fields import ModelName, quotable
from app.api.route import ApiRoute
from app.api.services import ServicesDependency
from app.engine.interface import GenerationRequest, ModelInfo
from app.errors import InvalidRequest, TextTooLong, UnknownModel


class OpenAIRoute(ApiRoute):
    """Any invalid input is 400; a missing or wrong key is 401."""

    statuses: ClassVar[Statuses] = {InvalidRequest: 400, TextTooLong: 400}
    error_schema = schemas.OpenAIErrorAnswer


router = APIRouter(route_class=OpenAIRoute)
Name = Annotated[ModelName, Path(description="Name of a lyricist.", examples=["lyrics-zh"])]
_NO_CHAT = (
    'There is no chat here, because these models continue a text and know no turns: send the text as "prompt" to POST'
    " /v1/completions, or a text to be translated to POST /translate."
)
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
    response_model=schemas.CompletionAnswer,
    responses=documented_stream(_EVENTS, "A chunk for each bit of text; the last line is `data: [DONE]`.", names=())
    | documented(
        schemas.OpenAIErrorAnswer,
        common_errors("write", "answer"),
        s400="The request cannot be answered as it is: a field is wrong or beyond a limit.",
        s401="The key is missing or wrong.",
        s404="No lyricist of that name is loaded.",
    ),
)
async def completions(
    body: schemas.CompletionRequest, request: Request, services: ServicesDependency
) -> Response | schemas.CompletionAnswer:
    """Continues each prompt `n` times. `temperature` is 1 and `max_tokens` 16 unless you say otherwise, as OpenAI's
    are; `best_of` above `n` is refused, as are options that this server does not have, such as `suffix` and
    `logit_bias`."""
    model = find_lyricist(services.engine.models(), body.model)
    name, version = (model.name, model.version) if model else (body.model or "", 0)
    jobs = generation_requests(body, services.limits, model.name if model else body.model)
    check_logprobs(body, services.limits.max_attention_values)
    completion = Completion(services.engine, body, jobs)
    head: dict[str, Any] = {
        "id": f"cmpl-{request.scope['state']['request_id']}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": name,
        "system_fingerprint": f"{name}@{version}",
    }
    if body.stream:
        return CompletionStream(completion, head, services.limits.request_timeout_s)
    results = await while_connected(request, completion.write(), services.limits.request_timeout_s)
    choices = (
        await run_in_threadpool(completion.choices, results) if completion.is_large else completion.choices(results)
    )
    return schemas.CompletionAnswer(**head, choices=choices, usage=schemas.CompletionUsage.of_results(results))


@router.get("/v1/models", summary="List lyricists", responses=documented(schemas.OpenAIErrorAnswer))
async def openai_models(services: ServicesDependency) -> schemas.OpenAIModels:
    """Every model that POST /v1/completions takes, in the order in which requests without a model take them."""
    data = [schemas.OpenAIModel.from_info(each) for each in services.engine.models() if each.kind == "lyrics"]
    return schemas.OpenAIModels(data=data)


@router.get(
    "/v1/models/{model}",
    summary="One lyricist",
    responses=documented(schemas.OpenAIErrorAnswer, s404="No such lyricist is loaded."),
)
async def openai_model(model: Name, services: ServicesDependency) -> schemas.OpenAIModel:
    """The same of one model."""
    if (info := find_lyricist(services.engine.models(), model)) is None:
        raise UnknownModel(f"There is no model {quotable(model)} here; GET /v1/models lists them.", field="model")
    return schemas.OpenAIModel.from_info(info)


@router.api_route("/v1/chat/completions", methods=["GET", "POST"], include_in_schema=False)
@router.api_route("/v1/responses", methods=["GET", "POST"], include_in_schema=False)
async def no_chat(request: Request) -> Response:
    return not_found(request.scope, _NO_CHAT)


def find_lyricist(models: Sequence[ModelInfo], name: str | None) -> ModelInfo | None:
    """The character model of that name, or the first; None where the engine has to refuse the name."""
    for model in models:
        if model.name == name or (name is None and model.kind == "lyrics"):
            if model.kind != "lyrics":
                raise UnknownModel(
                    f"{model.name} is a translator, which completes no text: send it to /translate, or name a lyricist"
                    " (GET /v1/models).",
                    field="model",
                )
            return model
    return None


def check_logprobs(body: schemas.CompletionRequest, most: int) -> None:
    """Raises InvalidRequest for an answer of too many log-probabilities, of all prompts and continuations. A prompt has
    at most as many tokens as characters, and the start token."""
    if body.logprobs is None:
        return
    read = sum(len(prompt) + 1 for prompt in body.prompts) if body.echo else 0
    values = body.n * (read + body.max_tokens * len(body.prompts)) * (1 + body.logprobs)
    if values > most:
        raise InvalidRequest(
            f"This asks for up to {values:,} log-probabilities; one request takes {most:,}. Send fewer prompts at once,"
            ' or lower "logprobs" or "max_tokens".',
            field="logprobs",
        )


def generation_requests(
    body: schemas.CompletionRequest, limits: RequestLimits, model: str | None
) -> list[GenerationRequest]:
    prompts = body.prompts
    limits.check_texts([each if isinstance(each, str) else "" for each in prompts], "prompt")
    limits.check_numbers(n=body.n)
    if len(prompts) * body.n > limits.max_batch_texts:
        raise InvalidRequest(
            f'{len(prompts):,} prompts with "n" {body.n:,} are {len(prompts) * body.n:,} texts; one request writes'
            f" {limits.max_batch_texts:,}. Send them in several.",
            field="n",
        )
    if "max_tokens" in body.model_fields_set:
        limits.check_numbers(max_tokens=body.max_tokens)
    decoding = body.decoding(min(body.max_tokens, limits.max_new_tokens))  # the default may lie above the limit
    return [
        GenerationRequest("", model, body.n, body.stops, tuple(prompt), decoding)
        if isinstance(prompt, list)
        else GenerationRequest(prompt, model, body.n, body.stops, decoding=decoding)
        for prompt in prompts
    ]
