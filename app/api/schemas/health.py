"""The fields of the health answers."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Health(BaseModel):
    """It is well."""

    status: Literal["ok"] = Field(default="ok", description='Always "ok".', examples=["ok"])


class Readiness(BaseModel):
    """Whether requests can be answered, and what is less than whole."""

    model_config = ConfigDict(from_attributes=True)

    ready: bool = Field(description="Whether at least one device can answer requests.", examples=[True])
    devices: dict[str, str] = Field(
        description='State of each device: "ready", "starting", "restarting" or "stopped".',
        examples=[{"cpu": "ready"}],
    )
    models: int = Field(description="Number of loaded models.", examples=[2])
    problems: list[str] = Field(
        description="One sentence for each checkpoint that was not loaded and each device that is down.",
        examples=[["checkpoints/tiny-de-en/model.safetensors does not match its checksum; the model was not loaded."]],
    )
