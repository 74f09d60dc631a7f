"""A look at attention as the fields of its JSON answer."""

from __future__ import annotations

import math
from typing import Any

from app.api.attention_findings import findings_of
from app.api.encoding import encoded
from app.api.expectations import nats
from app.api.schemas.attention.answer import AXES, SCHEMA
from app.api.schemas.attention.request import AttentionRequest
from app.engine.look_jobs import AttentionKind, AttentionMap, AttentionReport, Took

BINARY = 4  # times as many weights fit into an answer of bytes as into one of digits
DISAGREE = 1e-3  # nats a token, between the search and the pass that is shown, from which on it is said
SIDES = {
    "encoder": ("source", "source"),
    "decoder": ("target_input", "target_input"),
    "cross": ("target_input", "source"),
}


def answer_of(report: AttentionReport, body: AttentionRequest, limit: int) -> dict[str, Any]:
    logprob_sum = report.findings.logprob_sum
    return {
        "schema": SCHEMA,
        "model": report.model,
        "network": {**_facts(report), "dtype": "float32"},
        "source": {"text": report.source_text, "tokens": report.source_tokens},
        "target": {
            "text": report.target_text,
            "forced": report.forced,
            "finished": report.finished,
            "logprob_sum": nats(logprob_sum),
            "input_tokens": report.input_tokens,
            "output_tokens": report.output_tokens,
        },
        "attention": {kind: attention_of(kind, each, body) for kind, each in report.maps.items()},
        **findings_of(report.findings, body.decimals),
        "limits": limits_of(report, limit),
        "warnings": warnings_of(report, logprob_sum),
    }


def limits_of(report: AttentionReport, limit: int) -> dict[str, int]:
    """limit: of numbers that are written as digits."""
    return {
        "values": counted(report),
        "json": limit,
        "binary": limit * BINARY,
        "source_tokens": report.max_source_tokens,
        "target_tokens": report.max_target_tokens,
    }


def counted(report: AttentionReport) -> int:
    """The numbers that count towards the limit, as `app.engine.attending.check_values` counts them."""
    rollout = report.findings.rollout
    rows = [] if rollout is None else [*rollout.encoder, *rollout.cross]
    return sum(math.prod(each.shape) for each in report.maps.values()) + sum(map(len, rows))


def timing_of(took: Took, serialise_s: float) -> dict[str, float]:
    """Of a target that was given nothing is decoded, and no time said."""
    decode = {} if took.decode_s is None else {"decode": took.decode_s}
    parts = {"encode": took.encode_s, **decode, "attention": took.attention_s, "serialise": serialise_s}
    return {name: round(1000 * seconds, 3) for name, seconds in parts.items()}


def _facts(report: AttentionReport) -> dict[str, Any]:
    names = ("sha256", "encoder_layers", "decoder_layers", "heads", "head_width", "norm")
    return {name: getattr(report.network, name) for name in names}


def attention_of(kind: AttentionKind, each: AttentionMap, body: AttentionRequest) -> dict[str, Any]:
    query, key = SIDES[kind]
    return {
        "axes": AXES,
        "layers": each.layers,
        "heads": each.heads,
        "reduced": {"heads": body.reduce.heads, "layers": body.reduce.layers},
        "query": query,
        "key": key,
        **weights_of(each, body),
    }


def weights_of(each: AttentionMap, body: AttentionRequest) -> dict[str, Any]:
    found = encoded(each.values, body.encoding, decimals=body.decimals, bounds=(0.0, 1.0))
    if "values" in found:
        found["weights"] = found.pop("values")
    return found


def warnings_of(report: AttentionReport, logprob_sum: float) -> list[str]:
    found, tokens = report.found_logprob, max(1, len(report.output_tokens))
    if found is None or abs(found - logprob_sum) <= DISAGREE * tokens:
        return []
    return [
        f"The search gave this translation {found:.4f} nats and the pass shown here {logprob_sum:.4f}: the search"
        " computes in the server's precision, this pass in fp32."
    ]
