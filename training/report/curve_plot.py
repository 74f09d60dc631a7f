"""curves.png: loss, held-out BLEU and learning rate over updates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from training.report.progress_report import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANELS = (
    ("loss (nats per token)", (("loss", "training, under dropout", "C0"), ("valid_loss", "held out", "C1"))),
    ("BLEU, held out", (("valid_bleu", "greedy", "C2"),)),
    ("learning rate", (("rate", "", "C7"),)),
)


def draw_curves(metrics: Sequence[Row], path: Path) -> None:
    """Draws one panel for each measured entry of `PANELS`, stacked."""
    from matplotlib.figure import Figure  # takes a second to import

    measured = {name for row in metrics for name in row}
    panels = [panel for panel in PANELS if any(name in measured for name, _, _ in panel[1])] or list(PANELS[:1])
    heights = [2.0 if index == 0 else 1.0 for index in range(len(panels))]
    figure = Figure(figsize=(8, 1.6 + 1.5 * sum(heights)), layout="constrained")
    grid = figure.subplots(len(panels), 1, sharex=True, squeeze=False, height_ratios=heights)
    for axes, (title, curves) in zip(grid[:, 0], panels, strict=True):
        for name, label, colour in curves:
            _draw_curve(axes, [row for row in metrics if row.get(name) is not None], name, label, colour)
        axes.set_ylabel(title)
        axes.grid(alpha=0.3)
        if axes.get_legend_handles_labels()[1]:
            axes.legend()
    grid[-1, 0].set_xlabel("update")
    figure.align_ylabels()
    figure.savefig(path, dpi=120, metadata={"Software": None})


def _draw_curve(axes: Axes, rows: Sequence[Row], name: str, label: str, colour: str) -> None:
    """Draws a curve; a held-out curve has a marker per validation and a label at its best."""
    if not rows:
        return
    held_out = name.startswith("valid_")
    updates, values = [row["update"] for row in rows], [row[name] for row in rows]
    if held_out:
        best = (max if name == "valid_bleu" else min)(range(len(rows)), key=values.__getitem__)
        label = f"{label}, best {values[best]:.4g} at update {updates[best]:,}"
    axes.plot(updates, values, label=label or None, color=colour, marker="." if held_out or len(rows) < 3 else None)
