"""A run records how its network's code was edited, and the commands that use its model notice another code."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from models import checkpoint as checkpoints
from models.networks.transformer import FeedForward
from tests.training.runs import translate
from training.__main__ import main

pytestmark = pytest.mark.usefixtures("no_curves")


def test_commands_notice_weights_of_other_code(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "test.tsv").write_text("a b c\tC B A\n")
    model, forward = str(tmp_path / "edited"), FeedForward.forward
    commands = [
        ["evaluate", model, "--test", f"{tmp_path}/test.tsv", "--device", "cpu"],
        ["translate", model, f"{tmp_path}/test.tsv", "--device", "cpu"],
    ]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(FeedForward, "forward", lambda self, x: forward(self, x).square())
        translate(tmp_path / "edited", 1)
        assert [main(command) for command in commands] == [0, 0]
        assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert list(checkpoints.read_config(tmp_path / "edited").edited_code) == ["FeedForward.forward"]
    for command in commands:
        caplog.clear()
        assert main(command) == 0
        [warning] = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
        assert "edited were trained with other code than runs here (FeedForward.forward)" in warning, command


def test_unedited_network_has_no_record(tmp_path: Path) -> None:
    translate(tmp_path / "plain", 1)
    assert checkpoints.read_config(tmp_path / "plain").edited_code == {}
