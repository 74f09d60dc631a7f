"""From what was written to the fields of an answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from app.api.expectations import nats
from app.engine.jobs import Continuation, Generation
from app.engine.token_texts import WrittenToken

LEAST_NATS = -9999.0  # what OpenAI's clients are told of a token that cannot come, since JSON has no infinity


@dataclass(frozen=True, slots=True)
class ToldToken:
    """A token of an answer's text; both None of one that nothing comes before. top: by their texts."""

    text: str
    log_probability: float | None
    top: dict[str, float] | None


@dataclass(frozen=True, slots=True)
class Prompt:
    """What is told of a prompt: `text` and `tokens` where it is echoed ("" and none else); how many tokens it has."""

    text: str = ""
    tokens: Sequence[ToldToken] = ()
    count: int = 0


NOT_TOLD = Prompt()


def told(token: WrittenToken) -> ToldToken:
    return ToldToken(
        token.text,
        _nats(token.log_probability),
        likeliest([(text, each) for _, text, each in token.top], token.text, token.log_probability),
    )


def likeliest(top: Iterable[tuple[str, float]], text: str, log_probability: float) -> dict[str, float]:
    """The likeliest tokens of one place by their texts, and the one that came; of those that read alike the best."""
    found: dict[str, float] = {}
    for each, value in top:
        found.setdefault(each, _nats(value))
    found.setdefault(text, _nats(log_probability))
    return found


def logprobs(tokens: Iterable[ToldToken], offset: int = 0) -> dict[str, Any]:
    """offset: of the first token, in the text of its choice."""
    fields: dict[str, list[Any]] = {"text_offset": [], "token_logprobs": [], "tokens": [], "top_logprobs": []}
    for each in tokens:
        fields["text_offset"].append(offset)
        fields["token_logprobs"].append(each.log_probability)
        fields["tokens"].append(each.text)
        fields["top_logprobs"].append(each.top)
        offset += len(each.text)
    return fields


def choices(
    prompts: Sequence[Prompt], generations: Sequence[Generation], *, with_logprobs: bool
) -> list[dict[str, Any]]:
    """Those of each prompt in turn."""
    return [
        {
            "index": index,
            "text": prompt.text + each.text,
            "logprobs": logprobs([*prompt.tokens, *map(told, each.tokens or ())]) if with_logprobs else None,
            **ended(each),
        }
        for index, (prompt, each) in enumerate(
            (prompt, each)
            for prompt, generation in zip(prompts, generations, strict=True)
            for each in generation.continuations
        )
    ]


def ended(each: Continuation) -> dict[str, Any]:
    """Why. Whatever has gone round in circles did so up to its limit, or stopped; OpenAI's clients know no third."""
    circling = each.finish_reason == "repetition"
    return {
        "finish_reason": "length" if circling else each.finish_reason,
        "stop_reason": "repetition" if circling else None,
        "seed": each.seed if each.seed >= 0 else None,
    }


def usage(generations: Sequence[Generation]) -> dict[str, int]:
    return counted(
        sum(each.usage.read_tokens for each in generations), sum(each.usage.new_tokens for each in generations)
    )


def counted(prompt_tokens: int, completion_tokens: int) -> dict[str, int]:
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
    }


def _nats(value: float) -> float:
    return nats(max(value, LEAST_NATS))
