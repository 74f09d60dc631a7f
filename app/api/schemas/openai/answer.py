"""The answer of POST /v1/completions. It is written as plain fields (`app.api.openai.choices`): these models document
it, and the tests hold the one against the other."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


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


class CompletionUsage(BaseModel):
    """Tokens read and written."""

    prompt_tokens: int = Field(description="Tokens of the prompts.", examples=[2])
    completion_tokens: int = Field(description="Tokens written, of all choices together.", examples=[16])
    total_tokens: int = Field(description="Both.", examples=[18])


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
