"""The answer of POST /attention: maps, alignment, rollout, statistics, steps, ablation."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from msgspec import structs
from pydantic import BaseModel

from app.api.field_types import doc, example_of, optional
from app.api.inspection.attention_request import BINARY_FACTOR, AttentionRequest, HeadChoice
from app.api.inspection.encoded_arrays import encode_array
from app.api.shared_schemas import NATS_DECIMALS, Token, round_floats, round_nats
from app.engine.interface import AttentionResult, InspectionTimings
from models.inspection import results
from models.inspection.selection import AttentionKind

SHARE_DECIMALS = 6  # of means of weights, and of scores: a network's float32 has no more
MAX_DISAGREEMENT_NATS = 1e-3  # a token, between the search and the pass shown, before the answer warns of it


class Source(BaseModel):
    """What the encoder read."""

    text: str = doc("The text that the offsets count in.", "ich möchte ein bier")
    tokens: list[Token] = doc(
        "Its tokens, as the encoder read them: the keys of `encoder` and `cross`.", [example_of(Token)]
    )


class Target(BaseModel):
    """What the decoder wrote. Row t of `decoder` and `cross` read input token t to predict output token t."""

    text: str = doc("The text that the offsets count in.", "i want a beer")
    forced: bool = doc("Whether the request gave it.", False)
    logprob_sum: float | None = doc(
        "Log-probability of the output tokens, in nats, from one teacher-forced pass; null (minus infinity)"
        " where one of them is never chosen.",
        -0.41,
    )
    finished: bool = doc("Whether it ends with the end token.", True)
    input_tokens: list[Token] = doc(
        "What the decoder read at each step, beginning with its start token.",
        [{"id": 2, "piece": "<s>", "text": "", "start": None, "end": None, "word": None, "special": True}],
    )
    output_tokens: list[Token] = doc(
        "What it predicted at each step, ending with its end token.",
        [{"id": 5, "piece": "▁i", "text": "i", "start": 0, "end": 1, "word": 0, "special": False}],
    )


class Network(BaseModel):
    """The translator's measures."""

    sha256: str | None = doc("Of its weights.", "9f86d0…")
    encoder_layers: int = doc("Of the encoder.", 6)
    decoder_layers: int = doc("Of the decoder.", 6)
    heads: int = doc("Of each layer.", 8)
    head_width: int = doc("Of queries, keys and values.", 64)
    norm: str = doc('"pre" or "post".', "post")
    dtype: Literal["float32"] = doc("What a look inside is computed in.", "float32")


class HeadStatistics(BaseModel):
    """One head over all rows that stand for something. Masses are means over rows, 0 to 1."""

    entropy_mean: float = doc("Of a row, in nats.", 0.42)
    entropy_norm: float = doc("The same over ln(number of keys), 0 to 1.", 0.21)
    confidence: float = doc("Mean of the largest weight of a row.", 0.87)
    mass_bos: float = doc("On the start token.", 0.01)
    mass_eos: float = doc("On the end token.", 0.05)
    prev: float = doc("On the token before.", 0.02)
    diag: float = doc("On the same place; across, on the diagonal.", 0.8)
    next: float = doc("On the token behind.", 0.02)
    argmax_coverage: float = doc("Share of the keys that some row looks at most.", 0.75)
    role: str = doc("What it seems to do, by stated thresholds.", "diagonal")


class Rollout(BaseModel):
    """Abnar and Zuidema 2020; rows sum to 1, but for what `decimals` cut off."""

    encoder: list[list[float]] = doc("[source][source]", [[0.9, 0.1], [0.2, 0.8]])
    cross: list[list[float]] = doc("[target step][source]", [[0.7, 0.3]])
    source_share: list[float] = doc("How much of each step comes from the source at all, 0 to 1.", [0.6])
    decimals: int = doc("Of these numbers, which are digits in any encoding.", 8)
    max_abs_error: float = doc(
        "No number is further from the computed one: a row of n sums to 1 within n times this.", 0.000000244
    )
    method: str = doc("The formula.", "Attention rollout (Abnar & Zuidema 2020) …")
    caveat: str = doc("What it does not show.", "It follows attention and residual paths alone …")

    @staticmethod
    def fields_of(rollout: results.Rollout, decimals: int) -> dict[str, object]:
        arrays = {
            name: encode_array(np.array(getattr(rollout, name), dtype=np.float32), "json", decimals=decimals)
            for name in ("encoder", "cross", "source_share")
        }
        return {
            **{name: array["values"] for name, array in arrays.items()},
            "decimals": decimals,
            "max_abs_error": max(array["max_abs_error"] for array in arrays.values()),
            "method": rollout.method,
            "caveat": rollout.caveat,
        }


