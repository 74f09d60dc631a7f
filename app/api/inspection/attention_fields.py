"""From attention results to the fields of the JSON answer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import structs

from app.api.expectations import round_nats
from app.api.inspection.attention_answer import AXES, SCHEMA
from app.api.inspection.attention_request import AttentionRequest
from app.api.inspection.encoded_arrays import encode_array
from app.engine.interface import AttentionKind, AttentionMap, AttentionResult, InspectionTimings
from app.engine.protocol.inspection_messages import (
    Ablation,
    Alignment,
    AttentionFindings,
    OutputStep,
    Rollout,
    WorkedRow,
)
from models.inspection.results import HeadStatistics

SHARE_DECIMALS = 6  # decimals of means of weights, and of scores: of these the float32 of a network has no more


def findings_fields(found: AttentionFindings, decimals: int) -> dict[str, Any]:
    """Those that were asked for. decimals: of what is compared with the maps, as these were asked for."""
    fields: dict[str, Any] = {}
    if found.stats is not None:
        fields["stats"] = statistics_fields(found.stats)
    if found.rollout is not None:
        fields["rollout"] = rollout_fields(found.rollout, decimals)
    if found.alignment is not None:
        fields["alignment"] = alignment_fields(found.alignment)
    if found.steps is not None:
        fields["steps"] = [decoder_step_fields(each) for each in found.steps]
    if found.ablation is not None:
        fields["ablation"] = ablation_fields(found.ablation)
    if found.qk is not None:
        fields["qk"] = worked_row_fields(found.qk, decimals)
    return fields


def statistics_fields(stats: Mapping[str, list[list[HeadStatistics]]]) -> dict[str, Any]:
    def written(head: HeadStatistics) -> dict[str, Any]:
        return {name: value if name == "role" else round_share(value) for name, value in head._asdict().items()}

    return {kind: [[written(head) for head in layer] for layer in layers] for kind, layers in stats.items()}


def rollout_fields(rollout: Rollout, decimals: int) -> dict[str, Any]:
    names = ("encoder", "cross", "source_share")
    each = {
        name: encode_array(np.array(getattr(rollout, name), dtype=np.float32), "json", decimals=decimals)
        for name in names
    }
    return {
        **{name: part["values"] for name, part in each.items()},
        "decimals": decimals,
        "max_abs_error": max(part["max_abs_error"] for part in each.values()),
        "method": rollout.method,
        "caveat": rollout.caveat,
    }


def alignment_fields(alignment: Alignment) -> dict[str, Any]:
    links = [(source, target, round_share(weight)) for source, target, weight in alignment.links]
    return {**structs.asdict(alignment), "links": links}


def decoder_step_fields(step: OutputStep) -> dict[str, Any]:
    return {
        "logprob": round_nats(step.logprob),
        "rank": step.rank,
        "entropy_nats": round_nats(step.entropy_nats),
        "top": [{**structs.asdict(each), "logprob": round_nats(each.logprob)} for each in step.top],
    }


def ablation_fields(without: Ablation) -> dict[str, Any]:
    return {
        **structs.asdict(without),
        "logprob_sum_before": round_nats(without.logprob_sum_before),
        "logprob_sum_after": round_nats(without.logprob_sum_after),
        "per_step_delta": [round_nats(each) for each in without.per_step_delta],
    }


def worked_row_fields(row: WorkedRow, decimals: int) -> dict[str, Any]:
    """softmax is written as the row of the map is, where that is JSON: the same digits."""
    return {
        **structs.asdict(row),
        "scale": float(f"{row.scale:.9g}"),
        "scores": [round_share(each) for each in row.scores],
        "softmax": encode_array(np.array(row.softmax, dtype=np.float32), "json", decimals=decimals)["values"],
    }


def round_share(value: float) -> float:
    return round(value, SHARE_DECIMALS) + 0.0  # no -0.0


BINARY_FACTOR = 4  # times as many weights fit into an answer of bytes as into one of digits
MAX_DISAGREEMENT_NATS = 1e-3  # nats a token, between the search and the pass that is shown, from which on it is said
SIDES = {
    "encoder": ("source", "source"),
    "decoder": ("target_input", "target_input"),
    "cross": ("target_input", "source"),
}


def attention_answer(report: AttentionResult, body: AttentionRequest, limit: int) -> dict[str, Any]:
    logprob_sum = report.findings.logprob_sum
    return {
        "schema": SCHEMA,
        "model": report.model,
        "network": {**_network_facts(report), "dtype": "float32"},
        "source": {"text": report.source_text, "tokens": report.source_tokens},
        "target": {
            "text": report.target_text,
            "forced": report.forced,
            "finished": report.finished,
            "logprob_sum": round_nats(logprob_sum),
            "input_tokens": report.input_tokens,
            "output_tokens": report.output_tokens,
        },
        "attention": {kind: map_fields(kind, each, body) for kind, each in report.maps.items()},
        **findings_fields(report.findings, body.decimals),
        "limits": limits_fields(report, limit),
        "warnings": warnings(report, logprob_sum),
    }


def limits_fields(report: AttentionResult, limit: int) -> dict[str, int]:
    """limit: of numbers that are written as digits."""
    return {
        "values": count_values(report),
        "json": limit,
        "binary": limit * BINARY_FACTOR,
        "source_tokens": report.max_source_tokens,
        "target_tokens": report.max_target_tokens,
    }


def count_values(report: AttentionResult) -> int:
    """The numbers that count towards the limit, as `app.engine.request_limits.check_attention_size` counts them."""
    rollout = report.findings.rollout
    rows = [] if rollout is None else [*rollout.encoder, *rollout.cross]
    return sum(math.prod(each.shape) for each in report.maps.values()) + sum(map(len, rows))


def timing_fields(took: InspectionTimings, serialise_s: float) -> dict[str, float]:
    """Of a target that was given nothing is decoded, and no time said."""
    decode = {} if took.decode_s is None else {"decode": took.decode_s}
    parts = {"encode": took.encode_s, **decode, "attention": took.attention_s, "serialise": serialise_s}
    return {name: round(1000 * seconds, 3) for name, seconds in parts.items()}


def _network_facts(report: AttentionResult) -> dict[str, Any]:
    names = ("sha256", "encoder_layers", "decoder_layers", "heads", "head_width", "norm")
    return {name: getattr(report.network, name) for name in names}


def map_fields(kind: AttentionKind, each: AttentionMap, body: AttentionRequest) -> dict[str, Any]:
    query, key = SIDES[kind]
    return {
        "axes": AXES,
        "layers": each.layers,
        "heads": each.heads,
        "reduced": {"heads": body.reduce.heads, "layers": body.reduce.layers},
        "query": query,
        "key": key,
        **weights_fields(each, body),
    }


def weights_fields(each: AttentionMap, body: AttentionRequest) -> dict[str, Any]:
    found = encode_array(each.values, body.encoding, decimals=body.decimals, bounds=(0.0, 1.0))
    if "values" in found:
        found["weights"] = found.pop("values")
    return found


def warnings(report: AttentionResult, logprob_sum: float) -> list[str]:
    found, tokens = report.found_logprob, max(1, len(report.output_tokens))
    if found is None or abs(found - logprob_sum) <= MAX_DISAGREEMENT_NATS * tokens:
        return []
    return [
        f"The search gave this translation {found:.4f} nats and the pass shown here {logprob_sum:.4f}: the search"
        " computes in the server's precision, this pass in fp32."
    ]
