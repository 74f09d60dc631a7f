"""The fields of POST /v1/completions and GET /v1/models.

https://platform.openai.com/docs/api-reference/completions/create
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from app.api.field_types import ModelName, RequestFields, check_encodable, check_texts, describe_value, field_error
from app.api.generation.schemas import LARGEST_SEED, Sampling
from app.api.shared_schemas import round_nats
from app.engine.interface import Continuation, GenerationResult, ModelInfo
from app.engine.output.text_stream import WrittenToken
from models.decoding.options import DecodingOptions

MIN_NATS = -9999.0  # what OpenAI's clients get for a token that cannot come, since JSON has no infinity
MOST_LOGPROBS = 20
_LARGEST_ID = 2**31 - 1
_PROMPTS = "it takes a text, a list of texts, a list of token ids, or a list of such lists"


def _check_prompt(value: object) -> object:
    """Checked before pydantic tries the union, whose errors name each branch."""
    if isinstance(value, str):
        _check_text_prompt(value)
    elif not isinstance(value, list):
        raise field_error(f"is {describe_value(value)}; {_PROMPTS}.")
    elif not value:
        raise field_error("is an empty list; send at least one prompt.")
    elif isinstance(value[0], str):
        for each in value:
            _check_text_prompt(each)
    elif isinstance(value[0], list):
        for each in value:
            _check_ids_prompt(each)
    else:
        _check_ids_prompt(value)
    return value


def _check_text_prompt(value: object) -> None:
    if not isinstance(value, str):
        raise field_error(f"holds {describe_value(value)} beside a text; {_PROMPTS}.")
    if not value:
        raise field_error("is empty; begin the text with at least one character.")
    check_encodable(value)


def _check_ids_prompt(value: object) -> None:
    if not isinstance(value, list):
        raise field_error(f"holds {describe_value(value)} beside a list; {_PROMPTS}.")
    if not value:
        raise field_error("holds an empty list; begin with at least one token.")
    for each in value:
        if not isinstance(each, int) or isinstance(each, bool):
            raise field_error(f"holds {describe_value(each)}; {_PROMPTS}.")
        if not 0 <= each <= _LARGEST_ID:
            raise field_error(f"holds {describe_value(each)}; ids of tokens are 0 to {_LARGEST_ID:,}.")


def _nullable(schema: dict[str, Any]) -> None:
    """A field with a default may be null, which means the default."""
    for name, field in schema["properties"].items():
        if name not in schema.get("required", ()) and {"type": "null"} not in field.get("anyOf", ()):
            kept = {key: field.pop(key) for key in ("default", "description", "examples", "title") if key in field}
            schema["properties"][name] = {**kept, "anyOf": [*field.pop("anyOf", []), *([field] if field else [])]}
            schema["properties"][name]["anyOf"].append({"type": "null"})


class _NullableFields(RequestFields):
    """OpenAI's clients may send null for any field with a default."""

    model_config = ConfigDict(json_schema_extra=_nullable)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, fields: object) -> object:
        if not isinstance(fields, dict):
            return fields
        return {name: value for name, value in fields.items() if value is not None}


class CompletionStreamOptions(_NullableFields):
    """What a stream tells beside its texts."""

    include_usage: bool = Field(
        default=False, description="One more chunk at the end, without choices, has `usage`.", examples=[True]
    )
    continuous_usage_stats: bool = Field(
        default=False,
        description="With `include_usage`: each chunk has the usage of its choice up to now, which costs one more pass"
        " over the prompt.",
        examples=[False],
    )


