"""Training curves of a model: its folder's metrics.jsonl, thinned for plotting. A training run may still be writing the
file, and people edit it: lines that are not measurements are counted and skipped. Files are read in a thread, one at a
time, and only when they have changed."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models.checkpoint import CheckpointConfig
from models.model_card import read_beginning

METRICS = "metrics.jsonl"
CURVES = {
    "loss": ("training loss", "nats per token"),
    "valid_loss": ("held-out loss", "nats per token"),
    "valid_bleu": ("held-out BLEU", "BLEU"),
    "rate": ("learning rate", None),
}
MOST_BYTES, MOST_LINES = 8_000_000, 100_000  # a run writes about 125 bytes per line
MOST_LINE_BYTES = 10_000  # parsing a longer line would hold the GIL for too long
MOST_POINTS = 500
DIGITS = 6  # significant


@dataclass(frozen=True, slots=True)
class Curve:
    """One measured quantity over updates. values: one per update; None for a value that is not finite or an unknown
    epoch. measured: points before thinning, which keeps the first, last, minimum and maximum."""

    name: str
    what: str
    unit: str | None
    updates: tuple[int, ...]
    epochs: tuple[int | None, ...]
    values: tuple[float | None, ...]
    measured: int


@dataclass(frozen=True, slots=True)
class TrainingCurves:
    """All curves of a model. left_out: lines that are neither measurements nor events. reason: why there are none."""

    model: str
    curves: tuple[Curve, ...] = ()
    left_out: int = 0
    reason: str | None = None


def imported_from(config: CheckpointConfig) -> str | None:
    """The origin of a model that another project has trained, with the commit of its repository if it has one."""
    origin, commit = config.training.get("imported_from"), config.training.get("revision")
    if not isinstance(origin, str):
        return None
    return f"{origin} (commit {commit[:7]})" if isinstance(commit, str) else origin


class CurveReader:
    """Caches the curves of each folder until its file changes."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[tuple[int, ...], TrainingCurves]] = {}
        self._turn = asyncio.Lock()  # waiting here takes no thread away from tokenizing

    async def curves(self, folder: Path) -> TrainingCurves:
        async with self._turn:
            return await asyncio.to_thread(self._curves, folder)

    def _curves(self, folder: Path) -> TrainingCurves:
        try:
            now = (folder / METRICS).stat()
            mark = now.st_ino, now.st_size, now.st_mtime_ns
            known = self._known.get(folder)
            if known is None or known[0] != mark:
                known = self._known[folder] = mark, read_curves(folder)
            return known[1]
        except FileNotFoundError:
            reason = f"{folder.name} has no {METRICS}, which a training run leaves in its folder; put it there."
        except OSError as error:
            reason = f"{folder.name}/{METRICS} cannot be read ({error.strerror})."
        return TrainingCurves(folder.name, reason=reason)


def read_curves(folder: Path) -> TrainingCurves:
    """Parses metrics.jsonl of a folder. Raises OSError if it cannot be read."""
    content = read_beginning(folder / METRICS, MOST_BYTES + 1)
    if len(content) > MOST_BYTES or content.count(b"\n") > MOST_LINES:
        most = f"{MOST_BYTES:,} bytes or {MOST_LINES:,} lines"
        large = f"{folder.name}/{METRICS} has more than {most}, the most that are read; keep fewer lines."
        return TrainingCurves(folder.name, reason=large)
    lines = [line for line in content.split(b"\n") if line.strip()]
    rows = [row for line in lines if (row := measurement(line)) is not None]
    rows.sort(key=lambda row: row["update"])
    epoch = None
    for row in rows:  # a validation line has no epoch: take the epoch of the line before
        epoch = row["epoch"] = epoch if row["epoch"] is None else row["epoch"]
    events = sum(b'"event"' in line and _is_event(line) for line in lines)
    found = tuple(curve for name in CURVES if (curve := _curve(name, rows)).measured)
    none = f"{folder.name}/{METRICS} has no line with `update` and one of {', '.join(f'`{name}`' for name in CURVES)}."
    return TrainingCurves(folder.name, found, len(lines) - len(rows) - events, None if found else none)


def measurement(line: bytes) -> dict[str, Any] | None:
    """{update, epoch, and the measured `CURVES`}, non-finite values as None; None for any other line."""
    if b'"update"' not in line or len(line) > MOST_LINE_BYTES:
        return None
    try:
        row = json.loads(line)
        kept = {name: _value(row[name]) for name in CURVES if name in row}
        update, epoch = row["update"], row.get("epoch")
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
    if not kept or not _is_count(update):
        return None
    return {"update": update, "epoch": epoch if _is_count(epoch) else None, **kept}


def _is_event(line: bytes) -> bool:
    """Whether a line says what happened in a run, such as its end, and measures nothing."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(row, dict) and "event" in row and not any(name in row for name in CURVES)


def _value(given: Any) -> float | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise TypeError(f"{given!r} is no number")
    value = float(given)
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 53


def _curve(name: str, rows: Sequence[dict[str, Any]]) -> Curve:
    there = [row for row in rows if name in row]
    shown = [there[index] for index in thinned_indices([row[name] for row in there], MOST_POINTS)]
    updates, epochs, values = (tuple(row[key] for row in shown) for key in ("update", "epoch", name))
    return Curve(name, *CURVES[name], updates, epochs, values, len(there))


def thinned_indices(values: Sequence[float | None], most: int) -> list[int]:
    """At most `most` indices: first, last, and the minimum and maximum of equal stretches between, to keep peaks."""
    inner = len(values) - 2
    if len(values) <= most:
        return list(range(len(values)))
    stretches, kept = (most - 2) // 2, {0, len(values) - 1}
    for number in range(stretches):
        places = range(1 + number * inner // stretches, 1 + (number + 1) * inner // stretches)
        numbers = [(value, place) for place in places if (value := values[place]) is not None]
        kept |= {min(numbers)[1], max(numbers)[1]} if numbers else {places[0]}
    return sorted(kept)
