"""What experiment trackers are sent is read back from their own files; without the package there is a sentence."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.training.cli.commands import SING, refused
from training.loop.progress import Sample
from training.report import experiment_trackers
from training.report.experiment_trackers import METRIC_NAMES, ExperimentTracker, open_trackers
from training.report.progress_report import ProgressReport

pytestmark = pytest.mark.usefixtures("no_curves")


def read(folder: Path) -> dict[tuple[str, int], float]:
    """(tag, step) -> value, from the records of every event file. A record: its length, a checksum, the event, a
    checksum. A later session's file overrules an earlier one's, and hides its steps from where it starts."""
    proto = pytest.importorskip("tensorboardX.proto.event_pb2", reason="extra tensorboard brings tensorboardX")
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


def opened(folder: Path, name: str, *, resume: bool = False) -> dict[str, ExperimentTracker]:
    return open_trackers({name: "a project"}, folder, {"optimizer": {"rate": 0.1}}, resume=resume)


def test_events_hold_the_metrics(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX", reason="the tests' extra is not installed whole: tensorboardX is missing")
    report = ProgressReport(tmp_path, "", quiet=True, trackers=opened(tmp_path, "tensorboard"))
    report.step(1, 0, 4.0, 10, 0.125, 0.0)
    report.validation({"update": 1, "epoch": 1, "seconds": 2.0}, 1.5, 33.5)
    report.samples({"update": 1, "epoch": 1}, [("ein Haus", "a house", "a mouse")])
    report.step(2, 0, 2.0, 10, 0.25, 0.5)
    report.log(3.0)
    report.close()
    result = read(tmp_path / "events")
    assert result[METRIC_NAMES["loss"], 1] == 4.0
    assert result[METRIC_NAMES["loss"], 2] == 2.0
    assert result[METRIC_NAMES["rate"], 2] == 0.25
    assert result[METRIC_NAMES["valid_loss"], 1] == 1.5
    assert result[METRIC_NAMES["valid_bleu"], 1] == 33.5
    assert result[METRIC_NAMES["valid_perplexity"], 1] == pytest.approx(4.4816891)
    assert "a mouse" in str(result["samples/text_summary", 1])
    again = ProgressReport(tmp_path, "", quiet=True, trackers=opened(tmp_path, "tensorboard", resume=True))
    again.resumed(1, 0.0, 0)
    again.close()
    assert {step for _, step in read(tmp_path / "events")} == {1}


def test_a_resumed_run_goes_on_in_its_run_of_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="extra mlflow brings it")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    train_twice(tmp_path, "mlflow")
    client = mlflow.MlflowClient()
    (run,) = client.search_runs([client.get_experiment_by_name("a project").experiment_id])
    assert run.info.run_name == "run"
    assert run.info.status == "FINISHED"
    assert run.data.params["optimizer.rate"] == "0.1"
    history = client.get_metric_history(run.info.run_id, METRIC_NAMES["loss"])
    assert [(each.step, each.value) for each in history] == [(1, 4.0), (2, 2.0), (2, 3.0)]
    assert [file.path for file in client.list_artifacts(run.info.run_id, "samples")] == ["samples/update-1.md"]


@pytest.mark.slow
def test_a_resumed_run_goes_on_in_its_run_of_wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb", reason="extra wandb brings it")
    from wandb.proto import wandb_internal_pb2

    for name, value in {"WANDB_MODE": "offline", "WANDB_DIR": str(tmp_path), "WANDB_SILENT": "true"}.items():
        monkeypatch.setenv(name, value)
    train_twice(tmp_path, "wandb")
    wandb.teardown()  # its service has written all
    sessions = sorted((tmp_path / "wandb").glob("offline-run-*/*.wandb"), key=lambda path: path.stat().st_mtime_ns)
    assert len({path.name for path in sessions}) == 1
    points, options = [], set()
    for path in sessions:
        for data in log_records(path.read_bytes()[7:]):
            record = wandb_internal_pb2.Record.FromString(data)
            row = {item.key or "/".join(item.nested_key): item.value_json for item in record.history.item}
            if METRIC_NAMES["loss"] in row:
                points.append((int(row["update"]), float(row[METRIC_NAMES["loss"]])))
            options |= {(item.key, item.value_json) for item in record.run.config.update}
    assert points == [(1, 4.0), (2, 2.0), (2, 3.0)]
    assert ("optimizer.rate", "0.1") in options


def log_records(data: bytes, header: int = 7, block: int = 32_768) -> Iterator[bytes]:
    """Of a file in LevelDB's log format behind a `header` of so many bytes: checksum, length, kind (whole, first,
    middle, last part), data; no part crosses a block."""
    at, whole = 0, b""
    while at + 7 <= len(data):
        if (left := block - (at + header) % block) < 7:
            at += left
            continue
        length, kind = struct.unpack("<HB", data[at + 4 : at + 7])
        whole += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            yield whole
            whole = b""


def train_twice(folder: Path, tracker: str) -> None:
    """Two updates, then a session that resumes from the first of them."""
    run = folder / "run"
    run.mkdir()
    report = ProgressReport(run, "", quiet=True, trackers=opened(run, tracker))
    for update, loss in ((1, 4.0), (2, 2.0)):
        report.step(update, 0, loss, 10, 0.125, 0.0)
        report.log(1.0)
        if update == 1:
            report.samples({"update": 1, "epoch": 1}, [("ein Haus", "a house", "a mouse")])
    report.close()
    time.sleep(1.1 if tracker == "wandb" else 0)  # its offline folders are named by the second
    again = ProgressReport(run, "", quiet=True, trackers=opened(run, tracker, resume=True))
    again.resumed(1, 0.0, 0)
    again.step(2, 0, 3.0, 10, 0.125, 0.0)
    again.log(1.0)
    again.finished()
    again.close()


def test_a_tracker_that_fails_is_left_out(tmp_path: Path) -> None:
    class Lost:
        calls = 0

        def log(self, update: int, metrics: Mapping[str, float]) -> None:
            self.calls += 1
            raise ConnectionError("Cannot reach tracker.example. Retried 7 times.")

        def log_samples(self, update: int, samples: Sequence[Sample], markdown: str) -> None: ...
        def resumed(self, update: int) -> None: ...
        def close(self, *, finished: bool) -> None:
            self.calls += 1

    lost, notes = Lost(), list[str]()
    report = ProgressReport(tmp_path, "", quiet=True, trackers={"mlflow": lost})
    report.note = notes.append  # type: ignore[method-assign]
    for update in (1, 2):
        report.step(update, 0, 4.0, 10, 0.125, 0.0)
        report.log(1.0)
    report.close()
    assert lost.calls == 1
    assert notes == [
        "--mlflow: Cannot reach tracker.example. The run goes on without it; metrics.jsonl has what it was sent."
    ]
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("option", "package"), [("--tensorboard", "tensorboardX"), ("--wandb", "wandb"), ("--mlflow", "mlflow")]
)
def test_a_tracker_without_its_package_is_refused(
    option: str, package: str, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experiment_trackers, "find_spec", lambda name: None)
    message = refused(capsys, *SING, option, "--max-epochs", "0")
    assert f"{option} needs the package {package}: pip install {package}" in message
    assert "loop.max_epochs must be at least 1, not 0" in message
    assert not (here / "m").exists()


@pytest.mark.slow  # the import
def test_wandb_without_a_login_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb", reason="extra wandb brings it").teardown()  # it remembers the mode of an earlier run
    for name in ("WANDB_MODE", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(here / "netrc"))
    message = refused(capsys, *SING, "--wandb")
    assert "--wandb: No API key configured. Log in with `wandb login`, or set WANDB_MODE=offline" in message
    assert not (here / "m").exists()
