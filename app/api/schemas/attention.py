"""The fields of POST /attention."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from app.api.fields import ModelName, SoundText, filled, refusal
from app.api.wording import value_shown
from app.engine.jobs import AttentionKind

Axis = Literal["layer", "head", "query", "key"]
AXES: list[Axis] = ["layer", "head", "query", "key"]

_KINDS = ("encoder", "decoder", "cross")
_MAX_INDICES, _LARGEST_INDEX = 256, 9999


def _all_or_indices(value: object) -> object:
    """Said in one sentence here: pydantic would report on each branch of the union."""
    if value == "all" and isinstance(value, str):
        return value
    takes = 'it takes "all" or a list of whole numbers, such as [0, 1] or [-1] for the last.'
    if not isinstance(value, list):
        raise refusal(f"is {value_shown(value)}; {takes}")
    if not 1 <= len(value) <= _MAX_INDICES:
        raise refusal(f"has {len(value)} numbers; it takes 1 to {_MAX_INDICES}.")
    for index in value:
        if type(index) is not int or abs(index) > _LARGEST_INDEX:
            raise refusal(f"holds {value_shown(index)}; {takes}")
    return value


def _known_kinds(value: object) -> object:
    takes = 'it takes a list of "encoder", "decoder" and "cross".'
    if not isinstance(value, list) or not value:
        raise refusal(f"is {'empty' if value == [] else value_shown(value)}; {takes}")
    for kind in value:
        if kind not in _KINDS:
            raise refusal(f"holds {value_shown(kind)}; {takes}")
    return list(dict.fromkeys(value))


Indices = Annotated[Literal["all"] | list[int], BeforeValidator(_all_or_indices)]


class AttentionRequest(BaseModel):
    """Which attention of which sentence."""

    model_config = ConfigDict(strict=True)

    source: Annotated[SoundText, AfterValidator(filled)] = Field(
        description="The sentence that the encoder reads.", examples=["ich möchte ein bier"]
    )
    target: SoundText | None = Field(
        default=None,
        description="The sentence that the decoder is made to write; null lets it write its own translation.",
        examples=["i want a beer"],
    )
    kinds: Annotated[list[AttentionKind], BeforeValidator(_known_kinds)] = Field(
        default=["encoder", "decoder", "cross"],
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
    model: ModelName | None = Field(
        default=None,
        description="Name of the translator (GET /models); null takes the first.",
        examples=["tiny-de-en"],
    )

    @field_validator("target")
    @classmethod
    def _written_or_null(cls, value: str | None) -> str | None:
        if value is not None and not value.strip():
            raise refusal("is empty; leave it out to see the model's own translation.")
        return value


class Token(BaseModel):
    """One token of the model's vocabulary."""

    id: int = Field(description="Number in the vocabulary.", examples=[17])
    piece: str = Field(description="How the vocabulary writes it.", examples=["▁bier"])
    text: str = Field(description="How it reads.", examples=["bier"])
    start: int | None = Field(
        description="First character (code point) in the text, from 0; null for special tokens.",
        examples=[15],
    )
    end: int | None = Field(
        description="Character after the last; text[start:end] is the token. Null for special tokens.",
        examples=[19],
    )
    special: bool = Field(description="Whether it stands for no text (begin, end, unknown).", examples=[False])


class Source(BaseModel):
    """What the encoder read."""

    text: str = Field(description="The text that the offsets count in.", examples=["ich möchte ein bier"])
    tokens: list[Token] = Field(
        description="Its tokens, as the encoder read them: the keys of `encoder` and `cross`.",
        examples=[[{"id": 17, "piece": "▁bier", "text": "bier", "start": 15, "end": 19, "special": False}]],
    )


class Target(BaseModel):
    """What the decoder wrote. Row t of `decoder` and `cross` read input token t to predict output token t."""

    text: str = Field(description="The text that the offsets count in.", examples=["i want a beer"])
    forced: bool = Field(description="Whether the request gave it.", examples=[False])
    input_tokens: list[Token] = Field(
        description="What the decoder read at each step, beginning with its start token.",
        examples=[[{"id": 2, "piece": "<s>", "text": "", "start": None, "end": None, "special": True}]],
    )
    output_tokens: list[Token] = Field(
        description="What it predicted at each step, ending with its end token.",
        examples=[[{"id": 5, "piece": "▁i", "text": "i", "start": 0, "end": 1, "special": False}]],
    )


class Attention(BaseModel):
    """Attention weights of one kind; the weights of a query over its keys sum to 1."""

    axes: list[Axis] = Field(description="What the dimensions of `weights` are.", examples=[AXES])
    layers: list[int] = Field(description="Which layers these are, counted from 0.", examples=[[5]])
    heads: list[int] = Field(description="Which heads these are, counted from 0.", examples=[[0]])
    shape: list[int] = Field(description="The size of each dimension.", examples=[[1, 1, 1, 2]])
    weights: list[list[list[list[float]]]] = Field(
        description="weights[layer][head][query][key], 0 to 1.", examples=[[[[[0.9, 0.1]]]]]
    )


class AttentionAnswer(BaseModel):
    """Both sentences as the model saw them, and how its parts attended to each other."""

    model: str = Field(description="Name of the translator.", examples=["tiny-de-en"])
    source: Source = Field(description="The encoder's side.", examples=[{"text": "ich möchte ein bier", "tokens": []}])
    target: Target = Field(
        description="The decoder's side.",
        examples=[{"text": "i want a beer", "forced": False, "input_tokens": [], "output_tokens": []}],
    )
    attention: dict[AttentionKind, Attention] = Field(
        description="The kinds that were asked for.",
        examples=[
            {
                "cross": {
                    "axes": AXES,
                    "layers": [5],
                    "heads": [0],
                    "shape": [1, 1, 1, 2],
                    "weights": [[[[0.9, 0.1]]]],
                }
            }
        ],
    )
