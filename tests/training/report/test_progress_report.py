"""What a run leaves behind: metrics.jsonl, the curves and the model card."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from matplotlib.figure import Figure

from models import checkpoint as checkpoints
from tests.training.small import CPU, pairs, translator
from training.data.progress_bar import ProgressBar
from training.progress import Validation
from training.report.card_writer import processor_name, source_revision
from training.report.progress_report import ProgressReport, draw_curves, read_rows
from training.training_run import TrainingRun
from training.translator_run import train_translator


def test_a_log_line_is_the_mean_over_tokens_since_the_last(tmp_path: Path) -> None:
    report = ProgressReport(tmp_path, "", quiet=True)
    report.step(1, 1, 4.0, 10, 0.1, 0.0)
    report.step(2, 1, 1.0, 30, 0.2, 0.5)
    report.log(1.234)
    report.log(9.0)  # nothing new: no line
    report.step(3, 2, 2.0, 5, 0.3, 1.0)
    report.validation({"update": 3, "epoch": 2, "seconds": 2.0}, Validation(1.5))
    report.close()
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert all(line.pop("tokens_per_second", 1) > 0 for line in lines)
    assert lines == [
        {"update": 2, "epoch": 1, "rate": 0.2, "loss": 1.75, "seconds": 1.23},
        {"update": 3, "epoch": 2, "rate": 0.3, "loss": 2.0, "seconds": 2.0},
        {"update": 3, "epoch": 2, "valid_loss": 1.5, "valid_perplexity": pytest.approx(4.4816891), "seconds": 2.0},
    ]


def test_resume_removes_lines_of_later_updates(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"update": 1, "loss": 3.0}\n{"update": 2, "loss": 2.0}\n{"update": 4, "loss": 1.0}\n{"upd')
    report = ProgressReport(tmp_path, "", quiet=True)
    report.resumed(3, loss=12.0, tokens=4, last={"update": 3}, validated=0)
    assert path.read_text() == '{"update": 1, "loss": 3.0}\n{"update": 2, "loss": 2.0}\n'
    report.step(4, 0, 1.0, 4, 0.1, 0.0)
    report.log(5.0)
    assert read_rows(path)[-1]["loss"] == 2.0  # (12 + 4 * 1) / 8


def test_a_resumed_run_without_a_log_starts_one(tmp_path: Path) -> None:
    ProgressReport(tmp_path, "", quiet=True).resumed(2, 0.0, 0, {"update": 2}, validated=0)
    assert read_rows(tmp_path / "metrics.jsonl") == []


def test_bar_shows_loss_speed_and_validation(capsys: pytest.CaptureFixture[str]) -> None:
    report = ProgressReport(None, "de→en", loss_name="label-smoothed loss", sentences=40)
    report.step(1, 1, 2.5, 10, 0.1, 0.25)
    report.validation({"update": 1, "epoch": 1, "seconds": 1.0}, Validation(0.0, 12.5))
    report.step(2, 2, 1.25, 30, 0.1, 0.5)
    report.close()
    output = capsys.readouterr().err
    assert "de→en" in output
    assert "50%" in output
    assert "epoch 2, label-smoothed loss 1.562 (mean of 2 updates)" in output
    assert "held-out perplexity 1.00, BLEU 12.50 (40 sentences)" in output


def test_bar_of_a_resumed_run_refreshes_as_often(capsys: pytest.CaptureFixture[str]) -> None:
    report = ProgressReport(None, "")
    report.bar.mininterval = 0.0
    for update in range(5):
        report.step(update, 4, 2.0 + update, 10, 0.1, 0.5 + update / 100)
    heard = capsys.readouterr().err
    assert [f"loss {loss:.3f} (mean of {n} update" in heard for n, loss in enumerate((2, 2.5, 3, 3.5, 4), start=1)] == [
        True
    ] * 5


def test_log_file_gets_whole_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of several bars at once, as the training of the demo models has them."""
    log = io.StringIO()
    monkeypatch.setattr("sys.stderr", log)
    report = ProgressReport(None, "de→en")
    below = ProgressBar(total=100, desc="reading", position=2, leave=False)
    for bar in (report.bar, below):
        bar.mininterval = 0.0
    report.step(1, 1, 2.5, 10, 0.1, 0.25)
    report.note("Trains with PyTorch.")
    below.update(50)
    report.finished()
    for bar in (report, below):
        bar.close()
        bar.close()
    first, note, reading, finished, closed = log.getvalue().splitlines()
    assert [first[:12], note, finished[:12]] == ["de→en  25% |", "Trains with PyTorch.", "de→en 100% |"]
    assert reading.startswith("reading:  50%|")
    assert closed.startswith("de→en 100% |")
    assert not {"\r", "\x1b"} & set(log.getvalue())


