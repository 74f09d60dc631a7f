"""Errors as OpenAI's clients read them, and the route class that answers with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, Field

from app.api.route import ApiRoute


class OpenAIError(BaseModel):
    """What is wrong."""

    message: str = Field(
        description="One sentence: what is wrong, where the limit is, and the way out.",
        examples=['"n" is 17; this server takes at most 16.'],
    )
    type: str = Field(
        description='"invalid_request_error"; "server_error" from status 500 on; of status 429 the code.',
        examples=["invalid_request_error"],
    )
    param: str | None = Field(description="The field at fault, where there is one.", examples=["n"])
    code: str = Field(description="Stable name of the error, for programs.", examples=["invalid_value"])


class OpenAIErrorAnswer(BaseModel):
    """The body of every error under /v1."""

    error: OpenAIError = Field(
        description="What went wrong.",
        examples=[
            {
                "message": '"n" is 17; this server takes at most 16.',
                "type": "invalid_request_error",
                "param": "n",
                "code": "invalid_value",
            }
        ],
    )


# Ours on the left; a code that is not here stays as it is.
_CODES: Mapping[str, str] = {
    "invalid_request": "invalid_value",
    "text_too_long": "context_length_exceeded",
    "unknown_model": "model_not_found",
    "overloaded": "rate_limit_exceeded",
    "rate_limited": "rate_limit_exceeded",
    "quota_exceeded": "insufficient_quota",
    "key_missing": "invalid_api_key",
    "key_wrong": "invalid_api_key",
}
_FIELDS: Mapping[str, str] = {"max_new_tokens": "max_tokens", "text": "prompt", "top_logprobs": "logprobs"}


def openai_error(status: int, body: dict[str, Any]) -> dict[str, Any]:
    """https://platform.openai.com/docs/guides/error-codes. Limits have their code as type too, as OpenAI's have."""
    code = _CODES.get(body["code"], body["code"])
    kind = "server_error" if status >= 500 else code if status == 429 else "invalid_request_error"
    field = body["field"]
    return {"error": {"message": body["error"], "type": kind, "param": _FIELDS.get(field, field), "code": code}}


class OpenAIRoute(ApiRoute):
    """Invalid input is 400, a text that is too long as well; a key that is missing or wrong is 401."""

    invalid_status = 400
    too_long_status = 400
    missing_key_status = 401
    wrong_key_status = 401
    error_form = staticmethod(openai_error)

    def texts_of(self, body: Any) -> Iterator[str]:
        """Each prompt; one that is given as tokens costs a character for each."""
        for prompt in getattr(body, "prompts", ()):
            yield prompt if isinstance(prompt, str) else " " * len(prompt)


def documented(**meanings: str) -> dict[int | str, dict[str, object]]:
    """OpenAPI responses for statuses given as `s404="..."`; "default" stands for all others."""
    texts: dict[int | str, str] = {int(status[1:]): text for status, text in meanings.items()}
    texts["default"] = "Any other error, in the same form."
    return {status: {"model": OpenAIErrorAnswer, "description": text} for status, text in texts.items()}
