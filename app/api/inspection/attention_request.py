"""The request of POST /attention: sentences, kinds of attention, layers, heads, rows."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, field_validator

from app.api.field_types import (
    EncodableText,
    ModelName,
    RequestFields,
    check_not_blank,
    describe_value,
    doc,
    field_error,
)
from models.decoding.options import DecodingOptions
from models.inspection.selection import AttentionKind

_MAX_INDICES, LARGEST_INDEX = 256, 9999
KINDS: tuple[AttentionKind, ...] = ("encoder", "decoder", "cross")
PARTS = ("alignment", "rollout", "stats", "steps")
Part = Literal["alignment", "rollout", "stats", "steps"]


def _check_indices(value: object) -> object:
    """Said in one sentence here: pydantic would report on each branch of the union."""
    if value == "all" and isinstance(value, str):
        return value
    takes = 'it takes "all" or a list of whole numbers, such as [0, 1] or [-1] for the last.'
    if not isinstance(value, list):
        raise field_error(f"is {describe_value(value)}; {takes}")
    if not 1 <= len(value) <= _MAX_INDICES:
        raise field_error(f"has {len(value)} numbers; it takes 1 to {_MAX_INDICES}.")
    for index in value:
        if type(index) is not int or abs(index) > LARGEST_INDEX:
            raise field_error(f"holds {describe_value(index)}; {takes}")
    return value


def _one_of(names: tuple[str, ...], *, empty: bool) -> BeforeValidator:
    shown = ", ".join(f'"{name}"' for name in names[:-1]) + f' and "{names[-1]}"'

    def checked(value: object) -> object:
        takes = f"it takes a list of {shown}."
        if not isinstance(value, list) or not (value or empty):
            raise field_error(f"is {'empty' if value == [] else describe_value(value)}; {takes}")
        for name in value:
            if name not in names:
                raise field_error(f"holds {describe_value(name)}; {takes}")
        return list(dict.fromkeys(value))

    return BeforeValidator(checked)


Indices = Annotated[Literal["all"] | list[int], BeforeValidator(_check_indices)]
Kinds = Annotated[list[AttentionKind], _one_of(KINDS, empty=False)]
Parts = Annotated[list[Part], _one_of(PARTS, empty=True)]
Index = Annotated[int, Field(ge=-LARGEST_INDEX, le=LARGEST_INDEX)]


class InspectionFields(RequestFields):
    """Base of the bodies that inspect a model."""

    starts_work: ClassVar[bool] = False
    charged_fields: ClassVar[tuple[str, ...]] = ("source", "target", "text")


class HeadChoice(RequestFields):
    """One attention head. Numbers count from 0; negative ones from the end."""

    kind: AttentionKind = doc('"encoder", "decoder" or "cross".', "cross")
    layer: Index = doc("Its layer; -1 is the last.", -1)
    head: Index = doc("Its number in the layer; -1 is the last.", 0)


class RowChoice(HeadChoice):
    """One query of one head."""

    row: Index = doc("Which query: a source token, or a step of the decoder.", 0)


class Reduction(RequestFields):
    """Fewer numbers: what is taken of the chosen heads and layers."""

    heads: Literal["none", "mean", "max"] = doc(
        '"mean" of the chosen heads, or their "max", whose rows do not sum to 1.', "mean", default="none"
    )
    layers: Literal["none", "mean"] = doc('"mean" of the chosen layers.', "none", default="none")


class Search(RequestFields):
    """How the model's own translation is looked for."""

    beam_size: int | None = doc("Beam width; null: the server's.", 4, default=None, ge=1, le=64)
    length_penalty: float | None = doc(
        "Scores are divided by length to this power; null: the server's.",
        1.0,
        default=None,
        ge=-10,
        le=10,
        allow_inf_nan=False,
    )
    max_new_tokens: int | None = doc("Tokens at most; null: twice the source and 20.", 100, default=None, ge=1)

    @property
    def decoding(self) -> DecodingOptions:
        return DecodingOptions(
            beam_size=self.beam_size, length_penalty=self.length_penalty, max_new_tokens=self.max_new_tokens
        )


MOST_MASKED, MOST_SOURCE_IDS = 16, 4096


class AttentionRequest(InspectionFields):
    """Which attention of which sentence."""

    source: Annotated[EncodableText, AfterValidator(check_not_blank)] | None = doc(
        "The sentence that the encoder reads.", "ich möchte ein bier", default=None
    )
    source_ids: list[Annotated[int, Field(ge=0)]] | None = doc(
        "Instead of `source`: the ids of its tokens, without the end token that the model adds.",
        [17, 9],
        default=None,
        min_length=1,
        max_length=MOST_SOURCE_IDS,
    )
    target: EncodableText | None = doc(
        "The sentence that the decoder is made to write; null lets it write its own translation.",
        "i want a beer",
        default=None,
    )
    prefix: EncodableText | None = doc(
        "What the model's own translation is made to begin with; it goes on from there.", "i would", default=None
    )
    decode: Search | None = doc(
        "How its own translation is looked for.",
        {"beam_size": 4, "length_penalty": 1.0, "max_new_tokens": 100},
        default=None,
    )
    kinds: Kinds = doc(
        "Attention within the encoder, within the decoder, or from the decoder to the encoder.",
        ["cross"],
        default=list(KINDS),
    )
    layers: Indices = doc('"all", or the layers to return, counted from 0; -1 is the last.', [-1], default="all")
    heads: Indices = doc('"all", or the heads to return, counted from 0; -1 is the last.', "all", default="all")
    reduce: Reduction = doc(
        "Means instead of every head or layer.", {"heads": "mean", "layers": "none"}, default=Reduction()
    )
    include: Parts = doc(
        "More to know: `alignment` of words, `rollout` over all layers, `stats` of each head, `steps` of the decoder.",
        ["alignment", "stats", "steps"],
        default=[],
    )
    top_k: int = doc("With `steps`: so many likeliest tokens of each step.", 3, default=0, ge=0, le=10)
    mask_heads: list[HeadChoice] = doc(
        "Heads that are silenced: how the log-probability changes, and what the model writes without them."
        " The maps are those of the whole model.",
        [{"kind": "cross", "layer": -1, "head": 0}],
        default=[],
        max_length=MOST_MASKED,
    )
    qk: RowChoice | None = doc(
        "One row of weights worked out: scores, mask, softmax.",
        {"kind": "cross", "layer": -1, "head": 0, "row": 1},
        default=None,
    )
    encoding: Literal["json", "u8", "u16", "f32"] = doc(
        "Numbers in JSON, or base64 of little-endian bytes in C order; times `scale` they are weights.",
        "u8",
        default="json",
    )
    decimals: int = doc("Of weights in JSON, and of a rollout.", 4, default=8, ge=3, le=8)
    model: ModelName | None = doc(
        "Name of the translator (GET /models); null takes the only one.", "tiny-de-en", default=None
    )

    @field_validator("target", "prefix")
    @classmethod
    def _written_or_null(cls, value: str | None) -> str | None:
        if value is not None and not value.strip():
            raise field_error("is empty; leave it out to see the model's own translation.")
        return value
