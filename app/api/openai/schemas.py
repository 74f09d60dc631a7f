"""The fields of POST /v1/completions and GET /v1/models.
https://platform.openai.com/docs/api-reference/completions/create"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import BeforeValidator, ValidationInfo, field_validator

from app.api.errors import ErrorAnswer
from app.api.generation import LOWEST_TEMPERATURE, Sampling, option_field
from app.api.request_fields import (
    Examples,
    ModelName,
    RequestFields,
    check_encodable,
    check_texts,
    describe_value,
    doc,
    example_of,
    field_error,
    optional,
    unsupported,
    whole_number,
)
from app.api.responses import Answer, round_nats
from app.engine.interface import Continuation, GenerationResult, ModelInfo
from app.engine.output.text_stream import WrittenToken
from models.decoding.options import DecodingOptions

MIN_NATS = -9999.0  # what OpenAI's clients get for a token that cannot come, since JSON has no infinity
MOST_LOGPROBS = 20
_NO_SUFFIX = unsupported("is not done here: a model writes what follows its prompt, to no given end; leave it out.")
_TOP_P = "Sample among the likeliest tokens that together have this probability; 1 is off, 0 takes the likeliest token."
# Our codes and OpenAI's; any other stays as it is.
_CODES: Mapping[str, str] = {
    "invalid_request": "invalid_value",
    "not_found": "unknown_url",
    "text_too_long": "context_length_exceeded",
    "unknown_model": "model_not_found",
    "overloaded": "rate_limit_exceeded",
    "rate_limited": "rate_limit_exceeded",
    "quota_exceeded": "insufficient_quota",
    "key_missing": "invalid_api_key",
    "key_wrong": "invalid_api_key",
}
_FIELDS: Mapping[str, str] = {"max_new_tokens": "max_tokens", "text": "prompt", "top_logprobs": "logprobs"}
LARGEST_ID = 2**31 - 1
_PROMPTS = "it takes a text, a list of texts, a list of token ids, or a list of such lists"


def _check_prompt(value: object) -> object:
    """Checked before pydantic tries the union, whose errors name each branch."""
    if not isinstance(value, str | list):
        raise field_error(f"is {describe_value(value)}; {_PROMPTS}.")
    if value == []:
        raise field_error("is an empty list; send at least one prompt.")
    prompts = value if isinstance(value, list) and isinstance(value[0], str | list) else [value]
    kind = type(prompts[0])
    for prompt in prompts:
        if not isinstance(prompt, kind):
            beside = "a text" if kind is str else "a list"
            raise field_error(f"holds {describe_value(prompt)} beside {beside}; {_PROMPTS}.")
        if isinstance(prompt, str):
            if not prompt:
                raise field_error("is empty; begin the text with at least one character.")
            check_encodable(prompt)
            continue
        if not prompt:
            raise field_error("holds an empty list; begin with at least one token.")
        for token in prompt:
            if not isinstance(token, int) or isinstance(token, bool):
                raise field_error(f"holds {describe_value(token)}; {_PROMPTS}.")
            if not 0 <= token <= LARGEST_ID:
                raise field_error(f"holds {describe_value(token)}; ids of tokens are 0 to {LARGEST_ID:,}.")
    return value


def _raise_tiny(value: object) -> object:
    """As vLLM does: below this the probability of all tokens but the likeliest is nothing in most texts."""
    return LOWEST_TEMPERATURE if isinstance(value, float) and 0 < value < LOWEST_TEMPERATURE else value


def _unsigned(value: object) -> object:
    """-1 draws a seed, as in vLLM; OpenAI's seeds may be negative, too."""
    value = whole_number(value)
    if not isinstance(value, int) or not -(2**63) <= value < 0:
        return value
    return None if value == -1 else value % 2**62


class CompletionStreamOptions(RequestFields):
    """What a stream tells beside its texts."""

    include_usage: bool = doc("One more chunk at the end, without choices, has `usage`.", True, default=False)
    continuous_usage_stats: bool = doc(
        "With `include_usage`: each chunk has the usage of its choice up to now, which costs one more pass"
        " over the prompt.",
        False,
        default=False,
    )


