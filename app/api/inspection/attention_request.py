"""The request of POST /attention: sentences, kinds of attention, layers, heads, rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import BeforeValidator, Field

from app.api.request_fields import (
    EncodableText,
    Examples,
    ModelName,
    NonBlankText,
    OwnRequestFields,
    describe_value,
    doc,
    field_error,
    not_empty,
    optional,
)
from app.engine.interface import AttentionQuery
from models.decoding.options import WIDEST_BEAM, DecodingOptions
from models.inspection.selection import KINDS, AttentionKind, AttentionSelection, Head, Row

_MAX_NUMBERS, LARGEST_INDEX = 256, 9999
BINARY_FACTOR = 4  # times as many weights fit into an answer of bytes as into one of digits
Part = Literal["alignment", "rollout", "stats", "steps"]


def list_of(
    takes: str,
    *,
    names: tuple[str, ...] = (),
    largest: int = 0,
    instead: Callable[[object], bool] = lambda value: False,
    empty: bool = False,
) -> BeforeValidator:
    """A list of some of the names, or of 1 to 256 numbers from -largest to largest. instead: of values in its place."""

    def check(value: object) -> object:
        if instead(value):
            return value
        if not isinstance(value, list):
            raise field_error(f"is {describe_value(value)}; {takes}")
        if largest and not 1 <= len(value) <= _MAX_NUMBERS:
            raise field_error(f"has {len(value)} numbers; it takes 1 to {_MAX_NUMBERS}.")
        if not (value or empty):
            raise field_error(f"is empty; {takes}")
        for item in value:
            if item not in names if names else type(item) is not int or abs(item) > largest:
                raise field_error(f"holds {describe_value(item)}; {takes}")
        return list(dict.fromkeys(value)) if names else value

    return BeforeValidator(check)


def is_all(value: object) -> bool:
    return value == "all"


_INDICES = 'it takes "all" or a list of whole numbers, such as [0, 1] or [-1] for the last.'
_KINDS = 'it takes a list of "encoder", "decoder" and "cross".'
_PARTS = 'it takes a list of "alignment", "rollout", "stats" and "steps".'
TARGET_LANGUAGE = "Language code of the translation, where the source language has several (GET /models)."
CHOSEN_MODEL = (
    "Name of the translator (GET /models); without it the first one of the source's language, which is detected, is"
    " taken."
)
Indices = Annotated[Literal["all"] | list[int], list_of(_INDICES, largest=LARGEST_INDEX, instead=is_all)]
Kinds = Annotated[list[AttentionKind], list_of(_KINDS, names=KINDS)]
Parts = Annotated[list[Part], list_of(_PARTS, names=get_args(Part), empty=True)]
Index = Annotated[int, Field(ge=-LARGEST_INDEX, le=LARGEST_INDEX)]
TargetLanguage = Annotated[EncodableText, Field(min_length=1, max_length=35)]
GivenTarget = Annotated[EncodableText, not_empty("leave it out to see the model's own translation.", blank=True)]


class InspectionFields(OwnRequestFields):
    """Base of the bodies that inspect a model."""

    starts_work: ClassVar[bool] = False
    charged_fields: ClassVar[tuple[str, ...]] = ("source", "target", "text")


class HeadChoice(OwnRequestFields):
    """One attention head. Numbers count from 0; negative ones from the end."""

    kind: AttentionKind = doc('"encoder", "decoder" or "cross".', "cross")
    layer: Index = doc("Its layer; -1 is the last.", -1)
    head: Index = doc("Its number in the layer; -1 is the last.", 0)


class RowChoice(HeadChoice):
    """One query of one head."""

    row: Index = doc("Which query: a source token, or a step of the decoder.", 0)


class Reduction(OwnRequestFields):
    """Fewer numbers: what is taken of the chosen heads and layers."""

    heads: Literal["none", "mean", "max"] = doc(
        '"mean" of the chosen heads, or their "max", whose rows do not sum to 1.', "mean", default="none"
    )
    layers: Literal["none", "mean"] = doc('"mean" of the chosen layers.', "none", default="none")


class Search(OwnRequestFields):
    """How the model's own translation is looked for."""

    beam_size: int | None = optional("Beam width; null: the server's.", 4, ge=1, le=WIDEST_BEAM)
    length_penalty: float | None = optional(
        "Scores are divided by length to this power; null: the server's.", 1.0, ge=-10, le=10, allow_inf_nan=False
    )
    max_new_tokens: int | None = optional("Tokens at most; null: twice the source and 20.", 100, ge=1)


