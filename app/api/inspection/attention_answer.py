"""The answer of POST /attention: maps, alignment, rollout, statistics, steps, ablation."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from app.api.inspection.attention_request import HeadChoice
from app.api.shared_schemas import Source, Target
from app.engine.interface import AttentionKind


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
