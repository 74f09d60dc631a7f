"""What a run measured, thinned; and whatever else may lie in its place."""

from __future__ import annotations

import asyncio
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from app.engine.registry import training_curves
from app.engine.registry.training_curves import Curve, CurveReader, TrainingCurves, read_curves, thinned_indices
from training.progress import Validation
from training.report.progress_report import METRICS_FILE, ProgressReport, append_row, read_rows

TOO_LARGE = (
    "demo/metrics.jsonl has more than 8,000,000 bytes or 100,000 lines, the most that are read; keep fewer lines."
)


def folder(root: Path, *lines: Any) -> Path:
    made = root / "demo"
    made.mkdir(exist_ok=True)
    texts = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    (made / "metrics.jsonl").write_bytes(b"\n".join(texts))
    return made


def test_each_quantity_has_updates_and_epochs(tmp_path: Path) -> None:
    result = read_curves(
        folder(
            tmp_path,
            {"update": 50, "epoch": 0, "rate": 0.002, "loss": 5.140670116638045, "seconds": 12.8},
            {"update": 50, "valid_loss": 4.5, "valid_perplexity": 90.0, "valid_bleu": 1.25},
            {"update": 100, "epoch": 1, "rate": 0.001, "loss": 2.1966067},
            {"update": 100, "valid_loss": 2.25, "valid_bleu": 30.5},
            {"update": 100, "epoch": 1, "event": "end", "reason": "ended by the limit of 2 epochs"},
        )
    )
    assert result == TrainingCurves(
        "demo",
        (
            Curve("loss", "training loss", "nats per token", (50, 100), (0, 1), (5.14067, 2.19661), 2),
            Curve("valid_loss", "held-out loss", "nats per token", (50, 100), (0, 1), (4.5, 2.25), 2),
            Curve("valid_bleu", "held-out BLEU", "BLEU", (50, 100), (0, 1), (1.25, 30.5), 2),
            Curve("rate", "learning rate", None, (50, 100), (0, 1), (0.002, 0.001), 2),
        ),
    )


