"""The fields of GET /models and of what changes it."""

from __future__ import annotations

from datetime import datetime
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
    precision: str | None = Field(
        description="What it decodes in: fp32, bf16, fp16 or int8, with `native` behind it where the kernels of this"
        " project compute it; of devices that differ all, with commas. Looks inside are in fp32. Null while no device"
        " has it.",
        examples=["int8 native"],
    )
    licence: str | None = Field(
        description="As the model card in its folder (`README.md`) says; null where none does.", examples=["cc-by-4.0"]
    )
    loaded_at: datetime = Field(
        description="When this version was read from its folder, in UTC.", examples=["2026-11-22T05:12:09Z"]
    )
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
                "precision": "int8 native",
                "licence": "cc-by-4.0",
                "loaded_at": "2026-11-22T05:12:09Z",
                "scores": {"BLEU": 39.1},
            }
        ],
    )
    seconds: float = Field(description="How long it took.", examples=[0.31])
