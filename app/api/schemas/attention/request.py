"""What POST /attention takes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator

from app.api.fields import ModelName, SoundText, filled, refusal
from app.api.schemas.attention.choices import KINDS, HeadChoice, Indices, Kinds, Parts, Reduction, RowChoice, Search

MOST_MASKED, MOST_SOURCE_IDS = 16, 4096


class AttentionRequest(BaseModel):
    """Which attention of which sentence."""

    model_config = ConfigDict(strict=True)

    source: Annotated[SoundText, AfterValidator(filled)] | None = Field(
        default=None, description="The sentence that the encoder reads.", examples=["ich möchte ein bier"]
    )
    source_ids: list[Annotated[int, Field(ge=0)]] | None = Field(
        default=None,
        min_length=1,
        max_length=MOST_SOURCE_IDS,
        description="Instead of `source`: the ids of its tokens, without the end token that the model adds.",
        examples=[[17, 9]],
    )
    target: SoundText | None = Field(
        default=None,
        description="The sentence that the decoder is made to write; null lets it write its own translation.",
        examples=["i want a beer"],
    )
    prefix: SoundText | None = Field(
        default=None,
        description="What the model's own translation is made to begin with; it goes on from there.",
        examples=["i would"],
    )
    decode: Search | None = Field(
        default=None,
        description="How its own translation is looked for.",
        examples=[{"beam_size": 4, "length_penalty": 1.0, "max_new_tokens": 100}],
    )
    kinds: Kinds = Field(
        default=list(KINDS),
        description="Attention within the encoder, within the decoder, or from the decoder to the encoder.",
        examples=[["cross"]],
    )
    layers: Indices = Field(
        default="all",
        description='"all", or the layers to return, counted from 0; -1 is the last.',
        examples=[[-1]],
    )
    heads: Indices = Field(
        default="all",
        description='"all", or the heads to return, counted from 0; -1 is the last.',
        examples=["all"],
    )
    reduce: Reduction = Field(
        default=Reduction(),
        description="Means instead of every head or layer.",
        examples=[{"heads": "mean", "layers": "none"}],
    )
    include: Parts = Field(
        default=[],
        description="More to know: `alignment` of words, `rollout` over all layers, `stats` of each head, `steps` of"
        " the decoder.",
        examples=[["alignment", "stats", "steps"]],
    )
    top_k: int = Field(
        default=0, ge=0, le=10, description="With `steps`: so many likeliest tokens of each step.", examples=[3]
    )
    mask_heads: list[HeadChoice] = Field(
        default=[],
        max_length=MOST_MASKED,
        description="Heads that are silenced: how the log-probability changes, and what the model writes without them."
        " The maps are those of the whole model.",
        examples=[[{"kind": "cross", "layer": -1, "head": 0}]],
    )
    qk: RowChoice | None = Field(
        default=None,
        description="One row of weights worked out: scores, mask, softmax.",
        examples=[{"kind": "cross", "layer": -1, "head": 0, "row": 1}],
    )
    encoding: Literal["json", "u8", "u16", "f32"] = Field(
        default="json",
        description="Numbers in JSON, or base64 of little-endian bytes in C order; times `scale` they are weights.",
        examples=["u8"],
    )
    decimals: int = Field(default=8, ge=3, le=8, description="Of weights in JSON, and of a rollout.", examples=[4])
    model: ModelName | None = Field(
        default=None,
        description="Name of the translator (GET /models); null takes the only one.",
        examples=["tiny-de-en"],
    )

    @field_validator("target", "prefix")
    @classmethod
    def _written_or_null(cls, value: str | None) -> str | None:
        if value is not None and not value.strip():
            raise refusal("is empty; leave it out to see the model's own translation.")
        return value
