"""Samples of each validation: kept in samples.jsonl, readable in samples.md, forgotten by a resume."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from models import checkpoint as checkpoints
from models.networks.loading import load_network
from tests.training.runs import sing
from training.evaluation.bleu_validator import validation_sample
from training.evaluation.model_outputs import sample_lyrics
from training.progress import Validation
from training.report import progress_report as reports
from training.report.progress_report import ProgressReport

pytestmark = pytest.mark.usefixtures("no_curves")


def test_samples_are_listed_by_sentence_in_order(tmp_path: Path) -> None:
    report = ProgressReport(tmp_path, "", quiet=True)
    report.samples({"update": 1, "epoch": 1}, [])
    assert not (tmp_path / "samples.jsonl").exists()
    report.samples({"update": 10, "epoch": 1}, [("ein Haus", "a house", "a | mouse"), ("*zwei*", "two", "")])
    report.samples({"update": 20, "epoch": 1}, [("ein Haus", "a house", "a house"), ("*zwei*", "two", "two\nlines")])
    rows = [json.loads(line) for line in (tmp_path / "samples.jsonl").read_text().splitlines()]
    assert [row["update"] for row in rows] == [10, 20]
    assert rows[1]["samples"] == [["ein Haus", "a house", "a house"], ["*zwei*", "two", "two\nlines"]]
    readable = (tmp_path / "samples.md").read_text()
    assert (
        "## ein Haus\n\nReference: a house\n\n| update | epoch | text |\n|---:|---:|---|\n| 10 | 1 | a \\| mouse |\n"
        in readable
    )
    assert "## \\*zwei\\*\n" in readable
    assert "| 10 | 1 | (nothing) |\n| 20 | 1 | two<br>lines |\n" in readable


def test_resume_removes_later_samples(tmp_path: Path) -> None:
    report = ProgressReport(tmp_path, "", quiet=True)
    for update in (10, 20, 30):
        report.samples({"update": update, "epoch": 1}, [("a", "b", str(update))])
    again = ProgressReport(tmp_path, "", quiet=True)
    again.resumed(20, 0.0, 0, {"update": 20}, validated=20)
    again.samples({"update": 30, "epoch": 1}, [("a", "b", "new")])
    rows = [json.loads(line) for line in (tmp_path / "samples.jsonl").read_text().splitlines()]
    assert [(row["update"], row["samples"][0][2]) for row in rows] == [(10, "10"), (20, "20"), (30, "new")]


def test_lyrics_samples_are_reproducible_and_leave_random_state_alone(whole: Callable[..., Path]) -> None:
    checkpoint = checkpoints.read(whole(sing))
    network = load_network(checkpoint)
    before = torch.get_rng_state()
    first = validation_sample(checkpoint, network, "\nabcabc\ndef", seed=3)
    assert torch.equal(torch.get_rng_state(), before)
    assert first == validation_sample(checkpoint, network, "\nabcabc\ndef", seed=3)
    ((opening, reference, text),) = first
    assert (opening, reference, len(text)) == ("abcabc", "", 120)
    assert set(text) <= set("abcdef\n")
    assert validation_sample(checkpoint, network, "\nabcabc\ndef", seed=4) != first
    both = sample_lyrics(checkpoint, network, ["a", "b"], 30, temperature=0.8, seed=1)
    assert both[1] == sample_lyrics(checkpoint, network, ["b"], 30, temperature=0.8, seed=2)[0]


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(reports.time, "monotonic", lambda: self.now)
        monkeypatch.setattr("tqdm.std.time", lambda: self.now)


def test_speed_excludes_earlier_sessions_and_validations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    report = ProgressReport(tmp_path, "", quiet=True)
    clock.now += 50  # the snapshot is read
    report.resumed(40, loss=99.0, tokens=1_000_000, last={"update": 40}, validated=0)
    clock.now += 2
    report.step(41, 0, 1.0, 100, 0.1, 0.5)
    clock.now += 60  # a validation
    report.validation({"update": 41, "epoch": 1, "seconds": 0.0}, Validation(1.0))
    clock.now += 2
    report.step(42, 0, 1.0, 300, 0.1, 0.51)
    report.log(0.0)
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [row["tokens_per_second"] for row in rows if "loss" in row] == [50.0, 150.0]


def test_remaining_time_accounts_for_validation_and_resume(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = Clock(monkeypatch)
    report = ProgressReport(None, "run")
    report.resumed(40, 0.0, 0, {"update": 40}, validated=40)
    report.bar.mininterval = 0
    for update in range(5):  # from 50 % on, one percent in 10 s of training and 2 s of validation
        clock.now += 10
        report.step(41 + update, 0, 1.0, 10, 0.1, 0.5 + update / 100)
        clock.now += 2
        report.validation({"update": 41 + update, "epoch": 1, "seconds": 0.0}, Validation(1.0))
    clock.now += 10
    report.step(46, 0, 1.0, 10, 0.1, 0.55)
    report.close()
    last = capsys.readouterr().err.rsplit("run", 1)[1]
    assert " 55% " in last
    assert re.search("01:10, 10:(29|30) left", last)  # five percent took 70 s: the rest takes nine times as long
