"""TensorBoard events are read back as they were written; without the package there is a sentence."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from tests.training.cli.commands import SING, refused
from training.report import progress_report
from training.report.progress_report import EVENT_TAGS, ProgressReport

pytestmark = pytest.mark.usefixtures("no_curves")


def read(folder: Path) -> dict[tuple[str, int], float]:
    """(tag, step) -> value, from the records of every event file. A record: its length, a checksum, the event, a
    checksum. A later session's file overrules an earlier one's, and hides its steps from where it starts."""
    proto = pytest.importorskip("tensorboardX.proto.event_pb2")
    result: dict[tuple[str, int], Any] = {}
    for path in sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns):
        data = path.read_bytes()
        while data:
            (length,) = struct.unpack("<Q", data[:8])
            event = proto.Event.FromString(data[12 : 12 + length])
            data = data[16 + length :]
            if event.HasField("session_log"):
                result = {key: value for key, value in result.items() if key[1] < event.step}
            for value in event.summary.value:
                text = value.tensor.string_val
                result[value.tag, event.step] = text[0].decode() if text else value.simple_value
    return result


def test_events_hold_the_metrics(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX", reason="the tests' extra is not installed whole: tensorboardX is missing")
    report = ProgressReport(tmp_path, "", quiet=True, tensorboard=True)
    report.step(1, 0, 4.0, 10, 0.125, 0.0)
    report.validation({"update": 1, "epoch": 1, "seconds": 2.0}, 1.5, 33.5)
    report.samples({"update": 1, "epoch": 1}, [("ein Haus", "a house", "a mouse")])
    report.step(2, 0, 2.0, 10, 0.25, 0.5)
    report.log(3.0)
    report.close()
    result = read(tmp_path / "events")
    assert result[EVENT_TAGS["loss"], 1] == 4.0
    assert result[EVENT_TAGS["loss"], 2] == 2.0
    assert result[EVENT_TAGS["rate"], 2] == 0.25
    assert result[EVENT_TAGS["valid_loss"], 1] == 1.5
    assert result[EVENT_TAGS["valid_bleu"], 1] == 33.5
    assert result[EVENT_TAGS["valid_perplexity"], 1] == pytest.approx(4.4816891)
    assert "a mouse" in str(result["samples/text_summary", 1])
    again = ProgressReport(tmp_path, "", quiet=True, tensorboard=True)
    again.resumed(1, 0.0, 0)
    again.close()
    assert {step for _, step in read(tmp_path / "events")} == {1}


def test_tensorboard_without_its_package_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_report, "find_spec", lambda name: None)
    message = refused(capsys, *SING, "--tensorboard", "--max-epochs", "0")
    assert "--tensorboard needs the package tensorboardX: pip install tensorboardX" in message
    assert "loop.max_epochs must be at least 1, not 0" in message
    assert not (here / "m").exists()
