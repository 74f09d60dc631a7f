"""The fields of the models, health and curves endpoints."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, model_validator

from app.api.field_types import doc, example_of
from app.api.shared_schemas import round_floats

SCORE_DECIMALS = 6


class FromAttributes(BaseModel):
    """Base of what is read from the engine's own results."""

    model_config = ConfigDict(from_attributes=True)


class Health(BaseModel):
    """The process answers."""

    status: Literal["ok"] = doc('Always "ok".', "ok", default="ok")


class Readiness(FromAttributes):
    """Whether requests can be answered, and what is less than whole."""

    ready: bool = doc("Whether at least one device can answer requests.", True)
    devices: dict[str, str] = doc(
        'State of each device: "ready", "starting", "restarting" or "stopped".', {"cpu": "ready"}
    )
    models: int = doc("Number of loaded models.", 2)
    problems: list[str] = doc(
        "One sentence for each checkpoint that was not loaded and each device that is down.",
        ["checkpoints/demo-de-en/model.safetensors does not match its checksum; the model was not loaded."],
    )


class LanguagePairAnswer(BaseModel):
    """One direction of a translator."""

    source: str = doc("Code, as POST /translate takes it.", "de")
    target: str = doc("Code, as POST /translate takes it.", "en")

    @model_validator(mode="before")
    @classmethod
    def _of_codes(cls, value: object) -> object:
        return dict(zip(("source", "target"), value, strict=True)) if isinstance(value, tuple) else value


class DemoAnswer(FromAttributes):
    """What a demo model knows, and how to get a model for real use."""

    summary: str = doc(
        "One sentence for people.", "It knows 412 German words in 60 sentence patterns, and copies other words."
    )
    words: int = doc("How many source words it was trained on; of a lyricist, characters.", 412)
    patterns: int = doc("How many sentence patterns it was trained on; of a lyricist, songs.", 60)
    examples: list[str] = doc("Texts to try.", ["Guten Morgen, ich wohne in Berlin."])
    way_out: str = doc("How to get a model for real use, with the command.", "make serve MODEL=de-en")


class ModelAnswer(FromAttributes):
    """One loaded checkpoint."""

    name: str = doc("Name to use in requests.", "demo-de-en")
    version: int = doc("Counts how often this name was loaded since the server's start; a reload makes it grow.", 1)
    kind: Literal["translator", "lyrics"] = doc("What it does.", "translator")
    architecture: str = doc("What network it is.", "transformer")
    parameters: int = doc("Number of weights.", 44_140_544)
    source_language: str | None = doc("Code; null for lyricists and multilingual translators.", "de")
    target_language: str | None = doc("Code; null for lyricists and multilingual translators.", "en")
    language_pairs: list[LanguagePairAnswer] = doc(
        "Every pair that a translator serves; one, unless it is multilingual.", [{"source": "de", "target": "en"}]
    )
    vocabulary: int = doc("Number of tokens it knows.", 8000)
    max_source_tokens: int | None = doc("Longest source it takes, in tokens; null where nothing limits it.", 256)
    max_new_tokens: int = doc("Most tokens it writes for one request.", 256)
    devices: list[str] = doc("Where it is loaded.", ["cpu"])
    precision: str | None = doc(
        "What it decodes in: fp32, bf16, fp16 or int8, with `native` behind it where the kernels of this"
        " project compute it; of devices that differ all, with commas. Looks inside are in fp32. Null while no device"
        " has it.",
        "int8 native",
    )
    precision_reason: str | None = doc(
        "Which backend computes it and why; for the kernels in C, whether a vocabulary shortlist shortens a step or why"
        " there is none. Null while no device has it.",
        "kernels in C, int8: it is exactly the network that our kernels compute; no vocabulary shortlist: an output"
        " matrix of 1,216 × 128 gains nothing from a shortlist",
    )
    licence: str | None = doc("As the model card in its folder (`README.md`) says; null where none does.", "cc-by-4.0")
    loaded_at: datetime = doc("When this version was read from its folder, in UTC.", "2026-11-22T05:12:09Z")
    scores: Annotated[dict[str, Any], AfterValidator(lambda scores: round_floats(scores, SCORE_DECIMALS))] = doc(
        "What it scored when it was trained, as its model card says.", {"BLEU": 39.1}
    )
    demo: DemoAnswer | None = doc("Of a demo model, what it knows; null for others.", None)


class ChangeAnswer(FromAttributes):
    """A model that was loaded, reloaded or unloaded."""

    model: ModelAnswer = doc(
        "The model as GET /models shows it; `devices` is empty when it was unloaded.",
        example_of(ModelAnswer, version=2),
    )
    seconds: Annotated[float, AfterValidator(lambda seconds: round(seconds, 3))] = doc("How long it took.", 0.31)


class ImportAnswer(FromAttributes):
    """An import of a model from the Hugging Face Hub."""

    id: int = doc("Number of the import, counted from the server's start.", 1)
    model: str = doc("As it was asked for.", "de-en")
    state: Literal["running", "done", "failed", "cancelled"] = doc('"done": it is loaded.', "running")
    stage: Literal["start", "look_up", "download", "verify", "convert", "load"] = doc(
        "What is being done, or was when it ended.", "download"
    )
    name: str | None = doc("Name to use in requests; null until it is known.", None)
    bytes: int = doc("Of this stage, so far; 0 where it is not counted in bytes.", 104_857_600)
    total: int = doc("Bytes of this stage; 0 where it is not counted in bytes.", 297_722_613)
    seconds: Annotated[float, AfterValidator(lambda seconds: round(seconds, 3))] = doc("Since the stage began.", 8.4)
    seconds_left: Annotated[float | None, AfterValidator(lambda left: left and round(left, 1))] = doc(
        "Of this stage, at its mean speed; null while it is not known.", 15.4
    )
    error: str | None = doc("Why it failed, in one sentence; null otherwise.", None)
    note: str | None = doc("What one should know of it, such as a second download; usually null.", None)


class CurveAnswer(FromAttributes):
    """One quantity over updates; the n-th members of its lists belong together."""

    name: Literal["loss", "valid_loss", "valid_bleu", "rate"] = doc(
        "As the run wrote it: of training, of held-out data (`valid_`), or the learning rate.", "loss"
    )
    what: str = doc("The same in words.", "training loss")
    unit: str | None = doc("Unit of the values; null for the learning rate.", "nats per token")
    updates: list[int] = doc("After how many steps of the optimizer, in ascending order.", [50, 100, 111])
    epochs: list[int | None] = doc("In which epoch, counted from 0; null where the run did not say.", [0, 0, 0])
    values: list[float | None] = doc(
        "To 6 digits; null for what was not a number or not finite.", [5.14067, 2.19661, 0.691843]
    )
    measured: int = doc("How many points there were before thinning.", 3)


class CurvesAnswer(FromAttributes):
    """How a model was trained."""

    model: str = doc("Which model.", "demo-de-en")
    curves: list[CurveAnswer] = doc(
        "Those that the run measured, in the order loss, valid_loss, valid_bleu, rate; may be empty.",
        [example_of(CurveAnswer)],
    )
    left_out: int = doc("Lines of the file that are neither a measurement nor an event, such as a torn one.", 0)
    reason: str | None = doc(
        "Why there is no curve, and what to do; null where there is one.",
        "demo-de-en has no metrics.jsonl, which a training run leaves in its folder; put it there.",
    )
