"""The fields of the models, health and curves endpoints."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

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


class CurveAnswer(BaseModel):
    """One quantity over updates; the n-th members of its lists belong together."""

    model_config = ConfigDict(from_attributes=True)

    name: Literal["loss", "valid_loss", "valid_bleu", "rate"] = Field(
        description="As the run wrote it: of training, of held-out data (`valid_`), or the learning rate.",
        examples=["loss"],
    )
    what: str = Field(description="The same in words.", examples=["training loss"])
    unit: str | None = Field(description="Unit of the values; null for the learning rate.", examples=["nats per token"])
    updates: list[int] = Field(
        description="After how many steps of the optimizer, in ascending order.", examples=[[50, 100, 111]]
    )
    epochs: list[int | None] = Field(
        description="In which epoch, counted from 0; null where the run did not say.", examples=[[0, 0, 0]]
    )
    values: list[float | None] = Field(
        description="To 6 digits; null for what was not a number or not finite.",
        examples=[[5.14067, 2.19661, 0.691843]],
    )
    measured: int = Field(description="How many points there were before thinning.", examples=[3])


_LOSS = CurveAnswer(
    name="loss",
    what="training loss",
    unit="nats per token",
    updates=[50, 100, 111],
    epochs=[0, 0, 0],
    values=[5.14067, 2.19661, 0.691843],
    measured=3,
)


class CurvesAnswer(BaseModel):
    """How a model was trained."""

    model_config = ConfigDict(from_attributes=True)

    model: str = Field(description="Which model.", examples=["tiny-de-en"])
    curves: list[CurveAnswer] = Field(
        description="Those that the run measured, in the order loss, valid_loss, valid_bleu, rate; may be empty.",
        examples=[[_LOSS.model_dump()]],
    )
    left_out: int = Field(description="Lines of the file that are no measurement, such as a torn one.", examples=[0])
    reason: str | None = Field(
        description="Why there is no curve, and what to do; null where there is one.",
        examples=["tiny-de-en has no metrics.jsonl, which a training run leaves in its folder; put it there."],
    )