class CompletionRequest(Sampling):
    """How to continue one or several texts."""

    examples: ClassVar[Examples] = {
        "A text": {"model": "lyrics-zh", "prompt": "分开", "max_tokens": 16, "temperature": 0.8, "seed": 7},
        "Several prompts": {"model": "lyrics-zh", "prompt": ["分开", "雨"], "max_tokens": 8, "logprobs": 2},
        "A stream": {"model": "lyrics-zh", "prompt": "分开", "max_tokens": 16, "stream": True},
    }

    model: ModelName | None = optional("Name of a lyricist (GET /v1/models); null takes the first.", "lyrics-zh")
    prompt: Annotated[str | list[str] | list[int] | list[list[int]], BeforeValidator(_check_prompt)] = doc(
        "The text to continue, or several, each a text or the ids of its tokens.", "分开"
    )
    echo: bool = doc("Begin each text with its prompt.", False, default=False)
    max_tokens: int = doc("Most tokens to write; 0 only with `echo`.", 16, default=16, ge=0, validate_default=True)
    temperature: Annotated[float, BeforeValidator(_raise_tiny)] = option_field(
        "temperature", default=1.0, examples=[1.0]
    )
    top_p: float = option_field("top_p", description=_TOP_P, gt=None, ge=0)
    top_k: int = option_field("top_k", description="Sample among the k likeliest tokens; 0 and -1: off.", ge=-1)
    seed: Annotated[int | None, BeforeValidator(_unsigned)] = option_field("seed")
    n: int = doc("Continuations of each prompt; number i has seed + i.", 1, default=1, ge=1)
    best_of: int | None = optional("Not done here: the same as `n`, or nothing.", 1)
    logprobs: int | None = optional(
        "Tell how probable each token was, and so many of the likeliest at its place.", None, 2, ge=0, le=MOST_LOGPROBS
    )
    stop: Annotated[str | list[str], BeforeValidator(check_texts)] = doc(
        "A text, or up to 16, before which writing stops.", "\n\n", default=[]
    )
    stream: bool = doc("Send the texts while they are written.", False, default=False)
    stream_options: CompletionStreamOptions | None = optional("Only with `stream`.", None, {"include_usage": True})
    suffix: Annotated[str, _NO_SUFFIX] = doc("Not done here: leave it out.", "", default="")
    logit_bias: dict[str, float] = doc("Not done here: zeros, or nothing.", {}, default={})
    user: str | None = optional("Who asks; not read.", None, "someone")

    @property
    def prompts(self) -> Sequence[str | list[int]]:
        if isinstance(self.prompt, str) or isinstance(self.prompt[0], int):
            return [self.prompt]
        return self.prompt

    def decoding(self, max_new_tokens: int) -> DecodingOptions:
        return self.decoding_options(
            max_new_tokens=max(1, max_new_tokens),  # 0: the prompt alone is returned, and nothing decoded
            top_k=max(0, self.top_k),
            top_p=self.top_p or 1.0,
            temperature=self.temperature if self.top_p else 0.0,
            logprobs=self.logprobs is not None or self.counting,  # with its tokens a growing text can be counted
            top_logprobs=self.logprobs or 0,
        )

    @property
    def with_usage(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_usage

    @property
    def counting(self) -> bool:
        """Whether each chunk of a stream has the usage so far."""
        return self.with_usage and self.stream_options is not None and self.stream_options.continuous_usage_stats

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

    @field_validator("logit_bias")
    @classmethod
    def _no_bias(cls, value: dict[str, float]) -> dict[str, float]:
        if any(value.values()):
            raise field_error("is not done here; leave it out.")
        return value

    @field_validator("stream_options")
    @classmethod
    def _of_a_stream(cls, value: CompletionStreamOptions, info: ValidationInfo) -> CompletionStreamOptions:
        if info.data.get("stream") is False:
            raise field_error('is only for "stream": true; leave it out.')
        return value


class ChoiceToken(NamedTuple):
    """A token of a choice's text. logprob, top: None where nothing comes before the token. top: by their texts."""

    text: str
    logprob: float | None
    top: dict[str, float] | None

    @classmethod
    def of(cls, token: WrittenToken) -> Self:
        logprobs = top_logprobs([(text, logprob) for _, text, logprob in token.top], token.text, token.log_probability)
        return cls(token.text, clip_nats(token.log_probability), logprobs)


def top_logprobs(top: Iterable[tuple[str, float]], text: str, logprob: float) -> dict[str, float]:
    """The likeliest tokens of one place by their texts, and the token that came; of equal texts the likelier one."""
    logprobs: dict[str, float] = {}
    for candidate, value in (*top, (text, logprob)):
        logprobs.setdefault(candidate, clip_nats(value))
    return logprobs


def clip_nats(value: float) -> float:
    return round_nats(max(value, MIN_NATS))


class CompletionLogprobs(Answer):
    """The tokens of a text, in four lists of one length."""

    text_offset: list[int] = doc("Where each begins, in characters of the choice's text.", [0, 1])
    token_logprobs: list[float | None] = doc(
        "Natural logarithm of the probability of each, rounded to 7 decimals: the model's own, at"
        " temperature 1 and without cuts or penalties; null of an echoed token that nothing comes before.",
        [-1.25, -0.5],
    )
    tokens: list[str] = doc("What each added to the text.", ["后", "的"])
    top_logprobs: list[dict[str, float] | None] = doc(
        "At each place the `logprobs` likeliest tokens, and the one that came if it is not among them.",
        [{"后": -1.25}, {"的": -0.5}],
    )

    @classmethod
    def of(cls, tokens: Iterable[ChoiceToken], offset: int = 0) -> Self:
        """offset: of the first token, in the text of its choice."""
        tokens = list(tokens)
        texts = [token.text for token in tokens]
        return cls(
            text_offset=list(accumulate(map(len, texts), initial=offset))[:-1],
            token_logprobs=[token.logprob for token in tokens],
            tokens=texts,
            top_logprobs=[token.top for token in tokens],
        )


class CompletionChoice(Answer):
    """One continuation."""

    index: int = doc("Number i of prompt p is p * n + i.", 0)
    text: str = doc("What follows the prompt; with `echo` after the prompt.", "后的街道")
    logprobs: CompletionLogprobs | None = doc("Only with `logprobs`.", None)
    finish_reason: Literal["stop", "length"] = doc(
        '"stop": the text ended or met a stop text; "length": it ran into max_tokens.', "length"
    )
    stop_reason: Literal["repetition"] | None = doc('"repetition": the text goes round in circles; else null.', None)
    seed: int | None = doc("The seed that writes this text again; null where nothing was to be written.", 7)

    @staticmethod
    def end_fields(continuation: Continuation) -> dict[str, Any]:
        """OpenAI's clients know no repetition: such a text ran on up to its limit."""
        repeats = continuation.finish_reason == "repetition"
        return {
            "finish_reason": "length" if repeats else continuation.finish_reason,
            "stop_reason": "repetition" if repeats else None,
            "seed": continuation.seed if continuation.seed >= 0 else None,
        }


class CompletionUsage(Answer):
    """Tokens read and written."""

    prompt_tokens: int = doc("Tokens of the prompts.", 2)
    completion_tokens: int = doc("Tokens written, of all choices together.", 16)
    total_tokens: int = doc("Both.", 18)

    @classmethod
    def of(cls, read: int, written: int) -> Self:
        return cls(prompt_tokens=read, completion_tokens=written, total_tokens=read + written)

    @classmethod
    def of_results(cls, results: Sequence[GenerationResult]) -> Self:
        usages = [result.usage for result in results]
        return cls.of(sum(usage.read_tokens for usage in usages), sum(usage.new_tokens for usage in usages))


class CompletionAnswer(Answer):
    """All choices."""

    id: str = doc('"cmpl-" and the id of the request, as in the header X-Request-Id.', "cmpl-5f0c0f7b")
    object: Literal["text_completion"] = doc('Always "text_completion".', "text_completion")
    created: int = doc("When it was answered, in seconds since 1970.", 1795324329)
    model: str = doc("Name of the model that wrote it.", "lyrics-zh")
    system_fingerprint: str = doc(
        "The model and how many times it was loaded since the start: with the same one, the same seed"
        " writes the same text; on GPUs, load may tip a near-tie.",
        "lyrics-zh@1",
    )
    choices: list[CompletionChoice] = doc("n for each prompt, in order.", [example_of(CompletionChoice)])
    usage: CompletionUsage = doc("What was read and written.", example_of(CompletionUsage))


class OpenAIModel(Answer):
    """One lyricist."""

    id: str = doc("Its name, for the field `model`.", "lyrics-zh")
    object: Literal["model"] = doc('Always "model".', "model", default="model")
    created: int = doc("When it was loaded, in seconds since 1970.", 1795324329)
    owned_by: Literal["parlance"] = doc('Always "parlance".', "parlance", default="parlance")
    max_model_len: int = doc("Most tokens of a prompt, and most that are written after it.", 1024)

    @classmethod
    def from_info(cls, info: ModelInfo) -> Self:
        return cls(id=info.name, created=int(info.loaded_at.timestamp()), max_model_len=info.max_new_tokens)


class OpenAIModels(Answer):
    """All of them."""

    object: Literal["list"] = doc('Always "list".', "list", default="list")
    data: list[OpenAIModel] = doc("The lyricists that are loaded.", [example_of(OpenAIModel)])


class OpenAIError(Answer):
    """What is wrong."""

    message: str = doc(
        "One sentence: what is wrong, where the limit is, and the way out.", '"n" is 17; this server takes at most 16.'
    )
    type: str = doc(
        '"invalid_request_error"; "server_error" from status 500 on; of status 429 the code.', "invalid_request_error"
    )
    param: str | None = doc("The field at fault, where there is one.", "n")
    code: str = doc("Stable name of the error, for programs.", "invalid_value")


class OpenAIErrorAnswer(Answer):
    """The body of every error under /v1."""

    error: OpenAIError = doc("What went wrong.", example_of(OpenAIError))

    @classmethod
    def from_error(cls, status: int, error: ErrorAnswer) -> Self:
        """https://platform.openai.com/docs/guides/error-codes. 429 has its code as type too, as OpenAI's have."""
        code = _CODES.get(error.code, error.code)
        kind = "server_error" if status >= 500 else code if status == 429 else "invalid_request_error"
        param = None if error.field is None else _FIELDS.get(error.field, error.field)
        return cls(error=OpenAIError(message=error.error, type=kind, param=param, code=code))