class Alignment(BaseModel):
    """Links between words."""

    pharaoh: str = doc("source-target, from 0.", "0-0 1-1 3-3")
    links: list[tuple[int, int, float]] = doc("[source, target, weight] of each.", [[0, 0, 0.93]])
    unit: Literal["word", "token"] = doc("What the numbers count.", "word")
    heads: list[tuple[int, int]] = doc(
        "Layer and number of each head of cross-attention whose mean the links are from.", [[0, 3], [1, 2]]
    )
    convention: Literal["predicting", "input"] = doc(
        "Whether a target word has the row that predicts it or the row that reads it.", "predicting"
    )
    error: float | None = doc(
        "Alignment error rate of this choice on held-out sentences; null where none was measured.", 0.07
    )


class Candidate(BaseModel):
    """A token that might have been written."""

    id: int = doc("In the vocabulary.", 7)
    piece: str = doc("How the vocabulary writes it.", "▁would")
    text: str = doc("How it reads.", "would")
    logprob: float = doc("Nats.", -2.99)


class DecoderStep(BaseModel):
    """Of one output token."""

    logprob: float | None = doc("Nats; null (minus infinity) for a token that is never chosen.", -0.09)
    rank: int = doc("Its place among all tokens; 1: it is the likeliest.", 1)
    entropy_nats: float = doc("Of the whole distribution.", 0.3)
    top: list[Candidate] = doc(
        "The likeliest tokens, `top_k` of them.", [{"id": 7, "piece": "▁would", "text": "would", "logprob": -2.99}]
    )


class Ablation(BaseModel):
    """Without the heads."""

    heads: list[HeadChoice] = doc("Which were silenced.", [{"kind": "cross", "layer": 1, "head": 0}])
    logprob_sum_before: float | None = doc(
        "Of the output tokens with all heads, nats; null (minus infinity) where one is never chosen.", -0.41
    )
    logprob_sum_after: float | None = doc("Of the same tokens without these, nats; null likewise.", -1.71)
    per_step_delta: list[float] = doc("After minus before, nats a step.", [-0.1, -1.2])
    tokens: list[int] = doc("Ids of what the model writes without them.", [5, 9])
    text_after: str = doc("What the model writes without them.", "i want beer")


class WorkedRow(BaseModel):
    """One row of one head: softmax(scores where the mask lets them) = weights."""

    kind: Literal["encoder", "decoder", "cross"] = doc("Of the head.", "cross")
    layer: int = doc("From 0.", 1)
    head: int = doc("From 0.", 0)
    row: int = doc("From 0.", 2)
    scale: float = doc("What q·k is multiplied by.", 0.125)
    scores: list[float] = doc("q·k times `scale`, of each key.", [2.1, -0.3])
    mask: list[bool] = doc("Which keys it may look at.", [True, True])
    softmax: list[float] = doc("The weights, as in a map of as many `decimals`.", [0.92, 0.08])

    @staticmethod
    def fields_of(row: results.WorkedRow, decimals: int) -> dict[str, object]:
        """softmax has the digits of the map's row, where that is JSON."""
        return {
            **structs.asdict(row),
            "scale": float(f"{row.scale:.9g}"),
            "scores": round_floats(row.scores, SHARE_DECIMALS),
            "softmax": encode_array(np.array(row.softmax, dtype=np.float32), "json", decimals=decimals)["values"],
        }


Axis = Literal["layer", "head", "query", "key"]
AXES: list[Axis] = ["layer", "head", "query", "key"]
SCHEMA = "attention/1"


_ATTENTION = {
    "axes": ["layer", "head", "query", "key"],
    "shape": [1, 1, 1, 2],
    "layers": [5],
    "heads": [0],
    "reduced": {"heads": "none", "layers": "none"},
    "query": "target_input",
    "key": "source",
    "encoding": "json",
    "decimals": 8,
    "max_abs_error": 0.000000005,
    "weights": [[[[0.9, 0.1]]]],
}


