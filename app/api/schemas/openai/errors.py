"""An error as OpenAI's clients read it."""

from __future__ import annotations

from pydantic import BaseModel, Field


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
