"""The fields of POST /generate, and the sampling fields that it shares with POST /v1/completions."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import BaseModel, BeforeValidator, Field, ValidationInfo, field_validator

from app.api.field_types import (
    EncodableText,
    ModelName,
    check_texts,
    describe_value,
    doc,
    example_of,
    field_error,
    not_empty,
    optional,
)
from app.api.request_fields import Examples, OwnRequestFields, RequestFields
from app.api.shared_schemas import WrittenTokenAnswer, usage_fields
from app.engine.interface import Continuation, FinishReason, GenerationResult

LARGEST_SEED = 2**63 - 1
_LOWEST_TEMPERATURE = 0.01  # below it logits / temperature leaves the range of the narrower number formats
_MAX_STOPS, _MAX_STOP_CHARACTERS = 16, 256
TopP = Annotated[
    float, doc("Sample among the likeliest tokens that together have this probability; 1 is off.", 1.0, gt=0, le=1)
]
Temperature = Annotated[
    float, doc("0 always takes the likeliest token (greedy); 1 samples the model's own distribution.", ge=0, le=10)
]
Seed = Annotated[
    int | None,
    doc(
        "The same seed, prompt, model and options write the same text; on GPUs, load may tip a near-tie."
        " null draws one.",
        7,
        ge=0,
        le=LARGEST_SEED,
    ),
]


class Sampling(RequestFields):
    """Checks `temperature`, `n` and `stop`, which subclasses declare in the order in which problems are reported."""

    @property
    def stops(self) -> tuple[str, ...]:
        stop: str | list[str] = getattr(self, "stop", [])
        return (stop,) if isinstance(stop, str) else tuple(stop)

    @field_validator("temperature", check_fields=False)
    @classmethod
    def _not_almost_zero(cls, value: float) -> float:
        if 0 < value < _LOWEST_TEMPERATURE:
            raise field_error(f"is {value:g}; it takes 0 (greedy) or {_LOWEST_TEMPERATURE} to 10.")
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
    temperature: Temperature = Field(0.8, examples=[0.8])
    top_k: int = doc("Sample among the k likeliest tokens; 0 is off.", 40, default=0, ge=0, le=1_000_000)
    top_p: TopP = 1.0
    seed: Seed = None
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


class ContinuationAnswer(BaseModel):
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

    @staticmethod
    def fields_of(continuation: Continuation) -> dict[str, object]:
        fields = {"text": continuation.text, "finish_reason": continuation.finish_reason, "seed": continuation.seed}
        if continuation.tokens is None:
            return fields
        return fields | {"tokens": [WrittenTokenAnswer.fields_of(token) for token in continuation.tokens]}


class GenerateAnswer(ContinuationAnswer):
    """The first continuation, and the others where n asked for them."""

    model: str = doc("Name of the model that wrote it.", "lyrics-zh")
    alternatives: list[ContinuationAnswer] | None = optional(
        "Only for n above 1: the other n - 1 continuations.",
        [{"text": "以后我们各自走", "finish_reason": "stop", "seed": 8}],
    )

    @staticmethod
    def fields_of_result(result: GenerationResult) -> dict[str, object]:
        first, *others = [ContinuationAnswer.fields_of(continuation) for continuation in result.continuations]
        return {**first, "model": result.model} | ({"alternatives": others} if others else {})

    @staticmethod
    def fields_of_done(result: GenerationResult) -> dict[str, object]:
        """The last event of a stream."""
        return GenerateAnswer.fields_of_result(result) | usage_fields(result.usage, "prompt_tokens")