class Attention(BaseModel):
    """Attention weights of one kind; the weights of a query over its keys sum to 1, unless `reduced` says "max"."""

    axes: list[Axis] = doc("What the dimensions are.", AXES)
    shape: list[int] = doc("The size of each dimension.", [1, 1, 1, 2])
    layers: list[int] = doc("Which layers these are, counted from 0.", [5])
    heads: list[int] = doc("Which heads these are, counted from 0.", [0])
    reduced: dict[Literal["heads", "layers"], Literal["none", "mean", "max"]] = doc(
        "What was made of several: a dimension of one is then the mean or maximum of those named.",
        {"heads": "none", "layers": "none"},
    )
    query: Literal["source", "target_input"] = doc("What the rows are.", "target_input")
    key: Literal["source", "target_input"] = doc("What the columns are.", "source")
    weights: list[list[list[list[float]]]] | None = optional(
        "weights[layer][head][query][key], 0 to 1.", [[[[0.9, 0.1]]]]
    )
    encoding: Literal["json", "u8", "u16", "f32"] = doc("How the weights are written.", "u8")
    decimals: int | None = optional("Of `weights`.", 4)
    dtype: str | None = optional("Of the numbers in `data`.", "uint8")
    byte_order: Literal["little"] | None = optional("Of numbers of several bytes.", "little")
    scale: float | None = optional("A weight is `offset` and the number times this.", 0.004)
    offset: float | None = optional("What a number of 0 stands for.", 0.0)
    max_abs_error: float = doc("No weight that is decoded so is further from the computed one.", 0.00201)
    data: str | None = optional("Base64 of the numbers in C order: the last axis varies fastest.", "5hk=")

    @staticmethod
    def fields_of(kind: AttentionKind, attention: results.AttentionMap, request: AttentionRequest) -> dict[str, object]:
        array = encode_array(attention.values, request.encoding, decimals=request.decimals, bounds=(0.0, 1.0))
        if "values" in array:
            array["weights"] = array.pop("values")
        return {
            "axes": AXES,
            "layers": attention.layers,
            "heads": attention.heads,
            "reduced": {"heads": request.reduce.heads, "layers": request.reduce.layers},
            "query": "source" if kind == "encoder" else "target_input",
            "key": "target_input" if kind == "decoder" else "source",
            **array,
        }


class Limits(BaseModel):
    """How large an answer may be, and how large this one is."""

    values: int = doc("Numbers in the maps and the rollout of this answer.", 196_608)
    json_: int = doc("Most of them as digits.", 262_144, alias="json")
    binary: int = doc("Most of them as bytes: u8, u16 or f32.", 1_048_576)
    source_tokens: int = doc("The longest source that the model reads.", 256)
    target_tokens: int = doc("The longest target that it writes.", 256)

    @staticmethod
    def fields_of(result: AttentionResult, limit: int) -> dict[str, int]:
        """limit: of numbers as digits. The values are counted as `app.engine.input_processor` counts them."""
        rollout = result.findings.rollout
        rows = [] if rollout is None else [*rollout.encoder, *rollout.cross]
        return {
            "values": sum(math.prod(each.shape) for each in result.maps.values()) + sum(map(len, rows)),
            "json": limit,
            "binary": limit * BINARY_FACTOR,
            "source_tokens": result.max_source_tokens,
            "target_tokens": result.max_target_tokens,
        }


class TimingMs(BaseModel):
    """Wall clock of the parts, in milliseconds. It has no part in the ETag."""

    encode: float = doc("Texts to tokens.", 0.4)
    decode: float | None = optional(
        "The search for the model's own translation, with its wait for a device; only where there was one.", 31.5
    )
    attention: float = doc("The teacher-forced pass and all that is read from it, with its wait for a device.", 12.9)
    serialise: float = doc("This answer, until it was written as JSON.", 4.2)

    @staticmethod
    def fields_of(took: InspectionTimings, serialise_s: float) -> dict[str, float]:
        """A given target is not decoded, and has no time of it."""
        parts = {
            "encode": took.encode_s,
            "decode": took.decode_s,
            "attention": took.attention_s,
            "serialise": serialise_s,
        }
        return {name: round(1000 * seconds, 3) for name, seconds in parts.items() if seconds is not None}