def test_curves_of_a_training_run_are_read(tmp_path: Path) -> None:
    report = ProgressReport(tmp_path, "a run", quiet=True)
    for update in range(1, 5):
        report.step(update, update // 3, 4.0 / update, 10, 0.001 * update, update / 4)
        report.log(float(update))
    report.validation({"update": 4, "epoch": 1, "seconds": 5.0}, Validation(0.5, 12.5))
    report.close()
    assert len(read_rows(tmp_path / METRICS_FILE)) == 5
    loss, valid_loss, bleu, rate = read_curves(tmp_path).curves
    assert (loss.updates, loss.epochs, loss.values) == ((1, 2, 3, 4), (0, 0, 1, 1), (4.0, 2.0, 1.33333, 1.0))
    assert rate.values == (0.001, 0.002, 0.003, 0.004)
    assert (valid_loss.updates, valid_loss.epochs, valid_loss.values, bleu.values) == ((4,), (1,), (0.5,), (12.5,))


def test_lines_that_are_no_measurement_are_counted_and_left_out(tmp_path: Path) -> None:
    good = {"update": 7, "loss": 1.5}
    bad: list[Any] = [
        b'{"update": 8, "loss": 1.',
        b'\xff\xfe{"update": 8}',
        b'["update"]',
        b'"update"',
        b'{"update": ' + b"[" * 9000,
        b'{"update": 8, "loss": 1.0, "all": "' + b"x" * 10_000 + b'"}',
        b'{"update": 8, "loss": 1' + b"0" * 5000 + b"}",
        b'{"update": 8, "loss": 1' + b"0" * 400 + b"}",
        b'{"loss": {"update": 8}}',
        {"update": -1, "loss": 1.0},
        {"update": 1.5, "loss": 1.0},
        {"update": True, "loss": 1.0},
        {"update": 1 << 70, "loss": 1.0},
        {"update": 8, "loss": "1.0"},
        {"update": 8, "loss": True},
        {"update": 8, "seconds": 1.0},
        {"loss": 1.0},
        b"\0",
    ]
    result = read_curves(folder(tmp_path, *bad[:9], good, b"", b"  ", *bad[9:]))
    assert result.left_out == len(bad)
    assert [(curve.name, curve.updates, curve.values) for curve in result.curves] == [("loss", (7,), (1.5,))]
    assert result.reason is None


def test_non_numbers_become_none_in_place(tmp_path: Path) -> None:
    odd = [b"NaN", b"Infinity", b"-Infinity", b"1e999", b"null"]
    lines = [b'{"update": %d, "epoch": "x", "loss": %s}' % (number, entry) for number, entry in enumerate(odd)]
    (loss,) = read_curves(folder(tmp_path, *lines, {"update": 5, "loss": 2})).curves
    assert loss.values == (None, None, None, None, None, 2.0)
    assert loss.epochs == (None,) * 6


def test_lines_out_of_order_are_put_in_order(tmp_path: Path) -> None:
    (loss,) = read_curves(folder(tmp_path, *({"update": u, "loss": u / 10, "epoch": u // 4} for u in (9, 2, 5)))).curves
    assert (loss.updates, loss.values, loss.epochs) == ((2, 5, 9), (0.2, 0.5, 0.9), (0, 1, 2))


@pytest.mark.parametrize("count", [1, 2, 499, 500, 501, 502, 998, 999, 1000, 1003, 20_000])
def test_thinning_keeps_the_ends_and_the_extremes(count: int) -> None:
    rng = random.Random(count)
    values: list[float | None] = [rng.gauss(0, 1) for _ in range(count)]
    for place in (rng.randrange(count), rng.randrange(count)):
        values[place] = rng.choice([-100.0, 100.0])  # a peak of one point
    kept = thinned_indices(values, 500)
    assert kept == sorted(set(kept))
    assert len(kept) == count if count <= 500 else 400 <= len(kept) <= 500
    assert {0, count - 1} <= set(kept)
    shown = [entry for place in kept if (entry := values[place]) is not None]
    numbers = [value for value in values if value is not None]
    assert (min(shown), max(shown)) == (min(numbers), max(numbers))


def test_thinning_of_curves_with_gaps() -> None:
    values = [None if 100 <= place < 3000 else float(place) for place in range(4000)]
    kept = thinned_indices(values, 500)
    assert len(kept) <= 500
    assert [values[place] for place in (kept[0], kept[-1])] == [0.0, 3999.0]
    assert sum(values[place] is None for place in kept) > 100  # thinning keeps the gap
    assert len(thinned_indices([None] * 4000, 500)) <= 500


def test_a_long_journal_is_thinned(tmp_path: Path) -> None:
    rows = ({"update": 50 * number, "loss": 1 + 1 / number, "epoch": 0} for number in range(1, 10_001))
    (loss,) = read_curves(folder(tmp_path, *rows)).curves
    assert loss.measured == 10_000
    assert 400 <= len(loss.updates) == len(loss.values) == len(loss.epochs) <= 500
    assert (loss.updates[0], loss.updates[-1], loss.values[0], loss.values[-1]) == (50, 500_000, 2.0, 1.0001)


def test_missing_curves_have_a_reason(tmp_path: Path) -> None:
    journals = CurveReader()

    def reason() -> str | None:
        result = asyncio.run(journals.curves(tmp_path / "demo"))
        assert result.curves == ()
        assert result.model == "demo"
        return result.reason

    absent = "demo has no metrics.jsonl, which a training run leaves in its folder; put it there."
    assert reason() == absent
    path = folder(tmp_path, {"samples": []}) / "metrics.jsonl"
    assert (
        reason()
        == "demo/metrics.jsonl has no line with `update` and one of `loss`, `valid_loss`, `valid_bleu`, `rate`."
    )
    path.unlink()
    assert reason() == absent
    path.mkdir()
    assert reason() == "demo/metrics.jsonl cannot be read (it is no file)."
    path.rmdir()
    os.mkfifo(path)
    assert reason() == "demo/metrics.jsonl cannot be read (it is no file)."
    path.unlink()
    path.symlink_to(path)
    assert "cannot be read (Too many levels of symbolic links)" in str(reason())


def test_a_file_of_a_gigabyte_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder(tmp_path, {"update": 1, "loss": 1.0}) / "metrics.jsonl"
    os.truncate(path, 1 << 30)  # sparse: it takes no room
    calls = list[int]()
    beginning = training_curves.read_beginning
    monkeypatch.setattr(
        training_curves, "read_beginning", lambda path, most: (calls.append(most), beginning(path, most))[1]
    )
    result = read_curves(tmp_path / "demo")
    assert result.curves == ()
    assert result.reason == TOO_LARGE
    assert calls == [8_000_001]


def test_journal_of_millions_of_lines_is_not_read(tmp_path: Path) -> None:
    assert read_curves(folder(tmp_path, *[{"update": 1, "loss": 1.0}] * 3, *[b""] * 100_001)).reason == TOO_LARGE
    assert read_curves(folder(tmp_path, *[{"update": 1, "loss": 1.0}] * 3, *[b""] * 99_000)).curves[0].measured == 3


def test_curves_are_read_again_only_after_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = list[Path]()
    monkeypatch.setattr(training_curves, "read_curves", lambda folder: (times.append(folder), read_curves(folder))[1])

    async def scene() -> list[TrainingCurves]:
        journals, made = CurveReader(), folder(tmp_path, {"update": 1, "loss": 1.0})
        together = await asyncio.gather(*(journals.curves(made) for _ in range(5)))
        append_row(made / "metrics.jsonl", {})  # ends the line
        append_row(made / "metrics.jsonl", {"update": 2, "loss": 0.5})
        return [*together, await journals.curves(made)]

    *first, last = asyncio.run(scene())
    assert len(times) == 2
    assert {entry.curves[0].updates for entry in first} == {(1,)}
    assert last.curves[0].updates == (2,)
