"""The fields of GET /models and of what changes it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class ModelAnswer(BaseModel):
    """One loaded checkpoint."""

    model_config = ConfigDict(from_attributes=True)

    name: str = Field(description="Name to use in requests.", examples=["tiny-de-en"])
    version: int = Field(
        description="Counts how often this name was loaded since the server's start; a reload makes it grow.",
        examples=[1],
    )
    kind: Literal["translator", "lyrics"] = Field(description="What it does.", examples=["translator"])
    architecture: str = Field(description="What network it is.", examples=["transformer"])
    parameters: int = Field(description="Number of weights.", examples=[44_140_544])
    source_language: str | None = Field(description="Code; null for lyricists.", examples=["de"])
    target_language: str | None = Field(description="Code; null for lyricists.", examples=["en"])
    vocabulary: int = Field(description="Number of tokens it knows.", examples=[8000])
    max_source_tokens: int | None = Field(
        description="Longest source it takes, in tokens; null where nothing limits it.", examples=[256]
    )
    max_new_tokens: int = Field(description="Most tokens it writes for one request.", examples=[256])
    devices: list[str] = Field(description="Where it is loaded.", examples=[["cpu"]])
    scores: dict[str, Any] = Field(
        description="What it scored when it was trained, as its model card says.", examples=[{"BLEU": 39.1}]
    )


class ChangeAnswer(BaseModel):
    """A model that was loaded, reloaded or unloaded."""

    model_config = ConfigDict(from_attributes=True)

    model: ModelAnswer = Field(
        description="The model as GET /models shows it; `devices` is empty when it was unloaded.",
        examples=[
            {
                "name": "tiny-de-en",
                "version": 2,
                "kind": "translator",
                "architecture": "transformer",
                "parameters": 44_140_544,
                "source_language": "de",
                "target_language": "en",
                "vocabulary": 8000,
                "max_source_tokens": 256,
                "max_new_tokens": 256,
                "devices": ["cpu"],
                "scores": {"BLEU": 39.1},
            }
        ],
    )
    seconds: float = Field(description="How long it took.", examples=[0.31])