def test_terminal_gets_one_line_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    with ProgressBar(total=10, desc="reading", file=terminal) as bar:
        bar.mininterval = 0.0
        bar.update(5)
        bar.note("A note.")
    assert terminal.getvalue().count("\r") >= 3
    assert "A note.\n" in terminal.getvalue()


def test_curves_equal_the_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures: list[Figure] = []
    original = Figure.savefig

    def keep(self: Figure, *arguments: object, **options: object) -> None:
        figures.append(self)
        original(self, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Figure, "savefig", keep)
    metrics = [{"update": n, "loss": 4 / n} for n in range(1, 9)] + [{"update": n, "valid_loss": 5 / n} for n in (4, 8)]
    draw_curves(metrics, tmp_path / "curves.png")
    data = (tmp_path / "curves.png").read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert len(data) > 5000
    assert len(figures[0].axes) == 1
    training, held_out = figures[0].axes[0].lines
    assert (list(training.get_xdata()), list(training.get_ydata())[:2]) == (list(range(1, 9)), [4.0, 2.0])
    assert (list(held_out.get_xdata()), list(held_out.get_ydata())) == ([4, 8], [1.25, 0.625])
    assert [line.get_label() for line in (training, held_out)] == [
        "training, with dropout and any label smoothing",
        "held out, without, best 0.625 at update 8",
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw_curves([], tmp_path / "none.png")
    assert (tmp_path / "none.png").read_bytes().startswith(b"\x89PNG")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("model with space") / "模型"
    arguments = ["-m", "translator", "--train", "my pairs.tsv", "--out", str(out)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", arguments)
        given = pairs(40)
        data = type(given)(given.sources, given.targets, "my pairs.tsv")
        train_translator(translator(), data, pairs(10, seed=1), TrainingRun(out=out, device=CPU, quiet=True))
    return out


def test_files_of_a_finished_run(model: Path) -> None:
    assert sorted(path.name for path in model.iterdir()) == [
        "README.md",
        "config.json",
        "config.sha256",
        "corpus.json",
        "curves.png",
        "metrics.jsonl",
        "model.safetensors",
        "notices.json",
        "resume",
        "run.toml",
        "samples.jsonl",
        "samples.md",
        "source.json",
        "stand_ins.json",
        "target.json",
    ]
    assert checkpoints.read(model).stand_ins.keys() == {("aa", "bb")}
    assert len((model / "curves.png").read_bytes()) > 5000
    rows = read_rows(model / "metrics.jsonl")
    assert [row["epoch"] for row in rows if "loss" in row] == [1, 2, 3, 4]
    assert len([row for row in rows if "valid_loss" in row]) == 4
    assert rows[-1] == {**rows[-1], "event": "end", "reason": "ended by the limit of 4 epochs", "epoch": 4}


def test_card_states_data_recipe_scores_and_limits(model: Path) -> None:
    card = (model / "README.md").read_text()
    config = json.loads((model / "config.json").read_text())
    scores = config["scores"]["validation (greedy)"]
    assert "\n# aa → bb\n" in card
    assert re.search(r"- Data: my pairs.tsv: \d+ pairs, of which \d+ were left out; validation on made up\n", card)
    assert f"Recipe: `small`, {config['parameters']:,} parameters, seed 1\n" in card
    assert f"- bleu: `{scores['signature']}`" in card
    assert f"- bleu lowercased: `{scores['signature_lowercased']}`" in card
    assert f"Source revision: {source_revision()}" in card
    assert f"torch {torch.__version__}" in card
    assert re.search(rf"{re.escape(processor_name())}, {os.cpu_count()} cores?, 1 thread, ", card)
    assert "Licence: not stated; that of the training data decides" in card
    assert "ended by the limit of 4 epochs; kept: the weights of update " in card
    assert f"`python -m training translator --train 'my pairs.tsv' --out '{model}'`" in card


def test_the_score_table_has_a_cell_for_every_score(model: Path) -> None:
    card = (model / "README.md").read_text()
    scores = json.loads((model / "config.json").read_text())["scores"]["validation (greedy)"]
    section = card.split("## Scores\n")[1].split("\n## ")[0]
    head, _, row = (line for line in section.splitlines() if line.startswith("|"))
    names = [name for name in scores if not name.startswith("signature")]
    assert [cell.strip() for cell in head.split("|")] == ["", "measured on", *(n.replace("_", " ") for n in names), ""]
    assert [cell.strip() for cell in row.split("|")] == [
        "",
        "validation (greedy)",
        *(str(scores[n]) for n in names),
        "",
    ]


def test_card_holds_the_full_configuration(model: Path) -> None:
    card = (model / "README.md").read_text()
    shown = json.loads(card.split("```json\n")[1].split("```")[0])
    assert shown == json.loads((model / "config.json").read_text())["training"]
    assert shown["network"] == translator().network


def test_revision_without_git_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: object, **__: object) -> None:
        raise FileNotFoundError("git")

    monkeypatch.setattr(subprocess, "run", absent)
    assert source_revision.__wrapped__() == "unknown"
