"""POST /generate: a character model continues a text. POST /v1/completions has the same fields for sampling."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, get_type_hints

from fastapi import APIRouter, Request
from pydantic import BeforeValidator, Field, ValidationInfo, create_model, field_validator
from starlette.responses import Response

from app.api.errors import ErrorAnswer, common_errors, documented
from app.api.event_stream import EventStream, documented_stream
from app.api.request_body import while_connected
from app.api.request_fields import (
    EncodableText,
    Examples,
    ModelName,
    OwnRequestFields,
    RequestFields,
    check_texts,
    describe_value,
    doc,
    example_of,
    field_error,
    not_empty,
    optional,
    whole_number,
)
from app.api.responses import Answer, WrittenTokenAnswer, usage_fields
from app.api.route import ApiRoute
from app.api.services import ServicesDependency
from app.engine.interface import Continuation, FinishReason, GenerationRequest, GenerationResult
from models.decoding.options import LARGEST_SEED, ROW_PARAMETERS, DecodingOptions

LOWEST_TEMPERATURE = 0.01  # below it logits / temperature leaves the range of the narrower number formats
_MAX_STOPS, _MAX_STOP_CHARACTERS = 16, 256


def option_field(name: str, **changes: Any) -> Any:
    """The field of a decoding option, as `ROW_PARAMETERS` has it but for `changes` of pydantic's `Field`."""
    row = ROW_PARAMETERS[name]
    least, most = row.served or (row.least, row.most)
    limits = {"gt" if row.above else "ge": least} | ({} if most == math.inf else {"le": most})
    examples = [] if row.example is None else [row.example]
    return Field(**{"default": row.neutral, "description": row.sentence, "examples": examples, **limits, **changes})


if TYPE_CHECKING:
    OptionFields = RequestFields
else:  # a field for each option that a request which samples may have
    OptionFields = create_model(
        "OptionFields",
        __base__=RequestFields,
        **{
            name: (get_type_hints(DecodingOptions)[name], option_field(name))
            for name, row in ROW_PARAMETERS.items()
            if row.kind != "other"
        },
    )


class Sampling(OptionFields):
    """Checks the options, and `n` and `stop` of subclasses."""

    @property
    def stops(self) -> tuple[str, ...]:
        stop: str | list[str] = getattr(self, "stop", [])
        return (stop,) if isinstance(stop, str) else tuple(stop)

    @field_validator(
        *("max_new_tokens", "max_tokens", "n", "best_of", "logprobs"),
        *(name for name, row in ROW_PARAMETERS.items() if row.kind != "other" and row.is_whole),
        mode="before",
        check_fields=False,
    )
    @classmethod
    def _whole(cls, value: object) -> object:
        return whole_number(value)

    @field_validator("temperature", check_fields=False)
    @classmethod
    def _not_almost_zero(cls, value: float) -> float:
        if 0 < value < LOWEST_TEMPERATURE:
            raise field_error(f"is {value:g}; it takes 0 (greedy) or {LOWEST_TEMPERATURE} to 10.")
        return value

    @field_validator("stop", check_fields=False)
    @classmethod
    def _few_and_short(cls, value: str | list[str]) -> str | list[str]:
        stops = [value] if isinstance(value, str) else value
        if len(stops) > _MAX_STOPS:
            raise field_error(f"has {len(stops)} texts; it takes at most {_MAX_STOPS}.")
        if any(not 1 <= len(stop) <= _MAX_STOP_CHARACTERS for stop in stops):
            raise field_error(
                f"holds a text that is empty or too long; each takes 1 to {_MAX_STOP_CHARACTERS} characters."
            )
        return value

    @field_validator("n", check_fields=False)
    @classmethod
    def _seeds_in_range(cls, value: int, info: ValidationInfo) -> int:
        seed = info.data.get("seed")
        if seed is not None and seed + value - 1 > LARGEST_SEED:
            raise field_error(
                f"is {describe_value(value)}: seed + n - 1 may be at most {LARGEST_SEED}, so lower one of them."
            )
        return value


