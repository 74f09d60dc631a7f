"""What POST /attention answers."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from app.api.schemas.attention.findings import (
    Ablation,
    Alignment,
    DecoderStep,
    HeadStatistics,
    Network,
    Rollout,
    WorkedRow,
)
from app.api.schemas.attention.tokens import Source, Target
from app.engine.look_jobs import AttentionKind

Axis = Literal["layer", "head", "query", "key"]
AXES: list[Axis] = ["layer", "head", "query", "key"]
SCHEMA = "attention/1"


class Attention(BaseModel):
    """Attention weights of one kind; the weights of a query over its keys sum to 1, unless `reduced` says "max"."""

    axes: list[Axis] = Field(description="What the dimensions are.", examples=[AXES])
    shape: list[int] = Field(description="The size of each dimension.", examples=[[1, 1, 1, 2]])
    layers: list[int] = Field(description="Which layers these are, counted from 0.", examples=[[5]])
    heads: list[int] = Field(description="Which heads these are, counted from 0.", examples=[[0]])
    reduced: dict[Literal["heads", "layers"], Literal["none", "mean", "max"]] = Field(
        description="What was made of several: a dimension of one is then the mean or maximum of those named.",
        examples=[{"heads": "none", "layers": "none"}],
    )
    query: Literal["source", "target_input"] = Field(description="What the rows are.", examples=["target_input"])
    key: Literal["source", "target_input"] = Field(description="What the columns are.", examples=["source"])
    weights: list[list[list[list[float]]]] | None = Field(
        default=None, description="weights[layer][head][query][key], 0 to 1.", examples=[[[[[0.9, 0.1]]]]]
    )
    encoding: Literal["json", "u8", "u16", "f32"] = Field(description="How the weights are written.", examples=["u8"])
    decimals: int | None = Field(default=None, description="Of `weights`.", examples=[4])
    dtype: str | None = Field(default=None, description="Of the numbers in `data`.", examples=["uint8"])
    byte_order: Literal["little"] | None = Field(
        default=None, description="Of numbers of several bytes.", examples=["little"]
    )
    scale: float | None = Field(
        default=None, description="A weight is `offset` and the number times this.", examples=[0.003922]
    )
    offset: float | None = Field(default=None, description="What a number of 0 stands for.", examples=[0.0])
    max_abs_error: float = Field(
        description="No weight that is decoded so is further from the computed one.", examples=[0.001961]
    )
    data: str | None = Field(
        default=None, description="Base64 of the numbers in C order: the last axis varies fastest.", examples=["5hk="]
    )


class Limits(BaseModel):
    """How large an answer may be, and how large this one is."""

    values: int = Field(description="Numbers in the maps and the rollout of this answer.", examples=[196_608])
    json_: int = Field(alias="json", description="Most of them as digits.", examples=[262_144])
    binary: int = Field(description="Most of them as bytes: u8, u16 or f32.", examples=[1_048_576])
    source_tokens: int = Field(description="The longest source that the model reads.", examples=[256])
    target_tokens: int = Field(description="The longest target that it writes.", examples=[256])


class TimingMs(BaseModel):
    """Wall clock of the parts, in milliseconds. It has no part in the ETag."""

    encode: float = Field(description="Texts to tokens.", examples=[0.4])
    decode: float | None = Field(
        default=None,
        description="The search for the model's own translation, with its wait for a device; only where there was one.",
        examples=[31.5],
    )
    attention: float = Field(
        description="The teacher-forced pass and all that is read from it, with its wait for a device.", examples=[12.9]
    )
    serialise: float = Field(description="This answer, until it was written as JSON.", examples=[4.2])


class AttentionAnswer(BaseModel):
    """Both sentences as the model saw them, and how its parts attended to each other."""

    schema_: Literal["attention/1"] = Field(alias="schema", description="Of this answer.", examples=[SCHEMA])
    model: str = Field(description="Name of the translator.", examples=["tiny-de-en"])
    network: Network = Field(
        description="Its measures.",
        examples=[{"sha256": "9f86d0…", "encoder_layers": 6, "decoder_layers": 6, "heads": 8}],
    )
    source: Source = Field(description="The encoder's side.", examples=[{"text": "ich möchte ein bier", "tokens": []}])
    target: Target = Field(
        description="The decoder's side.",
        examples=[{"text": "i want a beer", "forced": False, "finished": True, "logprob_sum": -0.41}],
    )
    attention: dict[AttentionKind, Attention] = Field(
        description="The kinds that were asked for.",
        examples=[{"cross": {"layers": [5], "heads": [0], "shape": [1, 1, 1, 2], "weights": [[[[0.9, 0.1]]]]}}],
    )
    stats: dict[AttentionKind, list[list[HeadStatistics]]] | None = Field(
        default=None,
        description="stats[kind][layer][head], of all layers and heads of the kinds asked for.",
        examples=[{"cross": [[{"entropy_mean": 0.42, "role": "diagonal"}]]}],
    )
    rollout: Rollout | None = Field(
        default=None,
        description="Attention followed through all layers.",
        examples=[{"encoder": [[1.0]], "cross": [[1.0]]}],
    )
    alignment: Alignment | None = Field(
        default=None,
        description="Which source word each target word comes from.",
        examples=[{"pharaoh": "0-0 1-1 2-2 3-3", "unit": "word"}],
    )
    steps: list[DecoderStep] | None = Field(
        default=None,
        description="What the decoder thought of at each step.",
        examples=[[{"logprob": -0.09, "rank": 1, "entropy_nats": 0.3, "top": []}]],
    )
    ablation: Ablation | None = Field(
        default=None,
        description="What the heads in `mask_heads` are worth.",
        examples=[{"logprob_sum_before": -0.41, "logprob_sum_after": -1.71, "text_after": "i want beer"}],
    )
    qk: WorkedRow | None = Field(
        default=None,
        description="The row asked for, worked out.",
        examples=[{"scores": [2.1, -0.3], "mask": [True, True], "softmax": [0.92, 0.08]}],
    )
    limits: Limits = Field(
        description="What this answer holds, and the most it may hold.",
        examples=[{"values": 600, "json": 262144, "binary": 1048576, "source_tokens": 256, "target_tokens": 256}],
    )
    warnings: list[str] = Field(description="What to know before one believes the numbers.", examples=[[]])
    timing_ms: TimingMs = Field(
        description="What it took.", examples=[{"encode": 0.4, "decode": 31.5, "attention": 12.9, "serialise": 4.2}]
    )
