"""The fields of POST /walkthrough."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from app.api.fields import ModelName, SoundText, filled, refusal
from app.api.schemas.attention.choices import Index
from app.api.schemas.attention.tokens import Token

MOST_VALUES, MOST_KEYS = 64, 256


def _written(text: str | None) -> str | None:
    if text is not None and not text.strip():
        raise refusal("is empty; leave it out to see the model's own translation.")
    return text


class WalkthroughRequest(BaseModel):
    """Which place of which forward pass."""

    model_config = ConfigDict(strict=True)

    source: Annotated[SoundText, AfterValidator(filled)] = Field(
        description="The sentence that the encoder reads.", examples=["ich möchte ein bier"]
    )
    target: Annotated[SoundText | None, AfterValidator(_written)] = Field(
        default=None,
        description="What the decoder is made to write; null lets it write its own translation.",
        examples=["i want a beer"],
    )
    side: Literal["encoder", "decoder"] = Field(default="decoder", description="Whose layers.", examples=["decoder"])
    layer: Index = Field(default=-1, description="Which layer, from 0; -1 is the last.", examples=[-1])
    head: Index = Field(default=0, description="Which head, from 0.", examples=[0])
    position: Index = Field(
        default=-1, description="Which token of the side's input, from 0; -1 is the last.", examples=[1]
    )
    values: int = Field(
        default=8,
        ge=1,
        le=MOST_VALUES,
        description="So many values of each vector; `shape` says how many there are.",
        examples=[8],
    )
    places: int = Field(default=64, ge=1, le=MOST_KEYS, description="So many keys and values, at most.", examples=[64])
    model: ModelName | None = Field(
        default=None,
        description="Name of the translator (GET /models); null takes the only one.",
        examples=["tiny-de-en"],
    )


class WalkedStep(BaseModel):
    """One step of the pass."""

    part: str = Field(description="Which part of the network.", examples=["self-attention"])
    name: str = Field(description="What is computed.", examples=["scores"])
    formula: str = Field(description="How.", examples=["s = 0.176777 · q·Kᵀ"])
    why: str = Field(description="What for.", examples=["What this place looks for."])
    shape: list[int] = Field(description="Of the whole.", examples=[[5]])
    values: list[float | None] | list[list[float | None]] = Field(
        description="The first ones, or the largest where `indices` says which; null where a score is masked.",
        examples=[[0.12, -0.4]],
    )
    indices: list[int] | None = Field(
        default=None, description="Which tokens of the vocabulary the values are of.", examples=[[5, 9]]
    )
    texts: list[str] | None = Field(default=None, description="How these read.", examples=[["beer", "ale"]])


class WalkthroughAnswer(BaseModel):
    """A forward pass as a story, step by step."""

    schema_: Literal["walkthrough/1"] = Field(alias="schema", description="Of this answer.", examples=["walkthrough/1"])
    model: str = Field(description="Name of the translator.", examples=["tiny-de-en"])
    side: Literal["encoder", "decoder"] = Field(description="Whose layers.", examples=["decoder"])
    layer: int = Field(description="From 0.", examples=[1])
    head: int = Field(description="From 0.", examples=[0])
    position: int = Field(description="From 0.", examples=[1])
    source_text: str = Field(description="What the encoder read.", examples=["ich möchte ein bier"])
    target_text: str = Field(description="What the decoder wrote.", examples=["i want a beer"])
    forced: bool = Field(description="Whether the request gave it.", examples=[False])
    source_tokens: list[Token] = Field(
        description="The encoder's input.",
        examples=[[{"id": 17, "piece": "▁bier", "text": "bier", "start": 15, "end": 19, "word": 3, "special": False}]],
    )
    input_tokens: list[Token] = Field(
        description="The decoder's input, its start token first.",
        examples=[[{"id": 17, "piece": "▁bier", "text": "bier", "start": 15, "end": 19, "word": 3, "special": False}]],
    )
    steps: list[WalkedStep] = Field(
        description="In the order in which they are computed.",
        examples=[[{"part": "self-attention", "name": "query", "values": [0.1, -0.4]}]],
    )
