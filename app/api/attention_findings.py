"""What was found beside the maps, as the fields of JSON: with as many digits as mean something, and no more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import structs

from app.api.encoding import encoded
from app.api.expectations import nats
from app.engine.findings import Ablation, Alignment, Findings, Rollout, Step, WorkedRow
from models.inspection.roles import HeadStatistics

SHARES = 6  # decimals of means of weights, and of scores: of these the float32 of a network has no more


def findings_of(found: Findings, decimals: int) -> dict[str, Any]:
    """Those that were asked for. decimals: of what is compared with the maps, as these were asked for."""
    fields: dict[str, Any] = {}
    if found.stats is not None:
        fields["stats"] = statistics_of(found.stats)
    if found.rollout is not None:
        fields["rollout"] = rollout_of(found.rollout, decimals)
    if found.alignment is not None:
        fields["alignment"] = alignment_of(found.alignment)
    if found.steps is not None:
        fields["steps"] = [step_of(each) for each in found.steps]
    if found.ablation is not None:
        fields["ablation"] = ablation_of(found.ablation)
    if found.qk is not None:
        fields["qk"] = worked_of(found.qk, decimals)
    return fields


def statistics_of(stats: Mapping[str, list[list[HeadStatistics]]]) -> dict[str, Any]:
    def written(head: HeadStatistics) -> dict[str, Any]:
        return {name: value if name == "role" else share(value) for name, value in head._asdict().items()}

    return {kind: [[written(head) for head in layer] for layer in layers] for kind, layers in stats.items()}


def rollout_of(rollout: Rollout, decimals: int) -> dict[str, Any]:
    names = ("encoder", "cross", "source_share")
    each = {
        name: encoded(np.array(getattr(rollout, name), dtype=np.float32), "json", decimals=decimals) for name in names
    }
    return {
        **{name: part["values"] for name, part in each.items()},
        "decimals": decimals,
        "max_abs_error": max(part["max_abs_error"] for part in each.values()),
        "method": rollout.method,
        "caveat": rollout.caveat,
    }


def alignment_of(alignment: Alignment) -> dict[str, Any]:
    links = [(source, target, share(weight)) for source, target, weight in alignment.links]
    return {**structs.asdict(alignment), "links": links}


def step_of(step: Step) -> dict[str, Any]:
    return {
        "logprob": nats(step.logprob),
        "rank": step.rank,
        "entropy_nats": nats(step.entropy_nats),
        "top": [{**structs.asdict(each), "logprob": nats(each.logprob)} for each in step.top],
    }


def ablation_of(without: Ablation) -> dict[str, Any]:
    return {
        **structs.asdict(without),
        "logprob_sum_before": nats(without.logprob_sum_before),
        "logprob_sum_after": nats(without.logprob_sum_after),
        "per_step_delta": [nats(each) for each in without.per_step_delta],
    }


def worked_of(row: WorkedRow, decimals: int) -> dict[str, Any]:
    """softmax is written as the row of the map is, where that is JSON: the same digits."""
    return {
        **structs.asdict(row),
        "scale": float(f"{row.scale:.9g}"),
        "scores": [share(each) for each in row.scores],
        "softmax": encoded(np.array(row.softmax, dtype=np.float32), "json", decimals=decimals)["values"],
    }


def share(value: float) -> float:
    return round(value, SHARES) + 0.0  # no -0.0