class CompletionRequest(_NullableFields, Sampling):
    """How to continue one or several texts. Fields that are not known are ignored."""

    model: ModelName | None = Field(
        default=None,
        description="Name of a lyricist (GET /v1/models); null takes the first.",
        examples=["lyrics-zh"],
    )
    prompt: Annotated[str | list[str] | list[int] | list[list[int]], BeforeValidator(_check_prompt)] = Field(
        description="The text to continue, or several, each a text or the ids of its tokens.", examples=["分开"]
    )
    echo: bool = Field(default=False, description="Begin each text with its prompt.", examples=[False])
    max_tokens: int = Field(
        default=16, ge=0, description="Most tokens to write; 0 only with `echo`.", examples=[16], validate_default=True
    )
    temperature: float = Field(
        default=1.0,
        ge=0,
        le=10,
        description="0 always takes the likeliest token (greedy); 1 samples the model's own distribution.",
        examples=[1.0],
    )
    top_p: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="Sample among the likeliest tokens that together have this probability; 1 is off.",
        examples=[1.0],
    )
    top_k: int = Field(
        default=0, ge=-1, le=1_000_000, description="Sample among the k likeliest tokens; 0 and -1: off.", examples=[40]
    )
    min_p: float = Field(default=0.0, description="Not done here: 0 or nothing.", examples=[0.0])
    seed: int | None = Field(
        default=None,
        ge=0,
        le=LARGEST_SEED,
        description="The same seed, prompt, model and options write the same text; null draws one.",
        examples=[7],
    )
    n: int = Field(default=1, ge=1, description="Continuations of each prompt; number i has seed + i.", examples=[1])
    best_of: int | None = Field(default=None, description="Not done here: the same as `n`, or nothing.", examples=[1])
    logprobs: int | None = Field(
        default=None,
        ge=0,
        le=MOST_LOGPROBS,
        description="Tell how probable each token was, and so many of the likeliest at its place.",
        examples=[None, 2],
    )
    stop: Annotated[str | list[str], BeforeValidator(check_texts)] = Field(
        default=[], description="A text, or up to 16, before which writing stops.", examples=["\n\n"]
    )
    presence_penalty: float = Field(
        default=0.0, ge=-2, le=2, description="Off the logit of each token written before, once.", examples=[0.0]
    )
    frequency_penalty: float = Field(
        default=0.0, ge=-2, le=2, description="Off it for each time that it was written.", examples=[0.0]
    )
    repetition_penalty: float = Field(
        default=1.0,
        ge=0.01,
        le=100,
        description="Divides the positive logits of tokens that were written before, multiplies the others; 1 is off.",
        examples=[1.0],
    )
    no_repeat_ngram_size: int = Field(
        default=0, ge=0, le=1000, description="No run of so many tokens comes twice; 0 is off.", examples=[0]
    )
    stream: bool = Field(default=False, description="Send the texts while they are written.", examples=[False])
    stream_options: CompletionStreamOptions | None = Field(
        default=None, description="Only with `stream`.", examples=[None, {"include_usage": True}]
    )
    suffix: str = Field(default="", description="Not done here: leave it out.", examples=[""])
    logit_bias: dict[str, float] | None = Field(default=None, description="Not done here: leave it out.", examples=[{}])
    user: str | None = Field(default=None, description="Who asks; not read.", examples=[None, "someone"])

    @property
    def prompts(self) -> list[str] | list[list[int]]:
        """The prompts as a list, also of a single one."""
        if isinstance(self.prompt, str):
            return [self.prompt]
        if isinstance(self.prompt[0], int):
            return [self.prompt]
        return self.prompt

    def decoding(self, max_new_tokens: int) -> DecodingOptions:
        return DecodingOptions(
            max_new_tokens=max(1, max_new_tokens),  # 0: the prompt alone is returned, and nothing decoded
            temperature=self.temperature,
            top_k=max(0, self.top_k),
            top_p=self.top_p,
            seed=self.seed,
            logprobs=self.logprobs is not None or self.counting,  # with its tokens a growing text can be counted
            top_logprobs=self.logprobs or 0,
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            repetition_penalty=self.repetition_penalty,
            no_repeat_ngram_size=self.no_repeat_ngram_size,
        )

    @property
    def counting(self) -> bool:
        """Whether each chunk of a stream has the usage so far."""
        options = self.stream_options
        return options is not None and options.include_usage and options.continuous_usage_stats

    def charged_texts(self) -> Iterator[str]:
        """The prompts; each token id counts as a character."""
        for prompt in self.prompts:
            yield prompt if isinstance(prompt, str) else " " * len(prompt)

    @field_validator("max_tokens")
    @classmethod
    def _none_with_echo(cls, value: int, info: ValidationInfo) -> int:
        if value == 0 and not info.data.get("echo"):
            raise field_error('is 0; it takes 1 or more, or 0 with "echo": true.')
        return value

    @field_validator("best_of")
    @classmethod
    def _no_more_than_n(cls, value: int, info: ValidationInfo) -> int:
        if value != (n := info.data.get("n", value)):
            raise field_error(
                f'is {describe_value(value)}; texts are not chosen among here, so send "n" ({n}), or leave it out.'
            )
        return value

    @field_validator("min_p")
    @classmethod
    def _no_min_p(cls, value: float) -> float:
        if value:
            raise field_error(f'is {value:g}; this is not done here: leave it out, and use "top_p" or "top_k".')
        return value

    @field_validator("stream_options")
    @classmethod
    def _of_a_stream(cls, value: CompletionStreamOptions, info: ValidationInfo) -> CompletionStreamOptions:
        if info.data.get("stream") is False:
            raise field_error('is only for "stream": true; leave it out.')
        return value

    @field_validator("suffix")
    @classmethod
    def _no_suffix(cls, value: str) -> str:
        if value:
            raise field_error(
                "is not done here: a model writes what follows its prompt, to no given end; leave it out."
            )
        return value

    @field_validator("logit_bias")
    @classmethod
    def _no_bias(cls, value: dict[str, float] | None) -> dict[str, float] | None:
        if value:
            raise field_error("is not done here; leave it out.")
        return value


