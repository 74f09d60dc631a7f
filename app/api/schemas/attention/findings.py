"""What is found in attention maps and beside them."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from app.api.schemas.attention.choices import HeadChoice


class Network(BaseModel):
    """The translator's measures."""

    sha256: str | None = Field(description="Of its weights.", examples=["9f86d0…"])
    encoder_layers: int = Field(examples=[6], description="Of the encoder.")
    decoder_layers: int = Field(examples=[6], description="Of the decoder.")
    heads: int = Field(examples=[8], description="Of each layer.")
    head_width: int = Field(examples=[64], description="Of queries, keys and values.")
    norm: str = Field(description='"pre" or "post".', examples=["post"])
    dtype: Literal["float32"] = Field(description="What a look inside is computed in.", examples=["float32"])


class HeadStatistics(BaseModel):
    """One head over all rows that stand for something. Masses are means over rows, 0 to 1."""

    entropy_mean: float = Field(description="Of a row, in nats.", examples=[0.42])
    entropy_norm: float = Field(description="The same over ln(number of keys), 0 to 1.", examples=[0.21])
    confidence: float = Field(description="Mean of the largest weight of a row.", examples=[0.87])
    mass_bos: float = Field(description="On the start token.", examples=[0.01])
    mass_eos: float = Field(description="On the end token.", examples=[0.05])
    prev: float = Field(description="On the token before.", examples=[0.02])
    diag: float = Field(description="On the same place; across, on the diagonal.", examples=[0.8])
    next: float = Field(description="On the token behind.", examples=[0.02])
    argmax_coverage: float = Field(description="Share of the keys that some row looks at most.", examples=[0.75])
    role: str = Field(description="What it seems to do, by stated thresholds.", examples=["diagonal"])


class Rollout(BaseModel):
    """Abnar and Zuidema 2020; rows sum to 1, but for what `decimals` cut off."""

    encoder: list[list[float]] = Field(description="[source][source]", examples=[[[0.9, 0.1], [0.2, 0.8]]])
    cross: list[list[float]] = Field(description="[target step][source]", examples=[[[0.7, 0.3]]])
    source_share: list[float] = Field(
        description="How much of each step comes from the source at all, 0 to 1.", examples=[[0.6]]
    )
    decimals: int = Field(description="Of these numbers, which are digits in any encoding.", examples=[8])
    max_abs_error: float = Field(
        description="No number is further from the computed one: a row of n sums to 1 within n times this.",
        examples=[0.000000244],
    )
    method: str = Field(description="The formula.", examples=["Attention rollout (Abnar & Zuidema 2020) …"])
    caveat: str = Field(
        description="What it does not show.", examples=["It follows attention and residual paths alone …"]
    )


class Alignment(BaseModel):
    """Links between words."""

    pharaoh: str = Field(description="source-target, from 0.", examples=["0-0 1-1 3-3"])
    links: list[tuple[int, int, float]] = Field(
        description="[source, target, weight] of each.", examples=[[[0, 0, 0.93]]]
    )
    unit: Literal["word", "token"] = Field(description="What the numbers count.", examples=["word"])
    heads: list[tuple[int, int]] = Field(
        description="Layer and number of each head of cross-attention whose mean the links are from.",
        examples=[[[0, 3], [1, 2]]],
    )
    convention: Literal["predicting", "input"] = Field(
        description="Whether a target word has the row that predicts it or the row that reads it.",
        examples=["predicting"],
    )
    error: float | None = Field(
        description="Alignment error rate of this choice on held-out sentences; null where none was measured.",
        examples=[0.07],
    )


class Candidate(BaseModel):
    """A token that might have been written."""

    id: int = Field(examples=[7], description="In the vocabulary.")
    piece: str = Field(description="How the vocabulary writes it.", examples=["▁would"])
    text: str = Field(description="How it reads.", examples=["would"])
    logprob: float = Field(description="Nats.", examples=[-2.99])


class DecoderStep(BaseModel):
    """Of one output token."""

    logprob: float | None = Field(
        description="Nats; null (minus infinity) for a token that is never chosen.", examples=[-0.09]
    )
    rank: int = Field(description="Its place among all tokens; 1: it is the likeliest.", examples=[1])
    entropy_nats: float = Field(description="Of the whole distribution.", examples=[0.3])
    top: list[Candidate] = Field(
        description="The likeliest tokens, `top_k` of them.",
        examples=[[{"id": 7, "piece": "▁would", "text": "would", "logprob": -2.99}]],
    )


class Ablation(BaseModel):
    """Without the heads."""

    heads: list[HeadChoice] = Field(
        description="Which were silenced.", examples=[[{"kind": "cross", "layer": 1, "head": 0}]]
    )
    logprob_sum_before: float | None = Field(
        description="Of the output tokens with all heads, nats; null (minus infinity) where one is never chosen.",
        examples=[-0.41],
    )
    logprob_sum_after: float | None = Field(
        description="Of the same tokens without these, nats; null likewise.", examples=[-1.71]
    )
    per_step_delta: list[float] = Field(description="After minus before, nats a step.", examples=[[-0.1, -1.2]])
    tokens: list[int] = Field(description="Ids of what the model writes without them.", examples=[[5, 9]])
    text_after: str = Field(description="What the model writes without them.", examples=["i want beer"])


class WorkedRow(BaseModel):
    """One row of one head: softmax(scores where the mask lets them) = weights."""

    kind: Literal["encoder", "decoder", "cross"] = Field(description="Of the head.", examples=["cross"])
    layer: int = Field(description="From 0.", examples=[1])
    head: int = Field(description="From 0.", examples=[0])
    row: int = Field(description="From 0.", examples=[2])
    scale: float = Field(description="What q·k is multiplied by.", examples=[0.125])
    scores: list[float] = Field(description="q·k times `scale`, of each key.", examples=[[2.1, -0.3]])
    mask: list[bool] = Field(description="Which keys it may look at.", examples=[[True, True]])
    softmax: list[float] = Field(description="The weights, as in a map of as many `decimals`.", examples=[[0.92, 0.08]])
