"""Errors as OpenAI's clients read them, and the route class that answers with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

from pydantic import BaseModel

from app.access.authorization import KeyWrong
from app.api.errors import ErrorAnswer, Statuses
from app.api.field_types import doc
from app.api.route import ApiRoute
from app.errors import InvalidRequest, TextTooLong

# Our codes and OpenAI's; any other stays as it is.
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


class OpenAIError(BaseModel):
    """What is wrong."""

    message: str = doc(
        "One sentence: what is wrong, where the limit is, and the way out.", '"n" is 17; this server takes at most 16.'
    )
    type: str = doc(
        '"invalid_request_error"; "server_error" from status 500 on; of status 429 the code.', "invalid_request_error"
    )
    param: str | None = doc("The field at fault, where there is one.", "n")
    code: str = doc("Stable name of the error, for programs.", "invalid_value")


class OpenAIErrorAnswer(BaseModel):
    """The body of every error under /v1."""

    error: OpenAIError = doc(
        "What went wrong.",
        {
            "message": '"n" is 17; this server takes at most 16.',
            "type": "invalid_request_error",
            "param": "n",
            "code": "invalid_value",
        },
    )

    @classmethod
    def from_error(cls, status: int, error: ErrorAnswer) -> Self:
        """https://platform.openai.com/docs/guides/error-codes. 429 has its code as type too, as OpenAI's have."""
        code = _CODES.get(error.code, error.code)
        kind = "server_error" if status >= 500 else code if status == 429 else "invalid_request_error"
        param = None if error.field is None else _FIELDS.get(error.field, error.field)
        return cls(error=OpenAIError(message=error.error, type=kind, param=param, code=code))


class OpenAIRoute(ApiRoute):
    """Any invalid input is 400; a missing or wrong key is 401."""

    statuses: ClassVar[Statuses] = {InvalidRequest: 400, TextTooLong: 400, KeyWrong: 401}
    error_schema = OpenAIErrorAnswer