class AttentionAnswer(BaseModel):
    """Both sentences as the model saw them, and how its parts attended to each other."""

    schema_: Literal["attention/1"] = doc("Of this answer.", SCHEMA, alias="schema")
    model: str = doc("Name of the translator.", "demo-de-en")
    network: Network = doc("Its measures.", {"sha256": "9f86d0…", "encoder_layers": 6, "decoder_layers": 6, "heads": 8})
    source: Source = doc("The encoder's side.", {"text": "ich möchte ein bier", "tokens": []})
    target: Target = doc(
        "The decoder's side.", {"text": "i want a beer", "forced": False, "finished": True, "logprob_sum": -0.41}
    )
    attention: dict[AttentionKind, Attention] = doc(
        "The kinds that were asked for.",
        {"cross": _ATTENTION},
    )
    stats: dict[AttentionKind, list[list[HeadStatistics]]] | None = optional(
        "stats[kind][layer][head], of all layers and heads of the kinds asked for.",
        {"cross": [[{"entropy_mean": 0.42, "role": "diagonal"}]]},
    )
    rollout: Rollout | None = optional("Attention followed through all layers.", {"encoder": [[1.0]], "cross": [[1.0]]})
    alignment: Alignment | None = optional(
        "Which source word each target word comes from.", {"pharaoh": "0-0 1-1 2-2 3-3", "unit": "word"}
    )
    steps: list[DecoderStep] | None = optional(
        "What the decoder thought of at each step.", [{"logprob": -0.09, "rank": 1, "entropy_nats": 0.3, "top": []}]
    )
    ablation: Ablation | None = optional(
        "What the heads in `mask_heads` are worth.",
        {"logprob_sum_before": -0.41, "logprob_sum_after": -1.71, "text_after": "i want beer"},
    )
    qk: WorkedRow | None = optional(
        "The row asked for, worked out.", {"scores": [2.1, -0.3], "mask": [True, True], "softmax": [0.92, 0.08]}
    )
    limits: Limits = doc(
        "What this answer holds, and the most it may hold.",
        {"values": 600, "json": 262144, "binary": 1048576, "source_tokens": 256, "target_tokens": 256},
    )
    warnings: list[str] = doc("What to know before one believes the numbers.", [])
    timing_ms: TimingMs = doc("What it took.", {"encode": 0.4, "decode": 31.5, "attention": 12.9, "serialise": 4.2})

    @staticmethod
    def fields_of(result: AttentionResult, request: AttentionRequest, limit: int) -> dict[str, object]:
        """All but `timing_ms`. Built without a model: validation would cost more than the network's pass."""
        return {
            "schema": SCHEMA,
            "model": result.model,
            "network": {**result.network, "dtype": "float32"},
            "source": {"text": result.source_text, "tokens": result.source_tokens},
            "target": {
                "text": result.target_text,
                "forced": result.forced,
                "finished": result.finished,
                "logprob_sum": round_nats(result.findings.logprob_sum),
                "input_tokens": result.input_tokens,
                "output_tokens": result.output_tokens,
            },
            "attention": {kind: Attention.fields_of(kind, each, request) for kind, each in result.maps.items()},
            **_findings_fields(result.findings, request.decimals),
            "limits": Limits.fields_of(result, limit),
            "warnings": _warnings(result),
        }


def _findings_fields(findings: results.AttentionFindings, decimals: int) -> dict[str, object]:
    alignment = findings.alignment
    links = alignment and round_floats(alignment.links, SHARE_DECIMALS)
    fields = {
        "stats": round_floats(findings.stats, SHARE_DECIMALS),
        "rollout": findings.rollout and Rollout.fields_of(findings.rollout, decimals),
        "alignment": alignment and {**structs.asdict(alignment), "links": links},
        "steps": round_floats(findings.steps, NATS_DECIMALS),
        "ablation": round_floats(findings.ablation, NATS_DECIMALS),
        "qk": findings.qk and WorkedRow.fields_of(findings.qk, decimals),
    }
    return {name: value for name, value in fields.items() if value is not None}


def _warnings(result: AttentionResult) -> list[str]:
    searched, shown = result.found_logprob, result.findings.logprob_sum
    if searched is None or abs(searched - shown) <= MAX_DISAGREEMENT_NATS * max(1, len(result.output_tokens)):
        return []
    return [
        f"The search gave this translation {searched:.4f} nats and the pass shown here {shown:.4f}: the search"
        " computes in the server's precision, this pass in fp32."
    ]