class AttentionRequest(InspectionFields):
    """Which attention of which sentence."""

    examples: ClassVar[Examples] = {
        "Cross-attention of the last layer": {"source": "ich möchte ein bier", "kinds": ["cross"], "layers": [-1]},
        "A given translation": {"source": "ich möchte ein bier", "target": "i want a beer", "kinds": ["cross"]},
        "Alignment and statistics": {
            "source": "ich möchte ein bier",
            "kinds": ["cross"],
            "reduce": {"heads": "mean", "layers": "mean"},
            "include": ["alignment", "stats", "steps"],
            "top_k": 3,
        },
        "Without a head": {
            "source": "ich möchte ein bier",
            "kinds": ["cross"],
            "layers": [-1],
            "mask_heads": [{"kind": "cross", "layer": -1, "head": 0}],
        },
        "As bytes": {"source": "ich möchte ein bier", "encoding": "u8"},
    }

    source: NonBlankText | None = optional("The sentence that the encoder reads.", "ich möchte ein bier")
    source_ids: list[Annotated[int, Field(ge=0)]] | None = optional(
        "Instead of `source`: the ids of its tokens, without the end token that the model adds.",
        [17, 9],
        min_length=1,
        max_length=4096,
    )
    target: GivenTarget | None = optional(
        "The sentence that the decoder is made to write; null lets it write its own translation.", "i want a beer"
    )
    prefix: GivenTarget | None = optional(
        "What the model's own translation is made to begin with; it goes on from there.", "i would"
    )
    decode: Search | None = optional(
        "How its own translation is looked for.", {"beam_size": 4, "length_penalty": 1.0, "max_new_tokens": 100}
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
        max_length=16,
    )
    qk: RowChoice | None = optional(
        "One row of weights worked out: scores, mask, softmax.", {"kind": "cross", "layer": -1, "head": 0, "row": 1}
    )
    encoding: Literal["json", "u8", "u16", "f32"] = doc(
        "Numbers in JSON, or base64 of little-endian bytes in C order; times `scale` they are weights.",
        "u8",
        default="json",
    )
    decimals: int = doc("Of weights in JSON, and of a rollout.", 4, default=8, ge=3, le=8)
    model: ModelName | None = optional(CHOSEN_MODEL, "everyday")
    target_language: TargetLanguage | None = optional(TARGET_LANGUAGE, "en")

    def query(self, limit: int, *, as_text: bool) -> AttentionQuery:
        """limit: of numbers as digits. as_text: whether the answer is a text, all of digits."""
        digits = as_text or self.encoding == "json"
        return AttentionQuery(
            source=self.source,
            target=self.target,
            model=self.model,
            selection=AttentionSelection(
                kinds=tuple(self.kinds),
                layers=None if self.layers == "all" else tuple(self.layers),
                heads=None if self.heads == "all" else tuple(self.heads),
                reduce_heads=self.reduce.heads,
                reduce_layers=self.reduce.layers,
                include=tuple(self.include),
                top_k=self.top_k,
                masked=tuple(Head(**dict(head)) for head in self.mask_heads),
                row=None if self.qk is None else Row(**dict(self.qk)),
            ),
            max_values=limit if digits else limit * BINARY_FACTOR,
            max_bytes=0 if as_text else limit * BINARY_FACTOR,
            max_digits=limit,
            source_ids=None if self.source_ids is None else tuple(self.source_ids),
            prefix=self.prefix,
            target_language=self.target_language,
            decoding=DecodingOptions() if self.decode is None else DecodingOptions(**dict(self.decode)),
        )
