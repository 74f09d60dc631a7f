"""One of a thing is no plural, wherever a run or a card counts it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from tests.training.cli.commands import SHORT, TRANSLATE
from tests.training.counting import Counting, looping
from training.__main__ import main
from training.errors import pluralize
from training.report.card_writer import hardware_summary


@pytest.mark.parametrize(
    ("number", "wanted"),
    [(0, "0 epochs"), (1, "1 epoch"), (2000, "2,000 epochs"), (1.0, "1 epoch"), (0.5, "0.5 epochs")],
)
def test_pluralize(number: float, wanted: str) -> None:
    assert pluralize(number, "epoch") == wanted


def test_limit_of_1_is_singular() -> None:
    assert looping(Counting(), max_epochs=1).run().ended_by == "the limit of 1 epoch"
    ended = looping(Counting([1.0, 2.0]), max_epochs=9, patience=1).run().ended_by
    assert ended == "1 validation without a gain"


def test_hardware_of_one_core_is_singular(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    assert ", 1 core, 1 thread, " in hardware_summary(torch.device("cpu"))


@pytest.mark.usefixtures("no_curves")
def test_card_of_1_epoch_and_1_dropped_pair_is_singular(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = (here / "pairs.tsv").read_text().splitlines()
    (here / "pairs.tsv").write_text("\n".join([*lines, lines[0]]))
    (here / "valid.tsv").write_text("zz yy\tYY ZZ\n")
    assert main([*TRANSLATE, *SHORT, "--valid", "valid.tsv", "--set", "tokens_per_batch=4096"]) == 0
    card = (here / "m" / "README.md").read_text()
    assert ", 1 update, 1 finished epoch; ended by the limit of 1 epoch;" in card
    assert "41 pairs, of which 1 was left out" in card