class ChoiceToken(NamedTuple):
    """A token of a choice's text. logprob, top: None where nothing comes before the token. top: by their texts."""

    text: str
    logprob: float | None
    top: Mapping[str, float] | None

    @classmethod
    def of(cls, token: WrittenToken) -> Self:
        logprobs = top_logprobs([(text, logprob) for _, text, logprob in token.top], token.text, token.log_probability)
        return cls(token.text, clip_nats(token.log_probability), logprobs)


def top_logprobs(top: Iterable[tuple[str, float]], text: str, logprob: float) -> dict[str, float]:
    """The likeliest tokens of one place by their texts, and the token that came; of equal texts the likelier one."""
    logprobs: dict[str, float] = {}
    for candidate, value in top:
        logprobs.setdefault(candidate, clip_nats(value))
    logprobs.setdefault(text, clip_nats(logprob))
    return logprobs


def clip_nats(value: float) -> float:
    return round_nats(max(value, MIN_NATS))


class CompletionLogprobs(BaseModel):
    """The tokens of a text, in four lists of one length."""

    text_offset: list[int] = Field(
        description="Where each begins, in characters of the choice's text.", examples=[[0, 1]]
    )
    token_logprobs: list[float | None] = Field(
        description="Natural logarithm of the probability of each, rounded to 7 decimals: the model's own, at"
        " temperature 1 and without cuts or penalties; null of an echoed token that nothing comes before.",
        examples=[[-1.25, -0.5]],
    )
    tokens: list[str] = Field(description="What each added to the text.", examples=[["后", "的"]])
    top_logprobs: list[dict[str, float] | None] = Field(
        description="At each place the `logprobs` likeliest tokens, and the one that came if it is not among them.",
        examples=[[{"后": -1.25}, {"的": -0.5}]],
    )

    @staticmethod
    def fields_of(tokens: Iterable[ChoiceToken], offset: int = 0) -> dict[str, object]:
        """offset: of the first token, in the text of its choice. Built without a model, as all that a chunk holds."""
        tokens, offsets = list(tokens), []
        for token in tokens:
            offsets.append(offset)
            offset += len(token.text)
        return {
            "text_offset": offsets,
            "token_logprobs": [token.logprob for token in tokens],
            "tokens": [token.text for token in tokens],
            "top_logprobs": [token.top for token in tokens],
        }


