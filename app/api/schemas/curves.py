"""The fields of GET /models/{name}/curves."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


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
