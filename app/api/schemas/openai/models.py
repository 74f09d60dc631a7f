"""Models as OpenAI's clients list them."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

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


class OpenAIModels(BaseModel):
    """All of them."""

    object: Literal["list"] = Field(default="list", description='Always "list".', examples=["list"])
    data: list[OpenAIModel] = Field(description="The lyricists that are loaded.", examples=[[_MODEL]])