class CompletionChoice(BaseModel):
    """One continuation."""

    index: int = Field(description="Number i of prompt p is p * n + i.", examples=[0])
    text: str = Field(description="What follows the prompt; with `echo` after the prompt.", examples=["后的街道"])
    logprobs: CompletionLogprobs | None = Field(
        description="Only with `logprobs`.",
        examples=[None],
    )
    finish_reason: Literal["stop", "length"] = Field(
        description='"stop": the text ended or met a stop text; "length": it ran into max_tokens.', examples=["length"]
    )
    stop_reason: Literal["repetition"] | None = Field(
        description='"repetition": the text goes round in circles; else null.', examples=[None]
    )
    seed: int | None = Field(
        description="The seed that writes this text again; null where nothing was to be written.", examples=[7]
    )

    @staticmethod
    def end_fields(continuation: Continuation) -> dict[str, object]:
        """OpenAI's clients know no repetition: such a text ran on up to its limit."""
        repeats = continuation.finish_reason == "repetition"
        return {
            "finish_reason": "length" if repeats else continuation.finish_reason,
            "stop_reason": "repetition" if repeats else None,
            "seed": continuation.seed if continuation.seed >= 0 else None,
        }


class CompletionUsage(BaseModel):
    """Tokens read and written."""

    prompt_tokens: int = Field(description="Tokens of the prompts.", examples=[2])
    completion_tokens: int = Field(description="Tokens written, of all choices together.", examples=[16])
    total_tokens: int = Field(description="Both.", examples=[18])

    @staticmethod
    def fields_of(prompt_tokens: int, completion_tokens: int) -> dict[str, int]:
        return {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        }

    @classmethod
    def of_results(cls, results: Sequence[GenerationResult]) -> dict[str, int]:
        usages = [result.usage for result in results]
        return cls.fields_of(sum(usage.read_tokens for usage in usages), sum(usage.new_tokens for usage in usages))


class CompletionAnswer(BaseModel):
    """All choices."""

    id: str = Field(
        description='"cmpl-" and the id of the request, as in the header X-Request-Id.', examples=["cmpl-5f0c0f7b"]
    )
    object: Literal["text_completion"] = Field(description='Always "text_completion".', examples=["text_completion"])
    created: int = Field(description="When it was answered, in seconds since 1970.", examples=[1795324329])
    model: str = Field(description="Name of the model that wrote it.", examples=["lyrics-zh"])
    system_fingerprint: str = Field(
        description="The model and how many times it was loaded since the start: with the same one, the same seed"
        " writes the same text.",
        examples=["lyrics-zh@1"],
    )
    choices: list[CompletionChoice] = Field(
        description="n for each prompt, in order.",
        examples=[
            [
                {
                    "index": 0,
                    "text": "后的街道",
                    "logprobs": None,
                    "finish_reason": "length",
                    "stop_reason": None,
                    "seed": 7,
                }
            ]
        ],
    )
    usage: CompletionUsage = Field(
        description="What was read and written.",
        examples=[{"prompt_tokens": 2, "completion_tokens": 16, "total_tokens": 18}],
    )


_MODEL = {
    "id": "lyrics-zh",
    "object": "model",
    "created": 1795324329,
    "owned_by": "parlance",
    "max_model_len": 1024,
}


class OpenAIModel(BaseModel):
    """One lyricist."""

    id: str = Field(description="Its name, for the field `model`.", examples=["lyrics-zh"])
    object: Literal["model"] = Field(default="model", description='Always "model".', examples=["model"])
    created: int = Field(description="When it was loaded, in seconds since 1970.", examples=[1795324329])
    owned_by: Literal["parlance"] = Field(default="parlance", description='Always "parlance".', examples=["parlance"])
    max_model_len: int = Field(
        description="Most tokens of a prompt, and most that are written after it.", examples=[1024]
    )

    @classmethod
    def from_info(cls, info: ModelInfo) -> Self:
        return cls(id=info.name, created=int(info.loaded_at.timestamp()), max_model_len=info.max_new_tokens)


class OpenAIModels(BaseModel):
    """All of them."""

    object: Literal["list"] = Field(default="list", description='Always "list".', examples=["list"])
    data: list[OpenAIModel] = Field(description="The lyricists that are loaded.", examples=[[_MODEL]])
