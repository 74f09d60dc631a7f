"""curves.png: one panel for each thing that was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from training.report.progress_report import draw_curves


def test_loss_bleu_and_rate_have_a_panel_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda self, *_, **__: figures.append(self))
    metrics = [{"update": n, "loss": 4 / n, "rate": n / 10, "epoch": 0} for n in range(1, 5)]
    metrics += [{"update": n, "valid_loss": 3.0, "valid_bleu": bleu} for n, bleu in ((2, 30.0), (4, 20.0))]
    draw_curves(metrics, tmp_path / "curves.png")
    loss, bleu, rate = figures[0].axes
    assert [axes.get_ylabel() for axes in (loss, bleu, rate)] == [
        "loss (nats per token)",
        "BLEU, held out",
        "learning rate",
    ]
    assert [line.get_label() for line in loss.lines] == [
        "training, with dropout and any label smoothing",
        "held out, without, best 3 at update 2",
    ]
    assert list(bleu.lines[0].get_ydata()) == [30.0, 20.0]
    assert bleu.lines[0].get_label() == "greedy, best 30 at update 2"
    assert list(rate.lines[0].get_xdata()) == [1, 2, 3, 4]
    assert rate.get_legend() is None
    assert rate.get_xlabel() == "update"


def test_cool_down_and_end_are_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda self, *_, **__: figures.append(self))
    metrics: list[dict[str, Any]] = [{"update": n, "loss": 4 / n, "rate": n / 10, "epoch": 1} for n in range(1, 9)]
    metrics.append({"update": 6, "event": "cool-down", "reason": "", "from_update": 4, "epoch": 1})
    metrics.append({"update": 8, "event": "end", "reason": "", "epoch": 1})
    draw_curves(metrics, tmp_path / "curves.png")
    for axes in figures[0].axes:
        assert [list(line.get_xdata()) for line in axes.lines[-2:]] == [[6, 6], [8, 8]]
    assert [line.get_label() for line in figures[0].axes[0].lines[-2:]] == [
        "cool-down, from the weights of update 4",
        "end, update 8",
    ]
