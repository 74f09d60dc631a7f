from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import kernel_resources
from benchmarks.kernel_resources import occupancy
from models.backends.cuda.build import Cubin


def test_occupancy_is_that_of_nvidias_calculator() -> None:
    def of(arch: int, threads: int, registers: int, shared: int) -> float:
        return occupancy(arch, Cubin(b"", "", shared, threads, ()), registers)

    assert of(80, 128, 32, 0) == 1.0
    assert of(80, 128, 255, 0) == 0.125  # 2 blocks: registers
    assert of(90, 128, 64, 65_536) == 3 * 128 / 2048  # shared memory
    assert of(120, 1024, 32, 0) == 1024 / 1536  # threads


@pytest.mark.slow
def test_every_kernel_and_step_is_a_row(tmp_path: Path) -> None:
    pytest.importorskip("triton", reason="Triton is for Linux on x86-64")
    kernel_resources.main(["--shape", "tiny", "--arch", "90", "--out", str(tmp_path / "rows.json")])
    result = json.loads((tmp_path / "rows.json").read_text())
    steps = [row for row in result["rows"] if "launches" in row]
    assert [row["launches"] for row in steps] == [4 * 8 + 3] * 4
    assert all(1 <= row["over the least"] < 2 for row in steps)
    kernels = [row for row in result["rows"] if "registers" in row]
    assert {row["kernel"] for row in kernels} == {"embed", "linear", "attend_own", "attend_source", "choose"}
    assert all(16 <= row["registers"] <= 255 and row["stack"] == 0 for row in kernels)