class GenerateRequest(Sampling, OwnRequestFields):
    """How to continue a text."""

    examples: ClassVar[Examples] = {
        "A text": {"prompt": "分开", "max_new_tokens": 40, "temperature": 0.8, "top_k": 40, "seed": 7},
        "Three continuations": {"prompt": "分开", "max_new_tokens": 20, "n": 3, "stop": "\n\n"},
        "The likeliest text": {"prompt": "分开", "max_new_tokens": 20, "temperature": 0},
        "Log-probabilities": {"prompt": "分开", "max_new_tokens": 4, "seed": 7, "logprobs": True},
        "A stream": {"prompt": "分开", "max_new_tokens": 20, "seed": 7, "stream": True},
    }

    prompt: Annotated[EncodableText, not_empty("begin the text with at least one character.")] = doc(
        "The text to continue.", "分开"
    )
    max_new_tokens: int = doc("Most tokens to write.", 100, default=100, ge=1)
    temperature: float = option_field("temperature", default=0.8, examples=[0.8])
    n: int = doc("Continuations to write; number i (from 0) has seed + i.", 1, default=1, ge=1)
    stop: Annotated[str | list[str], BeforeValidator(check_texts)] = doc(
        "A text, or up to 16, before which writing stops; it is not part of the answer.", "\n\n", default=[]
    )
    model: ModelName | None = optional("Name of the model (GET /models); null takes the only one.", "lyrics-zh")

    logprobs: bool = doc(
        "Tell with each token that is written how probable the model found it: of its own distribution, at"
        " temperature 1 and without top_k and top_p, over the tokens that it may choose, as POST /score with"
        ' "distribution": "decoding" and POST /gates say of the same text. The text is the same with it and without.'
        " A server that decodes in another precision than fp32 tells what that precision gave.",
        False,
        default=False,
    )
    stream: bool = doc(
        "Send the text as server-sent events while it is written; with n above 1 each says its `index`.",
        False,
        default=False,
    )


class ContinuationAnswer(Answer):
    """One continuation."""

    text: str = doc("What follows the prompt, without the prompt.", "后的街道下着旧雨")
    finish_reason: FinishReason = doc(
        '"stop": the text ended or met a stop text; "length": it ran into max_new_tokens; "repetition": it'
        " did so while it went round in circles, its end being the same few tokens again and again.",
        "length",
    )
    seed: int = doc("The seed that writes this text again.", 7)
    tokens: list[WrittenTokenAnswer] | None = optional(
        "Only with `logprobs`: the tokens of the text, whose texts join to it, without an end token. With"
        " `stream` each event `token` has those of its own text.",
        [example_of(WrittenTokenAnswer)],
    )

    @classmethod
    def of(cls, continuation: Continuation, **more: Any) -> Self:
        tokens = None
        if continuation.tokens is not None:
            tokens = [WrittenTokenAnswer.of(token) for token in continuation.tokens]
        text, finish_reason = continuation.text, continuation.finish_reason
        return cls(text=text, finish_reason=finish_reason, seed=continuation.seed, tokens=tokens, **more)


class GenerateAnswer(ContinuationAnswer):
    """The first continuation, and the others where n asked for them."""

    model: str = doc("Name of the model that wrote it.", "lyrics-zh")
    alternatives: list[ContinuationAnswer] | None = optional(
        "Only for n above 1: the other n - 1 continuations.",
        [{"text": "以后我们各自走", "finish_reason": "stop", "seed": 8}],
    )

    @classmethod
    def of_result(cls, result: GenerationResult, **more: Any) -> Self:
        first, *others = result.continuations
        alternatives = [ContinuationAnswer.of(continuation) for continuation in others] or None
        return cls.of(first, model=result.model, alternatives=alternatives, **more)


class GenerateDone(GenerateAnswer):
    """The last event of a stream."""

    usage: dict[str, int] = doc("Tokens that were read and written.", {"prompt_tokens": 2, "new_tokens": 8})
    timing: dict[str, float] = doc("Milliseconds.", {"queued_ms": 0.4, "first_token_ms": 3.1, "total_ms": 11.7})

    @classmethod
    def of_stream(cls, result: GenerationResult) -> Self:
        return cls.of_result(result, **usage_fields(result.usage, "prompt_tokens"))


router = APIRouter(route_class=ApiRoute)

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
async def generate(body: GenerateRequest, request: Request, services: ServicesDependency) -> Response | GenerateAnswer:
    """Continues `prompt`. The answer's `seed` writes the same text again. With `logprobs` the answer and each event
    `token` have `tokens`, whose texts join to their text."""
    limits = services.limits
    limits.check_texts([body.prompt], "prompt")
    limits.check_numbers(n=body.n)
    if "max_new_tokens" in body.model_fields_set:
        limits.check_numbers(max_new_tokens=body.max_new_tokens)
    max_new_tokens = min(body.max_new_tokens, limits.max_new_tokens)  # the default may lie above the limit
    decoding = body.decoding_options(max_new_tokens=max_new_tokens)
    job = GenerationRequest(body.prompt, body.model, body.n, body.stops, decoding=decoding)
    if body.stream:
        opened, write_timeout_s = services.engine.stream_generation(job), limits.request_timeout_s
        return EventStream(opened, GenerateDone.of_stream, write_timeout_s, indexed=job.n > 1)
    return GenerateAnswer.of_result(
        await while_connected(request, services.engine.generate(job), services.limits.request_timeout_s)
    )
