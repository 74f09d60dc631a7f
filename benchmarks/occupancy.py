"""How full the slots were, from the server's own /metrics where it has that page."""

from __future__ import annotations

import re
from collections.abc import Mapping

from benchmarks.servers import Server

LINE = re.compile(r"^(?P<name>[\w:]+)(?:\{(?P<labels>[^}]*)\})?\s+(?P<value>\S+)$")


def samples(page: str, model: str) -> dict[str, float]:
    """Every series of that model (and every series without a model), summed over other labels except buckets."""
    result: dict[str, float] = {}
    for line in page.splitlines():
        match = LINE.match(line)
        if match is None or match["name"].endswith("_bucket"):
            continue
        labels = match["labels"] or ""
        if "model" not in labels or f'"{model}"' in labels:
            result[match["name"]] = result.get(match["name"], 0.0) + float(match["value"])
    return result


def of(server: Server, model: str) -> dict[str, float] | None:
    """None where the server has no metrics."""
    page = server.get("/metrics")
    return None if page is None else samples(page, model)


def between(before: Mapping[str, float] | None, after: Mapping[str, float] | None) -> float | None:
    """Mean share of the slots that a step worked on: rows of all steps over steps times slots. None where the
    counters are not there or nothing was stepped."""
    if before is None or after is None:
        return None
    rows = _grown(before, after, r"step_rows(_total)?$")
    steps = _grown(before, after, r"step\w*_count$")
    slots = [value for name, value in after.items() if re.search(r"(^|[:_])slots$", name)]
    if not rows or not steps or not slots or not slots[0]:
        return None
    return rows / steps / slots[0]


def _grown(before: Mapping[str, float], after: Mapping[str, float], pattern: str) -> float | None:
    names = [name for name in after if re.search(pattern, name)]
    return sum(after[name] - before.get(name, 0.0) for name in names) if names else None
