from __future__ import annotations

import functools
import json
from pathlib import Path

import pytest

from benchmarks import against
from models.backends.native import build
from models.backends.native.build import AMX


def test_checkouts_take_turns() -> None:
    order: list[str] = []
    runs = against.in_turns(3, [functools.partial(lambda name: order.append(name) or 1.0, name) for name in "ab"])
    assert "".join(order) == "abbaab"
    assert runs == ([1.0] * 3, [1.0] * 3)


@pytest.mark.parametrize(("better", "ratio"), [("higher", 2.0), ("lower", 0.5)])
def test_a_ratio_above_one_is_faster(better: str, ratio: float) -> None:
    row = against.row("x", "unit", ([1.0, 2.0, 4.0], [2.0, 4.0, 8.0]), better)
    assert (row["baseline"], row["candidate"], row["ratio"], row["quartiles"]) == (2.0, 4.0, ratio, [ratio, ratio])


def test_rates_of_a_run_that_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert against.rates_of(out) == []
    out.mkdir()
    lines = [
        {"tokens_per_second": 10.0, "seconds": 2.0},
        {"valid_loss": 1},
        {"tokens_per_second": 20.0, "seconds": 5.0},
    ]
    (out / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"tokens_per_')
    assert against.rates_of(out) == [(10.0, 2.0), (20.0, 3.0)]


def test_kernels_that_this_machine_does_not_run_end_it_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(build, "cpu_flags", lambda: AMX.needed - {"amx_int8"})
    with pytest.raises(SystemExit):
        against.main(["--baseline", ".", "--native", "none", "amx"])
    assert "The kernels none were not loaded" in capsys.readouterr().err
    assert against.missing_kernels(["amx"]) == 'PARLANCE_NATIVE is "amx": this CPU does not have amx_int8.'
